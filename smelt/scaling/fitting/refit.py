"""A surface refitted on the weights of each bootstrap draw (see `resampling`), all draws at once.

A resample is a weight per unit, so every draw is a weighted fit of the same points. Each draw starts from the point
fit and from two starts around it, and may then take over the solution of another draw.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.fitting import newton, point_fit
from smelt.scaling.fitting.objective import jacobian, point_losses
from smelt.scaling.settings import Settings
from smelt.surfaces.form import Design
from smelt.surfaces.points import Array, Points

SIZES = ("flops", "params", "active_params", "looped_params")  # variables that a scale sets
SPARSITIES = ("active", "expansion")  # variables that a sparsity sets
RANK = 1e-6  # smallest singular value that counts as information, relative to that of all points
STARTS = 3  # of each draw
BETTER = 1e-9  # relative decrease that makes the solution of another draw a better start
SOLUTIONS = 1000  # of other draws that each draw is compared with
ROUNDS = 5
STOPPED = 1e-9  # decrease that a Newton step still predicts where the reference solver is taken to have converged


class Refit(NamedTuple):
    """The best fit of each draw, and how many draws another draw's solution helped to a better one."""

    minimum: newton.Minimum
    misses: int


def identified(points: Points, design: Design, drawn: Array) -> NDArray[np.bool_]:
    """Whether the points of each draw, weights (draws, n), determine all free coefficients.

    The rank of the surface's Jacobian at exponents of a usual size, with what a scale sets (F) taken as its
    scale's mean and what a sparsity sets (S) as its sparsity's: the small differences of F among the cells of
    one scale are no second scale.
    """
    slopes = jacobian(_smooth(points), design)[:, design.free]
    lengths = np.linalg.norm(slopes, axis=0)
    if len(slopes) < slopes.shape[1] or not lengths.all():
        return np.zeros(len(drawn), dtype=bool)
    basis, sizes, _ = np.linalg.svd(slopes / lengths, full_matrices=False)
    if sizes[-1] <= RANK * sizes[0] / 10:
        return np.zeros(len(drawn), dtype=bool)
    present, which = np.unique(drawn > 0, axis=0, return_inverse=True)
    # In this basis all points together have a Gram matrix of one, so that squares lose no digits that matter.
    products = np.einsum("ni,nj->nij", basis, basis).reshape(len(basis), -1)
    grams = (present @ products).reshape(-1, basis.shape[1], basis.shape[1])
    return np.asarray(np.linalg.eigvalsh(grams)[:, 0] > RANK**2)[which.ravel()]


def refit(theta: Array, design: Design, drawn: Array, settings: Settings, starts: int = STARTS) -> Refit:
    """The best fit of each draw, weights (draws, n), over its starts, the first being the point fit `theta`.

    Each draw is then compared with the solutions of others, and refitted from one that is better for it.
    Objectives are in units of delta^2.
    """
    first = np.repeat(starts_around(theta, design)[:starts, None], len(drawn), axis=1)
    minimum = _solve(first, design, drawn, settings)
    missed = np.zeros(len(drawn), dtype=bool)
    for _ in range(ROUNDS):
        better, start = _better_start(minimum, design, drawn, settings.huber_delta)
        if not better.size:
            break
        missed[better] = True
        again = _solve(start[None], design, drawn[better], settings)
        lower = again.objective < minimum.objective[better]
        for values, new in zip(minimum, again, strict=True):
            values[better[lower]] = new[lower]
    return Refit(minimum, int(missed.sum()))


def _solve(starts: Array, design: Design, drawn: Array, settings: Settings) -> newton.Minimum:
    """The best end of each draw over its starts (S, draws, P), of which the first is near."""
    count, draws, size = starts.shape
    repeated = np.tile(drawn, (count, 1))
    if settings.solver == "newton":
        theta = starts.reshape(-1, size).copy()
        if count > 1:
            theta[draws:] = newton.approach(theta[draws:], design, repeated[draws:], settings.huber_delta)
        ends = newton.minimise(theta, design, repeated, settings.huber_delta)
    else:
        ends = _reference(starts.reshape(-1, size), design, repeated, settings.huber_delta)
    best = np.arange(draws) + draws * ends.objective.reshape(count, draws).argmin(axis=0)
    return newton.Minimum(*(values[best] for values in ends))


def _reference(starts: Array, design: Design, drawn: Array, delta: float) -> newton.Minimum:
    ends = [point_fit.lbfgsb(start, design, weight, delta) for start, weight in zip(starts, drawn, strict=True)]
    theta, value, steps = (np.array(column) for column in zip(*ends, strict=True))
    left = newton.predicted_decrease(theta, design, drawn, delta)
    return newton.Minimum(theta, value, steps, left <= STOPPED * np.maximum(value, newton.ROUNDING))


def starts_around(theta: Array, design: Design) -> Array:
    """The starts of a draw around the point fit, (3, P)."""
    moves = np.array([((1.0, 0.0), *parameter.moves) for parameter in design.surface.parameters])
    moves[~design.free] = 1.0, 0.0
    return np.asarray(theta * moves[:, :, 0].T + moves[:, :, 1].T)


def _better_start(
    minimum: newton.Minimum, design: Design, drawn: Array, delta: float
) -> tuple[NDArray[np.int64], Array]:
    """The draws for which the solution of another is better than their own, and the best of those."""
    losses = point_losses(minimum.theta[:SOLUTIONS], design, delta)
    best = np.concatenate([(part @ losses).argmin(axis=1) for part in np.array_split(drawn, len(drawn) // 500 + 1)])
    there = np.einsum("bn,nb->b", drawn, losses[:, best])
    better = np.flatnonzero(there < minimum.objective * (1 - BETTER) - newton.ROUNDING)
    return better, minimum.theta[best[better]]


def _smooth(points: Points) -> dict[str, Array]:
    """The variables, with those that a scale or a sparsity sets replaced by its mean, each architecture apart."""
    smooth = dict(points.variables)
    for names, labels in ((SIZES, points.scale), (SPARSITIES, points.sparsity)):
        groups = np.unique(np.stack([points.names, labels]), axis=1, return_inverse=True)[1].ravel()
        for name in set(names) & smooth.keys():
            means = np.bincount(groups, smooth[name]) / np.bincount(groups)
            smooth[name] = means[groups]
    return smooth
