"""The delete-one-cell jackknife: an interval from the values of an estimate with each cell left out in turn.

The error is the root of (n-1)/n sum (x_i - mean)^2 over the n cells, the reach that of Student's t with n - 1
degrees of freedom, since there are few cells.
"""

import numpy as np
from scipy.special import stdtrit

from smelt.scaling.fitting.intervals import QUANTILES
from smelt.surfaces.points import Array


def interval(estimate: float, left_out: Array) -> tuple[float, float]:
    """95 % jackknife interval of an estimate from its values with each of n cells left out, (n,)."""
    count = left_out.size
    error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    reach = float(stdtrit(count - 1, QUANTILES[1]) * error)
    return estimate - reach, estimate + reach
