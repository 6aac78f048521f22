"""Frontier and gain by search, for any loss(F, D): the check on the closed forms.

Nothing of a surface's form is used but that, with the compute fixed, its loss falls and then rises in F. A
scan over log F brackets the minimum and scipy closes in on it; the frontier is inverted by bisection.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from smelt.surfaces.frontier import gain_of
from smelt.surfaces.points import Array

Loss = Callable[[Array, Array], Array]  # of FLOPs per token and tokens; nats

REACH = 200.0  # how far from sqrt(C) the minimum is sought, and from C the reference's compute, in natural logs
SCAN = 513


def optimum(loss: Loss, log_compute: float) -> tuple[float, float]:
    """log F* and L* in nats where F D = exp(log_compute)."""

    def along(log_flops: Array) -> Array:
        with np.errstate(over="ignore"):
            return loss(np.exp(log_flops), np.exp(log_compute - log_flops))

    grid = log_compute / 2 + np.linspace(-REACH, REACH, SCAN)
    place = int(np.clip(np.argmin(along(grid)), 1, SCAN - 2))
    end = minimize_scalar(
        lambda log_flops: float(along(log_flops)),
        bounds=(grid[place - 1], grid[place + 1]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(end.x), float(end.fun)


def log_compute(loss: Loss, level: float, around: float) -> float:
    """log of the compute at which the frontier reaches `level` nats, within REACH of `around`.

    Plus or minus infinity where it lies beyond.
    """

    def excess(log_c: float) -> float:
        return optimum(loss, log_c)[1] - level

    low, high = around - REACH, around + REACH
    if excess(high) > 0:
        return np.inf
    if excess(low) < 0:
        return -np.inf
    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-14))


def gain(target: Loss, reference: Loss, compute: float) -> float:
    """Eq. 5: 1 - C_tgt / C_ref; 1 where the reference never reaches the target's loss."""
    place = float(np.log(compute))
    return float(gain_of(log_compute(reference, optimum(target, place)[1], place) - place))
