"""Damped Newton steps inside a box for many weighted fits at once.

The exact 6 x 6 Hessian costs little more than the gradient, so a few tens of steps reach the minimum to
rounding where first-order methods need hundreds; a bootstrap of thousands of weight vectors takes about
a second. A step is -V diag(1 / (|lambda| + mu)) V' g, which descends where the Hessian is indefinite too;
mu grows when the objective does not fall and shrinks when it does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.settings import Array
from smelt.scaling.surface import Design, derivatives, objective

TOLERANCE = 1e-12  # of the decrease that a Newton step predicts, relative to the objective
ROUNDING = 1e-18  # the same in units of delta^2, for data without noise
STEPS = 10_000  # a draw whose E slides towards its bound along the kinks of the Huber loss takes thousands


class Minimum(NamedTuple):
    """The end of each fit: parameters, objective (units of delta^2), steps taken, whether it converged."""

    theta: Array
    objective: Array
    steps: NDArray[np.int64]
    converged: NDArray[np.bool_]


def minimise(theta: Array, design: Design, weights: Array, delta: float, steps: int = STEPS) -> Minimum:
    """Minimise each row of `theta` under the row of `weights` beside it."""
    theta = np.clip(theta, design.lower, design.upper)
    value = objective(theta, design, weights, delta)
    taken = np.zeros(len(theta), dtype=np.int64)
    converged = np.zeros(len(theta), dtype=bool)
    damping = np.full(len(theta), 1e-3)
    live = np.arange(len(theta))
    for _ in range(steps):
        value[live], gradient, hessian = derivatives(theta[live], design, weights[live], delta)
        step, decrease = _step(theta[live], gradient, hessian, damping[live], design)
        done = decrease <= TOLERANCE * value[live] + ROUNDING
        converged[live[done]] = True
        live, step = live[~done], step[~done]
        if live.size == 0:
            break
        candidate = np.clip(theta[live] + step, design.lower, design.upper)
        trial = objective(candidate, design, weights[live], delta)
        better = trial < value[live]
        theta[live[better]] = candidate[better]
        damping[live] = np.clip(damping[live] * np.where(better, 0.2, 5.0), 1e-12, 1e12)
        taken[live] += 1
    return Minimum(theta, value, taken, converged)


def _step(theta: Array, gradient: Array, hessian: Array, damping: Array, design: Design) -> tuple[Array, Array]:
    """The damped step of each fit, and the decrease that an undamped one predicts (its certificate)."""
    # An entry on a bound that its gradient pushes outward stays there.
    held = ((theta <= design.lower) & (gradient > 0)) | ((theta >= design.upper) & (gradient < 0))
    held |= design.lower == design.upper
    gradient = np.where(held, 0, gradient)
    hessian = np.where(held[:, :, None] | held[:, None, :], 0, hessian)
    curvature, basis = np.linalg.eigh(hessian)
    curvature = np.abs(curvature)
    top = curvature.max(axis=1, keepdims=True)
    curvature = np.maximum(curvature, 1e-13 * top + 1e-300)
    slope = np.einsum("bij,bi->bj", basis, gradient)
    decrease = (slope**2 / curvature).sum(axis=1) / 2
    step = -np.einsum("bij,bj->bi", basis, slope / (curvature + damping[:, None] * top))
    return np.where(held, 0, step), decrease
