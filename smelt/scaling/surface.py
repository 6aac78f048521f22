"""The loss surface L(F, S, D) = E + A (1-S)^b / F^a + K / D^c and its objective with exact derivatives.

A surface is handled as theta = (log E, alpha, kappa, a, b, c), where alpha and kappa are the logs of
the two terms at the mean design point: log F, log(1-S) and log D are centred, since in raw logs a and
log A are all but collinear. With z_0 = log E, z_1 = alpha + b v - a u, z_2 = kappa - c w, each linear in
theta, the residual is r = log(sum exp z_k) - log L, and with p_k the terms' shares of the prediction

    dr = sum_k p_k x_k,    d2r = sum_k p_k x_k x_k' - dr dr',    x_k = dz_k / dtheta,

so that objective, gradient and Hessian of many surfaces at once are a few matrix products.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.settings import Array, Points

NAMES = ("E", "A", "K", "a", "b", "c")
PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class Coefficients(NamedTuple):
    """The coefficients of Eq. 2, scalars or one array each over many surfaces."""

    E: Array
    A: Array
    K: Array
    a: Array
    b: Array
    c: Array


@dataclasses.dataclass(frozen=True)
class Design:
    """The points of one architecture in centred logs, and the constants of the derivatives."""

    u: Array  # log F - mean
    v: Array  # log(1-S) - mean
    w: Array  # log D - mean
    log_loss: Array
    centre: tuple[float, float, float]
    lower: Array  # box of theta, generous
    upper: Array
    slopes: Array  # (3 n, 6): x_k of each point
    products: Array  # (6 n, 36): x_k x_l' + x_l x_k' for the pairs of terms

    @property
    def size(self) -> int:
        return int(self.u.size)


def build_design(points: Points, fix_b: bool = False) -> Design:
    """The design of an architecture's points; `fix_b` holds b at 0 (there is one sparsity)."""
    logs = [np.log(points.flops), np.log(points.active), np.log(points.tokens)]
    centre = (float(logs[0].mean()), float(logs[1].mean()), float(logs[2].mean()))
    u, v, w = (log - mean for log, mean in zip(logs, centre, strict=True))
    log_loss = np.log(points.loss)
    slopes = np.zeros((3, u.size, 6))
    slopes[0, :, 0] = 1
    slopes[1, :, 1], slopes[1, :, 3], slopes[1, :, 4] = 1, -u, v
    slopes[2, :, 2], slopes[2, :, 5] = 1, -w
    products = [np.einsum("ni,nj->nij", slopes[k], slopes[m]) for k, m in PAIRS]
    products[3:] = [product + product.transpose(0, 2, 1) for product in products[3:]]
    lower, upper = _box(log_loss, fix_b)
    return Design(
        u, v, w, log_loss, centre, lower, upper, slopes.reshape(-1, 6), np.concatenate(products).reshape(-1, 36)
    )


def _box(log_loss: Array, fix_b: bool) -> tuple[Array, Array]:
    """Bounds wide enough that a coefficient on one says that the data do not hold it."""
    low, high = float(log_loss.min()), float(log_loss.max())
    lower = np.array([low - 7, low - 20, low - 20, 0, -3, 0])  # E down to 0.1 % of the lowest loss
    upper = np.array([high, high + 5, high + 5, 4, 3, 4])
    if fix_b:
        lower[4] = upper[4] = 0
    return lower, upper


def terms(theta: Array, design: Design) -> tuple[Array, Array, Array]:
    """The three terms of each surface (row of theta) at each point."""
    e, alpha, kappa, a, b, c = (theta[:, i : i + 1] for i in range(6))
    irreducible = np.broadcast_to(np.exp(e), (theta.shape[0], design.size))
    return irreducible, np.exp(alpha + b * design.v - a * design.u), np.exp(kappa - c * design.w)


def objective(theta: Array, design: Design, weights: Array, delta: float) -> Array:
    """Sum over points of weight x Huber(log prediction - log loss), in units of delta^2.

    Huber(r) is r^2/2 within delta and delta (|r| - delta/2) beyond. The unit keeps the value near the
    number of points, far above the tolerances of the optimisers.
    """
    residual = np.abs(np.log(sum(terms(theta, design))) - design.log_loss) / delta
    return np.einsum("bn,bn->b", weights, np.where(residual <= 1, residual**2 / 2, residual - 0.5))


def derivatives(theta: Array, design: Design, weights: Array, delta: float) -> tuple[Array, Array, Array]:
    """Objective (B,), gradient (B, 6) and exact Hessian (B, 6, 6), in units of delta^2."""
    value, gradient, shares, pull, residual = _first(theta, design, weights, delta)
    # Sum over points of w [(h''(r) - psi) dr dr' + psi sum_k p_k x_k x_k'].
    curvature = np.where(np.abs(residual) <= 1, weights / delta**2, 0) - pull
    factors = [curvature * shares[k] * shares[m] for k, m in PAIRS]
    for k in range(3):
        factors[k] = factors[k] + pull * shares[k]
    hessian = np.concatenate(factors, axis=1) @ design.products
    return value, gradient, hessian.reshape(-1, 6, 6)


def value_and_gradient(theta: Array, design: Design, weights: Array, delta: float) -> tuple[float, Array]:
    """Objective and gradient of one surface, as scipy wants them."""
    value, gradient, *_ = _first(theta[None], design, weights[None], delta)
    return float(value[0]), gradient[0]


def _first(
    theta: Array, design: Design, weights: Array, delta: float
) -> tuple[Array, Array, list[Array], Array, Array]:
    parts = terms(theta, design)
    prediction = parts[0] + parts[1] + parts[2]
    shares = [part / prediction for part in parts]
    residual = (np.log(prediction) - design.log_loss) / delta
    size = np.abs(residual)
    value = np.einsum("bn,bn->b", weights, np.where(size <= 1, size**2 / 2, size - 0.5))
    pull = weights * np.clip(residual, -1, 1) / delta  # derivative of the Huber loss
    gradient = np.concatenate([pull * share for share in shares], axis=1) @ design.slopes
    return value, gradient, shares, pull, residual


def to_coefficients(theta: Array, design: Design) -> Coefficients:
    """Eq. 2's coefficients of each row of theta: plain FLOPs and tokens, nats."""
    e, alpha, kappa, a, b, c = np.moveaxis(theta, -1, 0)
    u, v, w = design.centre
    return Coefficients(np.exp(e), np.exp(alpha + a * u - b * v), np.exp(kappa + c * w), a, b, c)


def to_theta(coefficients: Coefficients, design: Design) -> Array:
    """The inverse of `to_coefficients`."""
    E, A, K, a, b, c = (np.asarray(value, dtype=np.float64) for value in coefficients)
    u, v, w = design.centre
    return np.stack([np.log(E), np.log(A) - a * u + b * v, np.log(K) - c * w, a, b, c], axis=-1)


def predict(coefficients: Coefficients, flops: Array, active: Array, tokens: Array) -> Array:
    """Eq. 2 in nats; `active` is 1 - S."""
    E, A, K, a, b, c = coefficients
    return E + A * active**b * flops**-a + K * tokens**-c


def bounds_hit(theta: Array, design: Design) -> NDArray[np.bool_]:
    """Which entries of theta lie on a bound (an entry held fixed does not count)."""
    free = design.upper > design.lower
    near = np.minimum(np.abs(theta - design.lower), np.abs(theta - design.upper)) <= 1e-6
    return np.asarray(near & free)
