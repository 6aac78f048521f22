"""The calibration curve y(l) = base + amplitude / (1 + exp(-d slope (l - midpoint))), Eq. 6, and its fits.

d is +1 for a score that rises with the loss and -1 for one that falls; amplitude and slope are positive. A fit sees
x = d (l - centre) / range in [-1/2, 1/2] and z = (y - mean) / range, so that one box serves every metric, and

    z = left + rise h(x),   h(x) = (s(k x + q) - s(q - k/2)) / (s(q + k/2) - s(q - k/2)),   s the logistic function,

with the values at both ends of the losses as parameters instead of the asymptotes, which may lie far beyond. With
q = u (k/2 + 6) the box -1 <= u <= 1 goes from one exponential (an asymptote out of sight) to the other, and that of
k from a line to a step. theta = (left, rise, log k, u). Levenberg and Marquardt's steps with the exact Jacobian run
from many starts to their end, all at once, and scipy's bounded least squares finishes the best of them.

A curve can pass through the points while its parameters stay unknown. So what a sigmoid turns into at each end of
its box is fitted too: where one of these does as well (F test at 5 %), the reason says which.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import f as f_distribution

from smelt.surfaces.points import Array

NAMES = ("base", "amplitude", "slope", "midpoint")  # that the entries of theta stand for when one is on a bound
LEAST = 5  # distinct losses, for four parameters
FAR = 6.0  # beyond the losses, in units of the logistic function: 0.25 % of the amplitude
LOWER = np.array([-10, 0, np.log(1e-2), -1])
UPPER = np.array([10, 20, np.log(1e3), 1])
# At an end of the box: entry of theta, value, parameters that the curve then no longer needs, what it is.
LIMITS = (
    (1, LOWER[1], 3, "a constant fits as well (the score does not follow the loss)"),
    (2, LOWER[2], 2, "a line fits as well (no curvature)"),
    (3, LOWER[3], 1, "an exponential fits as well (one end of the curve lies beyond the losses)"),
    (3, UPPER[3], 1, "an exponential fits as well (one end of the curve lies beyond the losses)"),
    (2, UPPER[2], 1, "a step fits as well (too few losses on the slope)"),
)
LEVEL = 0.05
STARTS = [
    (slope, place)
    for slope in np.log([0.3, 1, 2, 4, 7, 12, 20, 40, 80, 200]).tolist()
    for place in (-0.95, -0.7, -0.45, -0.2, 0.0, 0.2, 0.45, 0.7, 0.95)
]
FINISHED = 4  # of the ends, by scipy
AGREES = 1e-6  # relative distance from the best sum of squares within which a start counts as agreeing
STEPS = 1000  # of a fit, at the most
SETTLED = 1e-10  # relative decrease of the sum of squares at which a fit ends
FLAT = 1e-12  # relative range below which a score is constant


class Curve(NamedTuple):
    """Eq. 6's parameters, scalars or arrays that broadcast: score units, per nat, nats."""

    base: Array
    amplitude: Array
    slope: Array
    midpoint: Array


@dataclasses.dataclass(frozen=True)
class Units:
    """The scaling of one series of losses and scores."""

    centre: float  # middle of the losses
    losses: float  # their range
    mean: float  # of the scores
    scores: float  # their range
    sign: int  # d of Eq. 6

    def x(self, loss: Array) -> Array:
        return np.asarray(self.sign * (loss - self.centre) / self.losses)

    def z(self, score: Array) -> Array:
        return np.asarray((score - self.mean) / self.scores)

    def curve(self, theta: Array) -> Curve:
        """The parameters in plain units of each theta, (..., 4)."""
        left, rise, _, _ = np.moveaxis(theta, -1, 0)
        k, q = _k(theta), _q(theta)
        low, span = expit(q - k / 2), expit(q + k / 2) - expit(q - k / 2)
        return Curve(
            self.mean + self.scores * (left - rise * low / span),
            self.scores * rise / span,
            k / self.losses,
            self.centre - self.sign * self.losses * q / k,
        )


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted curve and its certificate; `theta` and `units` are missing, with a reason, where there is none."""

    units: Units | None
    theta: Array | None
    endpoints: int
    r2: float | None = None
    start_share: float | None = None
    at_bound: str | None = None
    determined: bool = False  # whether the points fix all four parameters
    reason: str = ""


def predict(curve: Curve, loss: Array, sign: int) -> Array:
    """Eq. 6: the score at each loss (nats)."""
    return np.asarray(curve.base + curve.amplitude * expit(sign * curve.slope * (loss - curve.midpoint)))


def fit(loss: Array, score: Array, sign: int) -> Fit:
    """Fit Eq. 6 by least squares to n losses (nats) and scores; `sign` is d."""
    distinct = len(np.unique(loss))
    if distinct < LEAST:
        return Fit(None, None, loss.size, reason=f"{distinct} distinct losses; a curve needs at least {LEAST}")
    if np.ptp(score) <= FLAT * max(1.0, float(np.abs(score).max())):
        return Fit(None, None, loss.size, reason=f"the score is {score[0]:.6g} at all {loss.size} endpoints")
    middle = float(loss.min() + loss.max()) / 2
    units = Units(middle, float(np.ptp(loss)), float(score.mean()), float(np.ptp(score)), sign)
    x, z = units.x(loss), units.z(score)
    theta, costs = _minimise(x, z)
    lowest, total = float(costs.min()), float(np.sum((z - z.mean()) ** 2))
    # Scores without noise leave a sum at rounding level, where a relative distance means nothing.
    share = float((costs - lowest <= AGREES * max(lowest, 1e-9 * total)).mean())
    bounds = " ".join(np.array(NAMES)[bounds_hit(theta)].tolist()) or "none"
    reason = _undetermined(x, z, lowest)
    return Fit(units, theta, loss.size, 1 - lowest / total, share, bounds, not reason, reason)


def refit(theta: Array, x: Array, z: Array, weights: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Weighted fits of the same points, all from `theta`: (draws, 4), and whether each reached its minimum.

    `weights` is (draws, n).
    """
    draws = len(weights)
    ends, done = np.tile(theta, (draws, 1)), np.zeros(draws, dtype=bool)
    for first in range(0, draws, 1000):  # bounds the memory
        part = slice(first, first + 1000)
        ends[part], done[part] = _marquardt(ends[part], x, z, weights[part])
    return ends, done


def bounds_hit(theta: Array) -> NDArray[np.bool_]:
    """Which entries of theta lie on a bound of the box."""
    return np.asarray(np.minimum(np.abs(theta - LOWER), np.abs(theta - UPPER)) <= 1e-6)


def residual(theta: Array, x: Array, z: Array) -> Array:
    """Prediction - z, (..., n)."""
    return np.asarray(theta[..., :1] + theta[..., 1:2] * _shape(theta, x) - z)


def jacobian(theta: Array, x: Array) -> Array:
    """Derivatives of the prediction by theta, (..., n, 4)."""
    k, q = _k(theta)[..., None], _q(theta)[..., None]
    ends = (q - k / 2, q + k / 2)
    span = expit(ends[1]) - expit(ends[0])
    h = (expit(k * x + q) - expit(ends[0])) / span
    at_x, left, right = (_slope(place) for place in (k * x + q, *ends))
    by_q = (at_x - left - h * (right - left)) / span
    by_k = (at_x * x + left / 2 - h * (right + left) / 2) / span
    rise, u = theta[..., 1:2], theta[..., 3:4]
    return np.stack([np.ones_like(h), h, rise * k * (by_k + by_q * u / 2), rise * by_q * (k / 2 + FAR)], axis=-1)


def _k(theta: Array) -> Array:
    return np.asarray(np.exp(theta[..., 2]))


def _q(theta: Array) -> Array:
    return np.asarray(theta[..., 3] * (_k(theta) / 2 + FAR))


def _shape(theta: Array, x: Array) -> Array:
    """h(x), (..., n): 0 and 1 at the ends of the losses."""
    k, q = _k(theta)[..., None], _q(theta)[..., None]
    low = expit(q - k / 2)
    return np.asarray((expit(k * x + q) - low) / (expit(q + k / 2) - low))


def _slope(place: Array) -> Array:
    return np.asarray(expit(place) * expit(-place))


def _minimise(x: Array, z: Array, entry: int | None = None, value: float = 0.0) -> tuple[Array, Array]:
    """The best theta over all starts, and the sum of squares that each reached; `entry` is held at `value`."""
    starts = np.array([(z[x.argmin()], max(z[x.argmax()] - z[x.argmin()], 0.1), *start) for start in STARTS])
    if entry is not None:
        starts[:, entry] = value
    ends, _ = _marquardt(starts, x, z, np.ones((len(starts), x.size)), entry)
    costs = np.sum(residual(ends, x, z) ** 2, axis=1)
    for place in np.argsort(costs, kind="stable")[:FINISHED]:
        end, cost = trf(ends[place], x, z, entry)
        if cost < costs[place]:
            ends[place], costs[place] = end, cost
    return ends[costs.argmin()], costs


def trf(start: Array, x: Array, z: Array, held: int | None = None) -> tuple[Array, float]:
    """scipy's end of one start, and its sum of squares; entry `held` keeps its value."""
    free = np.arange(4) != held

    def full(values: Array) -> Array:
        theta = start.copy()
        theta[free] = values
        return theta

    end = least_squares(
        lambda values: residual(full(values), x, z),
        np.clip(start, LOWER + 1e-9, UPPER - 1e-9)[free],
        jac=lambda values: jacobian(full(values), x)[:, free],
        bounds=(LOWER[free], UPPER[free]),
        x_scale="jac",
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=200,
    )
    return full(end.x), float(2 * end.cost)


def _undetermined(x: Array, z: Array, lowest: float) -> str:
    """Why the points do not fix all four parameters; empty where they do."""
    freedom = max(x.size - 4, 1)
    for entry, value, spared, name in LIMITS:
        cost = float(_minimise(x, z, entry, value)[1].min())
        critical = float(f_distribution.ppf(1 - LEVEL, spared, freedom))
        # Beside a line without noise, all sums are at rounding level.
        if cost - lowest <= critical * spared * lowest / freedom + FLAT * x.size:
            return f"parameters not determined: {name}"
    return ""


def _marquardt(
    theta: Array, x: Array, z: Array, weights: Array, fixed: int | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """Minima of many weighted fits inside the box, and whether each was reached; entry `fixed` keeps its value."""
    theta, count = theta.copy(), len(theta)
    done, damping = np.zeros(count, dtype=bool), np.full(count, 1e-3)
    cost = _cost(theta, x, z, weights)
    for _ in range(STEPS):
        going = np.flatnonzero(~done)
        if not going.size:
            break
        here, mass = theta[going], weights[going]
        slopes = jacobian(here, x)
        weighted = slopes * mass[..., None]
        gradient = np.einsum("bni,bn->bi", weighted, residual(here, x, z))
        held = ((here <= LOWER) & (gradient > 0)) | ((here >= UPPER) & (gradient < 0))
        held |= np.arange(4) == fixed
        curvature = np.swapaxes(slopes, 1, 2) @ weighted
        curvature = np.where(held[:, :, None] | held[:, None, :], 0, curvature)
        diagonal = np.einsum("bii->bi", curvature)
        # An entry that is held, or without any pull, gets a step of zero.
        diagonal += np.where(held, 1, damping[going, None] * diagonal + 1e-12)
        step = np.linalg.solve(curvature, -np.where(held, 0, gradient)[..., None])[..., 0]
        trial = np.clip(here + np.clip(step, -1, 1), LOWER, UPPER)
        new = _cost(trial, x, z, mass)
        better = new < cost[going]
        settled = cost[going] - new <= SETTLED * cost[going]
        theta[going[better]] = trial[better]
        # No better step however short: the end, at rounding.
        done[going] = np.where(better, settled, damping[going] > 1e8)
        cost[going] = np.where(better, new, cost[going])
        damping[going] = np.where(better, damping[going] / 10, damping[going] * 10).clip(1e-12, 1e10)
    return theta, done


def _cost(theta: Array, x: Array, z: Array, weights: Array) -> Array:
    return np.einsum("bn,bn->b", weights, residual(theta, x, z) ** 2)
