"""The objective of every fit, the sum of Huber losses of log loss, with exact derivatives for many fits at once.

With the log terms z_0 = log E, z_1, z_2 and their slopes x_k, the residual is r = log(sum exp z_k) - log L,
and with p_k the terms' shares of the prediction

    dr = sum_k p_k x_k,    d2r = sum_k p_k (x_k x_k' + dx_k) - dr dr'.

Where the slopes are constant (dx_k = 0), objective, gradient and Hessian are a few matrix products; otherwise
the sum of p_k dx_k is taken with complex steps through the slopes, which is exact to rounding. Values are in
units of delta^2, which keeps them near the number of points, far above the tolerances of the optimisers.
Inside, the fits stand last, (points, fits), so that each operation runs along many fits.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.surfaces.form import LEVELS, Design, LogTerms
from smelt.surfaces.points import Array

STEP = 1e-40  # of the complex steps: its square vanishes beside 1
ROWS = 9  # arrays of (points, fits) in use during an evaluation


class State(NamedTuple):
    """The objective at some coordinates, fits last: value (B,), gradient (P, B), Hessian (P, P, B)."""

    value: Array
    gradient: Array
    hessian: Array


class _Local(NamedTuple):
    """What value, gradient and Hessian have in common, (points, fits) each but the value."""

    value: Array  # (B,)
    shares: tuple[Array, Array, Array]  # of level, capacity and data term in the prediction
    residual: Array  # in units of delta
    clipped: Array  # the residual, cut at +-1
    score: Array  # derivative of weight x Huber in the residual
    spare: list[Array]  # three, for what follows


def objective(theta: Array, design: Design, weights: Array, delta: float) -> Array:
    """Sum over points of weight x Huber(log prediction - log loss) of each row of theta (B, P).

    Huber(r) is r^2/2 within delta and delta (|r| - delta/2) beyond. Weights (B, n); the result is in units of
    delta^2.
    """
    return _local(theta.T, design, weights.T, delta).value


def derivatives(theta: Array, design: Design, weights: Array, delta: float) -> tuple[Array, Array, Array]:
    """Objective (B,), gradient (B, P) and exact Hessian (B, P, P), in units of delta^2."""
    state = evaluate(theta.T, design, weights.T, delta)
    return state.value, state.gradient.T, np.moveaxis(state.hessian, -1, 0)


def value_and_gradient(theta: Array, design: Design, weights: Array, delta: float) -> tuple[float, Array]:
    """Objective and gradient of one fit, as scipy wants them."""
    at = theta[:, None]
    local = _local(at, design, weights[:, None], delta)
    gradient = (_general_gradient if design.term_designs is None else _linear_gradient)(at, design, local)
    return float(local.value[0]), gradient[:, 0]


def evaluate(theta: Array, design: Design, weights: Array, delta: float, smooth: bool = False) -> State:
    """Objective, gradient and Hessian with the fits last: theta (P, B), weights (n, B).

    With `smooth`, points beyond delta have the curvature psi(r) / r instead of 0: a Hessian from far away, with which a
    step goes to the minimum of a parabola that touches each Huber loss from above.
    """
    local = _local(theta, design, weights, delta)
    # The Hessian: sum over points of w [(h''(r) - psi) dr dr' + psi sum_k p_k (x_k x_k' + dx_k)].
    curvature = np.multiply(weights, 1 / delta**2, out=local.spare[0])
    if smooth:
        curvature /= np.maximum(np.abs(local.residual, out=local.spare[1]), 1, out=local.spare[1])
    else:
        curvature *= local.clipped == local.residual
    curvature -= local.score
    if design.term_designs is None:
        return State(local.value, *_general(theta, design, local, curvature))
    return State(local.value, *_linear(theta, design, local, curvature))


def log_residuals(theta: Array, design: Design) -> Array:
    """log prediction - log loss at each point (n,) of one fit."""
    return _local(theta[:, None], design, np.ones((design.size, 1)), 1.0).residual[:, 0]


def point_losses(theta: Array, design: Design, delta: float) -> Array:
    """The Huber loss of each point at each row of theta (B, P), in units of delta^2: (n, B)."""
    local = _local(theta.T, design, np.ones((design.size, 1)), delta)
    return np.asarray(local.clipped * (local.residual - 0.5 * local.clipped))


def jacobian(variables: Mapping[str, Array], design: Design) -> Array:
    """Slopes (n, P) of the prediction at exponents of a usual size, where all terms are of one size on the mean."""
    surface, count = design.surface, len(design.lower)
    middle = surface.middle()
    log_terms = surface.terms(middle, variables)
    slopes = np.zeros((design.size, count))
    slopes[:, 0] = 1
    for level, (log_term, by_name) in zip(LEVELS[1:], log_terms, strict=True):
        log_term = np.broadcast_to(log_term, (design.size,))
        term = np.exp(log_term - log_term.mean())
        slopes[:, surface.coefficients.index(level)] += term
        for name, slope in by_name.items():
            slope = np.broadcast_to(slope, (design.size,))
            slopes[:, surface.coefficients.index(name)] += term * (slope - slope.mean())
    return slopes


def _local(theta: Array, design: Design, weights: Array, delta: float) -> _Local:
    # One block of memory: arrays of this size, allocated one by one, cost more than filling them.
    rows = np.empty((ROWS, design.size, theta.shape[1]))
    level, capacity, data, residual, clipped, score, *spare = rows
    _terms(theta, design, capacity, data)
    irreducible = np.exp(theta[0])
    np.add(capacity, data, out=level)
    level += irreducible
    np.log(level, out=residual)
    residual -= design.log_loss[:, None]
    residual *= 1 / delta
    np.divide(1, level, out=level)
    capacity *= level
    data *= level
    level *= irreducible
    np.clip(residual, -1, 1, out=clipped)
    np.multiply(weights, clipped, out=score)
    half = np.multiply(clipped, -0.5, out=spare[0])
    half += residual
    value = np.einsum("nb,nb->b", score, half)
    score *= 1 / delta
    return _Local(value, (level, capacity, data), residual, clipped, score, spare)


def _terms(theta: Array, design: Design, capacity: Array, data: Array) -> None:
    """Write both terms at each point."""
    if design.term_designs is None:
        for term, (log_term, _) in zip((capacity, data), _log_terms(design.centring @ theta, design), strict=True):
            np.exp(log_term, out=term)
        return
    for term, term_design in zip((capacity, data), design.term_designs, strict=True):
        distinct = np.exp(term_design.slopes[term_design.distinct] @ theta[term_design.columns])
        np.take(distinct, term_design.group, axis=0, out=term, mode="clip")


def _linear_gradient(theta: Array, design: Design, local: _Local) -> Array:
    assert design.term_designs is not None
    gradient = np.zeros_like(theta)
    gradient[0] = np.einsum("nb,nb->b", local.score, local.shares[0])
    for share, term_design in zip(local.shares[1:], design.term_designs, strict=True):
        gradient[term_design.columns] += term_design.slopes.T @ np.multiply(local.score, share, out=local.spare[-1])
    return gradient


def _linear(theta: Array, design: Design, local: _Local, curvature: Array) -> tuple[Array, Array]:
    """Gradient and Hessian where slopes are constant. The sums of products are in the order of `Design.hessian_map`."""
    assert design.term_designs is not None
    level, (first, second) = local.shares[0], design.term_designs
    gradient = np.zeros_like(theta)
    gradient[0] = np.einsum("nb,nb->b", local.score, level)
    weighted, total = local.spare[1:]
    np.multiply(curvature, level, out=weighted)
    sums = [np.einsum("nb,nb->b", weighted, level)[None] + gradient[0]]
    for share, term_design in zip(local.shares[:0:-1], (second, first), strict=True):
        np.multiply(local.score, share, out=total)
        gradient[term_design.columns] += term_design.slopes.T @ total
        np.multiply(curvature, share, out=weighted)
        total += np.multiply(weighted, share, out=local.clipped)
        sums += [term_design.products.T @ total, term_design.slopes.T @ np.multiply(weighted, level, out=total)]
    weighted *= local.shares[2]
    sums.append(design.cross_products.T @ weighted)
    hessian = design.hessian_map @ np.concatenate(sums)
    return gradient, hessian.reshape(len(theta), *theta.shape)


def _general_gradient(theta: Array, design: Design, local: _Local) -> Array:
    gradient = sum(
        np.einsum("nb,pnb->pb", local.score * share, slope)
        for share, slope in zip(local.shares[1:], _slopes(theta, design), strict=True)
    )
    gradient[0] = np.einsum("nb,nb->b", local.score, local.shares[0])
    return np.asarray(gradient)


def _general(theta: Array, design: Design, local: _Local, curvature: Array) -> tuple[Array, Array]:
    """Gradient and Hessian where slopes depend on the coordinates."""
    slopes = _slopes(theta, design)
    change = local.shares[1] * slopes[0] + local.shares[2] * slopes[1]
    change[0] = local.shares[0]
    hessian = _products(change, curvature)
    hessian[0, 0] += np.einsum("nb,nb->b", local.score, local.shares[0])
    scores = [local.score * share for share in local.shares[1:]]
    for score, slope in zip(scores, slopes, strict=True):
        hessian += _products(slope, score)
    _add_changes(hessian, theta, design, scores)
    return np.einsum("nb,pnb->pb", local.score, change), hessian


def _products(slopes: Array, weights: Array) -> Array:
    """Sum over points of weight x slope x slope', (P, P, B)."""
    left, right = (np.ascontiguousarray(np.moveaxis(values, -1, 0)) for values in (slopes * weights, slopes))
    return np.moveaxis(left @ right.transpose(0, 2, 1), 0, -1)


def _add_changes(hessian: Array, theta: Array, design: Design, scores: list[Array]) -> None:
    """Add the sum of score x change of the slopes. A level only adds to its log term, so no slope depends on it."""
    names = design.surface.coefficients
    raw = (design.centring @ theta).astype(np.complex128)
    for index in range(len(LEVELS), len(names)):
        raw[index] += 1j * STEP
        for score, (_, slopes) in zip(scores, _log_terms(raw, design), strict=True):
            for name, slope in slopes.items():
                if np.iscomplexobj(slope):
                    hessian[index, names.index(name)] += np.einsum("nb,nb->b", score, slope.imag / STEP)
        raw[index] = raw[index].real


def _log_terms(raw: NDArray[Any], design: Design) -> LogTerms:
    """The log terms at raw coordinates (P, B), real or complex, and their slopes, (n, B) each."""
    coordinates = dict(zip(design.surface.coefficients, raw[:, None], strict=True))
    return design.surface.terms(coordinates, {name: values[:, None] for name, values in design.variables.items()})


def _slopes(theta: Array, design: Design) -> tuple[Array, Array]:
    """The slopes of both log terms in theta, (P, n, B)."""
    names, by_term = design.surface.coefficients, []
    for level, (_, slopes) in zip(LEVELS[1:], _log_terms(design.centring @ theta, design), strict=True):
        shift = design.centring[names.index(level)]
        in_theta = np.broadcast_to(shift[:, None, None], (len(names), design.size, theta.shape[1])).copy()
        for name, slope in slopes.items():
            in_theta[names.index(name)] += slope
        by_term.append(in_theta)
    return by_term[0], by_term[1]
