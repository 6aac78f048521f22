"""The point fit of one surface from many starts, with a certificate of what it found.

Two solvers of one objective: scipy's L-BFGS-B as the reference, and damped Newton steps for all starts at
once. `success` of an optimiser says little here: with the objective near 1e-4 default tolerances stop far from
the minimum. So the objective is scaled, the tolerances are at rounding, every start is run to its end, and
what the starts agree on is reported.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from smelt.scaling.fitting import newton
from smelt.scaling.fitting.objective import derivatives, log_residuals, value_and_gradient
from smelt.scaling.settings import Settings
from smelt.surfaces.form import LEVELS, Design, Surface
from smelt.surfaces.points import Array, Points

AGREES = 1e-6  # relative distance from the best objective within which a start counts as agreeing
WIDENED = (30, 10, 3)  # times delta: what a cold start of the Newton solver goes through first
NEAR = 1e-6  # of a bound


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted surface and its certificate. Objectives are sums of Huber losses of log loss."""

    theta: Array
    values: Array  # the coefficients
    objective: float
    gradient_norm: float  # of the objective in units of delta^2, entries stopped by a bound left out
    iterations: int  # of the best start
    start_spread: float  # (worst - best) / best objective over the starts
    start_share: float  # share of starts within AGREES of the best
    at_bound: tuple[str, ...]
    inside_delta: float  # share of residuals in the quadratic part
    rmse_nats: float  # root mean square of prediction - loss


class Ends(NamedTuple):
    """Where each start ended: (S, P), objective in units of delta^2, iterations."""

    theta: Array
    objective: Array
    steps: NDArray[np.int64]


def fit(points: Points, surface: Surface, design: Design, settings: Settings) -> Fit:
    """Fit the surface to all points with equal weight, from `starts` starts by the solver of the settings."""
    delta, weights = settings.huber_delta, np.ones(design.size)
    ends = SOLVERS[settings.solver](random_starts(design, settings.fit_starts), design, weights, delta)
    best = int(ends.objective.argmin())
    theta, lowest = ends.theta[best], float(ends.objective[best])
    # Data without noise leave an objective at rounding level, where a relative distance means nothing.
    excess = (ends.objective - lowest) / max(lowest, 1e-9 * design.size)
    values = surface.to_values(theta, design)
    residuals = surface.predict(values, points.variables) - points.loss
    return Fit(
        theta=theta,
        values=values,
        objective=lowest * delta**2,
        gradient_norm=_gradient_norm(theta, design, weights, delta),
        iterations=int(ends.steps[best]),
        start_spread=float(excess.max()),
        start_share=float((excess <= AGREES).mean()),
        at_bound=tuple(np.array(surface.coefficients)[bounds_hit(theta, design)].tolist()),
        inside_delta=float((np.abs(log_residuals(theta, design)) <= delta).mean()),
        rmse_nats=float(np.sqrt(np.mean(residuals**2))),
    )


def lbfgsb(start: Array, design: Design, weights: Array, delta: float) -> tuple[Array, float, int]:
    """The reference solver: parameters, objective (units of delta^2) and iterations from one start."""
    end = minimize(
        value_and_gradient,
        np.clip(start, design.lower, design.upper),
        args=(design, weights, delta),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([design.lower, design.upper], axis=1),
        options={"maxcor": 20, "ftol": 1e-16, "gtol": 1e-9, "maxiter": 5000, "maxfun": 20000, "maxls": 50},
    )
    return end.x, float(end.fun), int(end.nit)


def _by_reference(starts: Array, design: Design, weights: Array, delta: float) -> Ends:
    ends = [lbfgsb(start, design, weights, delta) for start in starts]
    return Ends(*(np.array(column) for column in zip(*ends, strict=True)))


def _by_newton(starts: Array, design: Design, weights: Array, delta: float) -> Ends:
    """All starts at once. Far from the minimum a wide delta keeps the objective smooth, so it is narrowed."""
    repeated = np.broadcast_to(weights, (len(starts), weights.size))
    theta = newton.approach(starts, design, repeated, WIDENED[0] * delta)
    steps = np.full(len(starts), newton.APPROACH)
    for factor in (*WIDENED, 1):
        end = newton.minimise(theta, design, repeated, factor * delta)
        theta, steps = end.theta, steps + end.steps
    return Ends(theta, end.objective, steps)


SOLVERS: dict[str, Callable[[Array, Design, Array, float], Ends]] = {
    "reference": _by_reference,
    "newton": _by_newton,
}


def random_starts(design: Design, count: int) -> Array:
    """Deterministic starts over the exponents and over how the loss divides among its terms."""
    parameters = design.surface.parameters[len(LEVELS) :]
    shares = np.random.default_rng(2609).random((count, 2 + len(parameters)))
    shares[0] = 0.4
    shares[0, :2] = 0.7, 0.5
    low = float(design.log_loss.min())
    irreducible = np.exp(low) * (0.05 + 0.9 * shares[:, 0])
    excess = np.exp(np.median(design.log_loss)) - irreducible
    first = 0.1 + 0.8 * shares[:, 1]
    levels = np.log(np.stack([irreducible, excess * first, excess * (1 - first)], axis=1))
    ranges = np.array([parameter.starts for parameter in parameters])
    exponents = ranges[:, 0] + shares[:, 2:] * (ranges[:, 1] - ranges[:, 0])
    return np.clip(np.concatenate([levels, exponents], axis=1), design.lower, design.upper)


def bounds_hit(theta: Array, design: Design) -> NDArray[np.bool_]:
    """Which entries of theta (..., P) lie on a bound (a fixed entry does not count)."""
    near = np.minimum(np.abs(theta - design.lower), np.abs(theta - design.upper)) <= NEAR
    return np.asarray(near & design.free)


def bound_names(hit: NDArray[np.bool_], surface: Surface) -> NDArray[np.str_]:
    """The coefficients on a bound in each row of (B, P), or "none"."""
    present, which = np.unique(hit, axis=0, return_inverse=True)
    names = [" ".join(np.array(surface.coefficients)[one]) or "none" for one in present]
    return np.array(names, dtype=np.str_)[which.ravel()]


def _gradient_norm(theta: Array, design: Design, weights: Array, delta: float) -> float:
    _, gradient, _ = derivatives(theta[None], design, weights[None], delta)
    stopped = ((theta <= design.lower) & (gradient[0] > 0)) | ((theta >= design.upper) & (gradient[0] < 0))
    return float(np.linalg.norm(np.where(stopped | ~design.free, 0, gradient[0])))
