"""Statistics that several stages share: standard errors, intervals, chance-centred scores and sign-flip tests.

Arrays in, numbers out. No function here knows a table.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Array = NDArray[np.float64]
Score = TypeVar("Score", float, Array)

QUANTILES = (0.025, 0.975)  # ends of a 95 % interval
FEW_SEEDS = 5  # evaluation seeds below which a standard error is said to rest on few
EXACT = 20  # most differences of which a sign-flip test counts all patterns: 2^20
CHUNK = 256  # sampled patterns in memory at a time
ROUNDING = 1e-12  # of the sum of all sizes: sums nearer than that are equal


def standard_error(values: Array) -> float | None:
    """Standard error of a mean of values, (n,): their standard deviation (n - 1) over the root of n.

    None for fewer than two values.
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def t_reach(error: float, count: int) -> float:
    """Half-width of the 95 % interval of a mean of `count` values: `error` times Student's t with count - 1 degrees."""
    return float(stdtrit(count - 1, QUANTILES[1]) * error)


class TInterval(NamedTuple):
    """95 % intervals of means by Student's t, and the p-value of no difference from zero, all (...)."""

    low: Array
    high: Array
    p_two_sided: Array


def t_interval(mean: Array, spread: Array, count: NDArray[np.int64]) -> TInterval:
    """Intervals of means, (...), of `count` independent values with the standard deviation `spread` (n - 1).

    NaN where there are fewer than two values or the mean is NaN. Values that do not differ have no width, and p is 0
    or, of a mean of zero, 1.
    """
    several = (count > 1) & ~np.isnan(mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(several, count - 1.0, 1.0)
        error = np.where(several, spread / np.sqrt(count), np.nan)
        reach = stdtrit(freedom, QUANTILES[1]) * error
        ratio = np.where(error == 0, np.where(mean == 0, 0.0, np.inf), np.abs(mean) / error)
    return TInterval(mean - reach, mean + reach, 2 * stdtr(freedom, -ratio))


def jackknife_interval(estimate: float, left_out: Array) -> tuple[float, float]:
    """95 % delete-one jackknife interval of an estimate from its values with each of n units left out, (n,).

    The error is the root of (n - 1)/n sum (x_i - mean)^2 (Efron & Tibshirani 1993, chapter 11). The reach is that of
    Student's t with n - 1 degrees of freedom, since there are few units.
    """
    count = left_out.size
    reach = t_reach(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()), count)
    return estimate - reach, estimate + reach


def t_p(values: Array) -> float:
    """Two-sided p-value that values, (n,), have a mean of zero: Student's t with n - 1 degrees of freedom.

    Raises ValueError for fewer than two values.
    """
    error = standard_error(values)
    if error is None:
        raise ValueError("a mean of fewer than two values has no error")
    mean = float(np.mean(values))
    if error == 0:
        return float(mean == 0)
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error))


def percentile_interval(values: Array) -> tuple[Array, Array]:
    """Both ends, (...), of the 95 % percentile interval over draws, (draws, ...)."""
    low, high = np.quantile(values, QUANTILES, axis=0)
    return low, high


def centred(score: Score, chance: float) -> Score:
    """A score with chance taken out (Eq. 11): 0 for a random answer, 1 for all right, negative below chance."""
    return (score - chance) / (1 - chance)


class SignFlips(NamedTuple):
    """Result of a sign-flip test."""

    p: float  # one-sided: the differences are positive
    p_two_sided: float
    patterns: int  # of signs that the shares are of
    exact: bool  # whether these are all


def sign_flips(differences: NDArray[np.float64], exact: int = EXACT, flips: int = 10_000, seed: int = 0) -> SignFlips:
    """Sign-flip test of paired differences, (n,): their sum against its values under flipped signs.

    Where two models are alike, each difference might as well have come out with the other sign. The p-value is the
    share of all patterns of signs under which the sum is at least as large as the observed one, which is itself among
    them: with n differences p cannot fall below 2^-n.

    All 2^n patterns where n is at most `exact`; else `flips` random ones, with the observed pattern counted among
    them, (1 + count) / (1 + flips), so that p is never 0. A difference of zero does not change any sum, so that only
    the others are flipped. Raises ValueError without any difference.
    """
    if not len(differences):
        raise ValueError("no difference to test")
    moving = differences[differences != 0]
    observed, slack = float(moving.sum()), ROUNDING * float(np.abs(moving).sum())
    if len(moving) <= exact:
        sums = np.zeros(1)
        for value in moving:
            sums = np.concatenate([sums + value, sums - value])
        greater, further = _at_least(sums, observed, slack)
        patterns = 2 ** len(differences) if len(differences) <= exact else len(sums)
        return SignFlips(greater / len(sums), further / len(sums), patterns, True)
    rng = np.random.default_rng(seed)
    greater = further = 1
    for start in range(0, flips, CHUNK):
        signs = rng.integers(2, size=(min(CHUNK, flips - start), len(moving)), dtype=np.int8) * 2 - 1
        more, beyond = _at_least(signs @ moving, observed, slack)
        greater, further = greater + more, further + beyond
    return SignFlips(greater / (1 + flips), further / (1 + flips), 1 + flips, False)


def _at_least(sums: NDArray[np.float64], observed: float, slack: float) -> tuple[int, int]:
    """How many sums are at least the observed one, and how many as far from zero."""
    return int((sums >= observed - slack).sum()), int((np.abs(sums) >= abs(observed) - slack).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values after Holm's step-down adjustment (Holm 1979), in the order given; reject those below the level."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted
