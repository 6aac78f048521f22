"""Closed forms on a fitted surface: compute-optimal allocation, frontier, its inverse, gain and windows.

With A_s = A (1-S)^b and C = F D, minimising Eq. 2 gives (Eq. 3, 4)

    F* = (a A_s C^c / (c K))^(1/(a+c)),  D* = C / F*,  L*(C, S) = E + f(S) C^-gamma,  gamma = a c / (a+c).

All is done in logs, since A and K reach 1e40 in a draw. Arguments broadcast, so one call serves a point
or all draws.
"""

from typing import NamedTuple

import numpy as np

from smelt.scaling.settings import Array, Points
from smelt.scaling.surface import Coefficients

INSIDE, EDGE, EXTRAPOLATED = "inside", "edge", "extrapolated"
LARGEST = 700.0  # of a log ratio, so that a gain stays a finite number


class Box(NamedTuple):
    """What an architecture was trained on: the ranges of F, D and C = F D of its fitted endpoints."""

    flops: tuple[float, float]
    tokens: tuple[float, float]
    compute: tuple[float, float]


def box(points: Points) -> Box:
    """The trained (F, D) box and compute window."""
    values = (points.flops, points.tokens, points.flops * points.tokens)
    return Box(*((float(value.min()), float(value.max())) for value in values))


def gamma(surface: Coefficients) -> Array:
    """Exponent of the frontier in compute."""
    return surface.a * surface.c / (surface.a + surface.c)


def optimum(surface: Coefficients, compute: Array | float, active: Array | float) -> tuple[Array, Array]:
    """F* (FLOPs per token) and D* (tokens) of Eq. 3; `active` is 1 - S."""
    log_c = np.log(compute)
    log_f = _log_scale(surface, active) + log_c * surface.c / (surface.a + surface.c)
    return np.exp(log_f), np.exp(log_c - log_f)


def frontier_loss(surface: Coefficients, compute: Array | float, active: Array | float) -> Array:
    """L*(C, S) of Eq. 4 in nats."""
    return surface.E + np.exp(_log_amplitude(surface, active) - gamma(surface) * np.log(compute))


def log_compute(surface: Coefficients, loss: Array | float, active: Array | float) -> Array:
    """log of the compute at which the frontier reaches `loss`; infinite where it never does."""
    above = np.maximum(np.asarray(loss) - surface.E, 0)
    with np.errstate(divide="ignore"):
        return np.asarray((_log_amplitude(surface, active) - np.log(above)) / gamma(surface))


def gain(target: Coefficients, reference: Coefficients, compute: float, active: float) -> Array:
    """Eq. 5: 1 - C_tgt / C_ref; 1 where the reference never reaches the target's loss."""
    ratio = log_compute(reference, frontier_loss(target, compute, active), active) - np.log(compute)
    return np.asarray(-np.expm1(np.minimum(-ratio, LARGEST)))


def tokens_per_parameter(surface: Coefficients, compute: Array | float, active: Array | float) -> Array:
    """TPP = D* / (F*/6): tokens per active parameter, a parameter being 6 training FLOPs per token."""
    flops, tokens = optimum(surface, compute, active)
    return 6 * tokens / flops


def meaningful(surface: Coefficients) -> np.ndarray:
    """Whether the closed forms hold: both exponents of the trade-off are positive."""
    return np.asarray((surface.a > 0) & (surface.c > 0))


def window(surface: Coefficients, trained: Box, compute: float, active: float) -> str:
    """Where the optimum for `compute` lies: in the trained (F, D) box, in the compute window only, or outside."""
    if not trained.compute[0] <= compute <= trained.compute[1]:
        return EXTRAPOLATED
    flops, tokens = optimum(surface, compute, active)
    held = trained.flops[0] <= flops <= trained.flops[1] and trained.tokens[0] <= tokens <= trained.tokens[1]
    return INSIDE if held else EDGE


def worst(*windows: str) -> str:
    """The weakest support among several windows."""
    return max(windows, key=(INSIDE, EDGE, EXTRAPOLATED).index)


def _log_scale(surface: Coefficients, active: Array | float) -> Array:
    """log G, where F* = G C^(c/(a+c))."""
    level = np.log(surface.a) + np.log(surface.A) + surface.b * np.log(active) - np.log(surface.c) - np.log(surface.K)
    return np.asarray(level / (surface.a + surface.c))


def _log_amplitude(surface: Coefficients, active: Array | float) -> Array:
    """log f(S) of Eq. 4."""
    scale = _log_scale(surface, active)
    capacity = np.log(surface.A) + surface.b * np.log(active) - surface.a * scale
    return np.logaddexp(capacity, np.log(surface.K) + surface.c * scale)
