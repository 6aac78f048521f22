"""Damped Newton steps inside a box for many weighted fits at once.

The exact Hessian costs little more than the gradient, so a few tens of steps reach the minimum to rounding
where first-order methods need hundreds. All fits of a pool step together: arrays have the fits last, so that
the factorisations of their small Hessians run along them. A fit that is done leaves its place to the next.
Where a Hessian is not positive definite its curvatures are taken by size, so that every step descends; the
damping grows when the objective does not fall and shrinks when it does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.fitting.objective import evaluate
from smelt.surfaces.form import Design
from smelt.surfaces.points import Array

TOLERANCE = 1e-12  # of the decrease that a Newton step predicts, relative to the objective
STUCK = 1e-9  # the same where rounding leaves no step that descends
ROUNDING = 1e-18  # the same in units of delta^2, for data without noise
APPROACH = 6  # steps by the Hessian from afar
STEPS = 10_000  # a draw whose E slides towards its bound along the kinks of the Huber loss takes thousands
POOL = 512  # fits that step together
CHUNK = 40_000  # points x fits that are evaluated together: what stays in the cache
DAMPING = (1e-12, 1e12)  # least and most, relative to the largest curvature
FIRST = {True: 1e-2, False: 1e-3}  # damping of smooth and of exact steps
SINGULAR = 1e-13  # a curvature this small beside the largest is none


class Minimum(NamedTuple):
    """The end of each fit: parameters (B, P), objective (units of delta^2), steps taken, whether it converged."""

    theta: Array
    objective: Array
    steps: NDArray[np.int64]
    converged: NDArray[np.bool_]


def minimise(
    theta: Array,
    design: Design,
    weights: Array,
    delta: float,
    fixed: NDArray[np.bool_] | None = None,
    steps: int = STEPS,
) -> Minimum:
    """Minimise each row of `theta` (B, P) under the row of `weights` (B, n) beside it.

    Coordinates in `fixed` (P,) keep the value that each row starts with.
    """
    return _run(theta, design, weights, delta, fixed, steps, False)


def approach(
    theta: Array, design: Design, weights: Array, delta: float, fixed: NDArray[np.bool_] | None = None
) -> Array:
    """A few steps by the Hessian from afar (see `evaluate`): they halve the way of a start that is not near."""
    return _run(theta, design, weights, delta, fixed, APPROACH, True).theta


def _run(
    theta: Array,
    design: Design,
    weights: Array,
    delta: float,
    fixed: NDArray[np.bool_] | None,
    steps: int,
    smooth: bool,
) -> Minimum:
    starts = np.clip(theta, design.lower, design.upper)
    fixed = ~design.free if fixed is None else fixed | ~design.free
    starts = np.where(fixed, theta, starts)
    ends = Minimum(starts.copy(), np.full(len(starts), np.inf), np.zeros(len(starts), int), np.zeros(len(starts), bool))
    rows = np.arange(min(POOL, len(starts)))
    waiting, pool = rows.size, _enter(starts[rows], weights[rows], FIRST[smooth])
    while rows.size:
        _advance(pool, design, delta, smooth)
        step, decrease = _step(pool, design, fixed)
        # Where no step is short enough to descend, what is left is rounding.
        stuck = pool.damping >= DAMPING[1]
        known = np.isfinite(pool.value)
        converged = known & (decrease <= np.where(stuck, STUCK, TOLERANCE) * pool.value + ROUNDING)
        out = np.flatnonzero(converged | stuck | ~known | (pool.taken >= steps))
        for end, values in zip(ends, (pool.theta.T, pool.value, pool.taken, converged), strict=True):
            end[rows[out]] = values[out]
        np.clip(pool.theta + step, design.lower[:, None], design.upper[:, None], out=pool.candidate)
        fresh = np.arange(waiting, min(waiting + out.size, len(starts)))
        places, empty = np.split(out, [fresh.size])
        waiting += fresh.size
        if fresh.size:
            rows[places] = fresh
            for values, entering in zip(pool, _enter(starts[fresh], weights[fresh], FIRST[smooth]), strict=True):
                values[..., places] = entering
        if empty.size:
            keep = np.delete(np.arange(rows.size), empty)
            rows, pool = rows[keep], _select(pool, keep)
    return ends


def predicted_decrease(theta: Array, design: Design, weights: Array, delta: float) -> Array:
    """By how much an undamped step from each row of theta would lower the objective (B,): 0 at a minimum."""
    pool = _enter(np.clip(theta, design.lower, design.upper), weights)
    _advance(pool, design, delta)
    return _step(pool, design, ~design.free)[1]


class _Pool(NamedTuple):
    """Fits on their way, fits last; where the objective was last evaluated, and where it is tried next."""

    theta: Array  # (P, b)
    candidate: Array
    weights: Array  # (n, b)
    value: Array  # (b,)
    gradient: Array  # (P, b)
    hessian: Array  # (P, P, b)
    damping: Array  # (b,)
    taken: Array  # steps


def _enter(theta: Array, weights: Array, damping: float = 1.0) -> _Pool:
    size, count = theta.shape[::-1]
    unknown = (np.full(count, np.inf), np.zeros((size, count)), np.zeros((size, size, count)))
    fresh = (np.full(count, damping * 5), np.full(count, -1.0))  # the start counts as a step that fell
    return _Pool(theta.T.copy(), theta.T.copy(), weights.T.copy(), *unknown, *fresh)


def _select(pool: _Pool, places: NDArray[np.int64] | slice) -> _Pool:
    return _Pool._make(values[..., places] for values in pool)


def _advance(pool: _Pool, design: Design, delta: float, smooth: bool = False) -> None:
    """Evaluate each candidate, and go there where the objective is lower."""
    width = max(16, CHUNK // design.size // (1 if design.term_designs else len(pool.theta)))
    for begin in range(0, pool.taken.size, width):
        part = _select(pool, slice(begin, begin + width))
        trial = evaluate(part.candidate, design, part.weights, delta, smooth)
        better = trial.value < part.value
        kept = (part.theta, part.value, part.gradient, part.hessian)
        for values, tried in zip(kept, (part.candidate, *trial), strict=True):
            np.copyto(values, tried, where=better)
        part.damping[:] = np.clip(part.damping * np.where(better, 0.2, 5.0), *DAMPING)
        part.taken[:] += 1


def _step(pool: _Pool, design: Design, fixed: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The damped step of each fit, and the decrease that an undamped one predicts (its certificate)."""
    # An entry on a bound that its gradient pushes outward stays there.
    stopped = (pool.theta <= design.lower[:, None]) & (pool.gradient > 0)
    stopped |= (pool.theta >= design.upper[:, None]) & (pool.gradient < 0)
    stopped |= fixed[:, None]
    size, count = stopped.shape
    # Two systems side by side, undamped and damped, each with the gradient as its last column.
    systems = np.empty((size, size + 1, 2, count))
    systems[:, :-1] = pool.hessian[:, :, None]
    systems[:, -1] = pool.gradient[:, None]
    if stopped.any():
        systems *= ~stopped[:, None, None]
        systems[:, :-1] *= ~stopped[None, :, None]
    diagonal = np.einsum("iisb->isb", systems[:, :-1])  # a view
    top = np.abs(diagonal[:, 0]).max(axis=0)
    diagonal += np.where(stopped, top, 0)[:, None]
    diagonal[:, 1] += pool.damping * top
    solution = _solve(systems, SINGULAR * top + 1e-300)
    decrease = np.einsum("ib,ib->b", np.where(stopped, 0, pool.gradient), solution[:, 0]) / 2
    return np.where(stopped, 0, -solution[:, 1]), decrease


def _solve(systems: Array, least: Array) -> Array:
    """Solve many small symmetric systems (P, P + 1, ...) by elimination, each pivot taken by its size."""
    size = len(systems)
    room = np.empty_like(systems)
    for i in range(size):
        pivot = systems[i, i]
        np.maximum(np.abs(pivot, out=pivot), least, out=pivot)
        factors = systems[i + 1 :, i] / pivot
        change = np.multiply(factors[:, None], systems[i, None, i + 1 :], out=room[i + 1 :, i + 1 :])
        systems[i + 1 :, i + 1 :] -= change
    solution = systems[:, -1]
    for i in reversed(range(size)):
        known = np.multiply(systems[i, i + 1 : -1], solution[i + 1 :], out=room[i, i + 1 : -1])
        solution[i] -= known.sum(axis=0)
        solution[i] /= systems[i, i]
    return solution
