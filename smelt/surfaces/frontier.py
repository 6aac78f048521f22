"""Closed forms on a fitted surface: compute-optimal allocation, frontier, its inverse, gain and windows.

At a given sparsity (and given loops and experts) every surface is a `Slice`, L = E + A / F^a + K / D^c.
With the compute C = F D fixed, its minimum is (Eq. 3, 4)

    F* = (a A C^c / (c K))^(1/(a+c)),  D* = C / F*,  L*(C) = E + f C^-gamma,  gamma = a c / (a+c).

All is done in logs, since A and K reach 1e40 in a draw. Arguments broadcast, so one call serves a point
or all draws.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.surfaces.hull import factor_outside, hull
from smelt.surfaces.points import Array, Points

INSIDE, EDGE, EXTRAPOLATED = "inside", "edge", "extrapolated"
FARTHEST = 1.5  # factor outside the trained (F, D) beyond which an optimum is extrapolated
ROUNDING = 1e-9  # of that factor
LARGEST = 700.0  # of a log ratio, so that a gain stays a finite number


class Slice(NamedTuple):
    """A surface with all but F and D fixed: scalars, or one entry each for every draw.

    E in nats, A in nats (FLOPs per token)^a, K in nats tokens^c. For Eq. 2, A holds (1-S)^b.
    """

    E: Array
    A: Array
    K: Array
    a: Array
    c: Array


class Trained(NamedTuple):
    """What an architecture was trained on: ranges of F, D and C = F D of its endpoints, and the region of (F, D)."""

    flops: tuple[float, float]
    tokens: tuple[float, float]
    compute: tuple[float, float]
    corners: Array  # of the region, as `hull` gives them


def trained(points: Points) -> Trained:
    """The trained region of (F, D) and the compute window."""
    values = (points.flops, points.tokens, points.flops * points.tokens)
    flops, tokens, compute = ((float(value.min()), float(value.max())) for value in values)
    return Trained(flops, tokens, compute, hull(points.flops, points.tokens))


def loss(surface: Slice, flops: Array | float, tokens: Array | float) -> Array:
    """The loss in nats at F (FLOPs per token) and D (tokens)."""
    E, A, K, a, c = surface
    return np.asarray(E + np.exp(np.log(A) - a * np.log(flops)) + np.exp(np.log(K) - c * np.log(tokens)))


def gamma(surface: Slice) -> Array:
    """Exponent of the frontier in compute."""
    return np.asarray(surface.a * surface.c / (surface.a + surface.c))


def optimum(surface: Slice, compute: Array | float) -> tuple[Array, Array]:
    """F* (FLOPs per token) and D* (tokens) of Eq. 3."""
    log_c = np.log(compute)
    log_f = _log_scale(surface) + log_c * surface.c / (surface.a + surface.c)
    return np.exp(log_f), np.exp(log_c - log_f)


def frontier_loss(surface: Slice, compute: Array | float) -> Array:
    """L*(C) of Eq. 4 in nats."""
    return surface.E + np.exp(_log_amplitude(surface) - gamma(surface) * np.log(compute))


def log_compute(surface: Slice, loss: Array | float) -> Array:
    """log of the compute at which the frontier reaches `loss`; infinite where it never does."""
    above = np.maximum(np.asarray(loss) - surface.E, 0)
    with np.errstate(divide="ignore"):
        return np.asarray((_log_amplitude(surface) - np.log(above)) / gamma(surface))


def log_multiplier(target: Slice, reference: Slice, compute: Array | float) -> Array:
    """log C_ref / C_tgt; infinite where the reference never reaches the target's loss."""
    return log_compute(reference, frontier_loss(target, compute)) - np.log(compute)


def gain_of(log_multiplier: Array | float) -> Array:
    """Eq. 5, 1 - C_tgt / C_ref, from log C_ref / C_tgt."""
    return np.asarray(-np.expm1(np.minimum(-np.asarray(log_multiplier), LARGEST)))


def gain(target: Slice, reference: Slice, compute: Array | float) -> Array:
    """Eq. 5: 1 - C_tgt / C_ref; 1 where the reference never reaches the target's loss."""
    return gain_of(log_multiplier(target, reference, compute))


def tokens_per_parameter(surface: Slice, compute: Array | float) -> Array:
    """TPP = D* / (F*/6): tokens per dense-equivalent parameter, a parameter being 6 training FLOPs per token."""
    flops, tokens = optimum(surface, compute)
    return 6 * tokens / flops


def data_crossover(target: Slice, reference: Slice) -> Array:
    """Tokens at which the data terms are equal, (K_t / K_r)^(1/(c_t - c_r)).

    Infinite or 0 where they come near each other only beyond the range of floats; NaN where they are the same.
    """
    difference = np.asarray(target.c - reference.c)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.exp((np.log(target.K) - np.log(reference.K)) / difference))


def meaningful(surface: Slice) -> NDArray[np.bool_]:
    """Whether the closed forms hold: both exponents of the trade-off are positive."""
    return np.asarray((surface.a > 0) & (surface.c > 0))


def window(surface: Slice, trained: Trained, compute: float) -> str:
    """Where the optimum for `compute` lies: in the trained (F, D), at most FARTHEST outside, or farther.

    A compute outside the trained window is extrapolated wherever its optimum lies.
    """
    if not trained.compute[0] <= compute <= trained.compute[1]:
        return EXTRAPOLATED
    outside = float(factor_outside(trained.corners, *optimum(surface, compute)))
    return INSIDE if outside <= 1 + ROUNDING else EDGE if outside <= FARTHEST else EXTRAPOLATED


def whereabouts(flops: float, tokens: float, trained: Trained) -> str:
    """Where an optimum at F (FLOPs per token) and D (tokens) lies beside what was trained, in words with numbers."""
    factor = float(factor_outside(trained.corners, np.asarray(flops), np.asarray(tokens)))
    if factor <= 1 + ROUNDING:
        return f"optimum at {flops:.1e} FLOPs a token, inside the trained (F, D)"
    beyond = {
        f"{flops:.1e} FLOPs a token, {{}} below the smallest network trained": trained.flops[0] / flops,
        f"{flops:.1e} FLOPs a token, {{}} above the largest network trained": flops / trained.flops[1],
        f"{tokens:.1e} tokens, {{}} below the shortest training": trained.tokens[0] / tokens,
        f"{tokens:.1e} tokens, {{}} above the longest training": tokens / trained.tokens[1],
    }
    text, ratio = max(beyond.items(), key=lambda item: item[1])
    if ratio < factor * (1 - ROUNDING):  # off a grid that fills no box, such as a ladder of sizes
        text, ratio = f"{flops:.1e} FLOPs a token and {tokens:.1e} tokens, {{}} outside the trained (F, D)", factor
    return f"optimum at {text.format(_times(ratio))}"


def _times(ratio: float) -> str:
    """A factor above 1 in words, to two digits: 1 % where it is small, else so many times."""
    return f"{100 * (ratio - 1):.2g} %" if ratio < FARTHEST else f"{float(f'{ratio:.2g}'):,.15g} times"


def weakest(*windows: str) -> str:
    """The weakest of several windows: extrapolated is weaker than edge, and edge than inside."""
    return max(windows, key=(INSIDE, EDGE, EXTRAPOLATED).index)


def _log_scale(surface: Slice) -> Array:
    """log G, where F* = G C^(c/(a+c))."""
    level = np.log(surface.a) + np.log(surface.A) - np.log(surface.c) - np.log(surface.K)
    return np.asarray(level / (surface.a + surface.c))


def _log_amplitude(surface: Slice) -> Array:
    """log f of Eq. 4."""
    scale = _log_scale(surface)
    return np.logaddexp(np.log(surface.A) - surface.a * scale, np.log(surface.K) + surface.c * scale)
