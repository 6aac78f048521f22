"""The point fit of one surface: scipy's L-BFGS-B from many starts, with a certificate of what it found.

`success` of an optimiser says little here: with the objective near 1e-4 the default tolerances stop far
from the minimum. So the objective is scaled, the tolerances are at rounding, every start is run to its
end, the best is polished with exact Newton steps, and what the starts agree on is reported.
"""

import dataclasses

import numpy as np
from scipy.optimize import minimize

from smelt.scaling import newton
from smelt.scaling.settings import Array, Points
from smelt.scaling.surface import (
    NAMES,
    Design,
    bounds_hit,
    derivatives,
    predict,
    terms,
    to_coefficients,
    value_and_gradient,
)

AGREES = 1e-6  # relative distance from the best objective within which a start counts as agreeing


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted surface and its certificate. Objectives are sums of Huber losses of log loss."""

    theta: Array
    objective: float
    gradient_norm: float  # of the objective in units of delta^2, entries held by a bound left out
    iterations: int  # of the best start
    start_spread: float  # (worst - best) / best objective over the starts
    start_share: float  # share of starts within AGREES of the best
    at_bound: tuple[str, ...]
    inside_delta: float  # share of residuals in the quadratic part
    rmse_nats: float  # root mean square of prediction - loss


def fit(points: Points, design: Design, delta: float, starts: int) -> Fit:
    """Fit the surface to all points with equal weight."""
    weights = np.ones(design.size)
    ends = [lbfgsb(start, design, weights, delta) for start in random_starts(design, starts)]
    objectives = np.array([end[1] for end in ends])
    best = int(objectives.argmin())
    polished = newton.minimise(ends[best][0][None], design, weights[None], delta)
    theta, lowest = polished.theta[0], float(polished.objective[0])
    # Data without noise leave an objective at rounding level, where a relative distance means nothing.
    excess = (objectives - lowest) / max(lowest, 1e-9 * design.size)
    return Fit(
        theta=theta,
        objective=lowest * delta**2,
        gradient_norm=_gradient_norm(theta, design, weights, delta),
        iterations=ends[best][2] + int(polished.steps[0]),
        start_spread=max(0.0, float(excess.max())),
        start_share=float((excess <= AGREES).mean()),
        at_bound=tuple(np.array(NAMES)[bounds_hit(theta, design)].tolist()),
        inside_delta=float((np.abs(log_residuals(theta, design)) <= delta).mean()),
        rmse_nats=_rmse(theta, points, design),
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


def random_starts(design: Design, count: int) -> Array:
    """Deterministic starts over the exponents and over how the loss divides among its terms."""
    shares = np.random.default_rng(2609).random((count, 5))
    shares[0] = (0.7, 0.5, 0.35, 0.4, 0.4)
    low = float(design.log_loss.min())
    irreducible = np.exp(low) * (0.05 + 0.9 * shares[:, 0])
    excess = np.exp(np.median(design.log_loss)) - irreducible
    first = 0.1 + 0.8 * shares[:, 1]
    columns = [irreducible, excess * first, excess * (1 - first)]
    exponents = np.array([0.05, -0.2, 0.05]) + shares[:, 2:] * np.array([0.95, 0.8, 1.15])
    return np.clip(np.column_stack([*np.log(columns), exponents]), design.lower, design.upper)


def log_residuals(theta: Array, design: Design) -> Array:
    """log prediction - log loss at each point."""
    return np.asarray(np.log(sum(terms(theta[None], design)))[0] - design.log_loss)


def _rmse(theta: Array, points: Points, design: Design) -> float:
    prediction = predict(to_coefficients(theta, design), points.flops, points.active, points.tokens)
    return float(np.sqrt(np.mean((prediction - points.loss) ** 2)))


def _gradient_norm(theta: Array, design: Design, weights: Array, delta: float) -> float:
    _, gradient, _ = derivatives(theta[None], design, weights[None], delta)
    held = ((theta <= design.lower) & (gradient[0] > 0)) | ((theta >= design.upper) & (gradient[0] < 0))
    return float(np.linalg.norm(np.where(held | (design.lower == design.upper), 0, gradient[0])))
