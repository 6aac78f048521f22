"""Bootstrap: all surfaces refitted on the same resamples of the study.

A cell is scale x sparsity; all its endpoints (architectures, branches, seeds) go in or out together, for
the six branches of a run share its stable phase and the residuals of a cell agree with one another. A
resample is a weight per cell, so every draw is a weighted fit of the same points. Where a grid is small,
cells can be resampled within each scale; single endpoints can be resampled for comparison.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.errors import UserError
from smelt.scaling import newton, solve
from smelt.scaling.forms import Design
from smelt.scaling.objective import jacobian, point_losses
from smelt.scaling.settings import Array, Points, Settings

RESAMPLES = ("cells", "cells_by_scale", "endpoints")
# Why the intervals of a resample are too narrow to establish a sign.
NARROW = {
    "endpoints": "endpoints are resampled one by one, so the intervals are too narrow: those of a cell agree with one "
    "another",
    "cells_by_scale": "cells are resampled within each scale, so the intervals are too narrow: what differs between "
    "scales is left out",
}
SIZES = ("flops", "params", "active_params", "looped_params")  # variables that a scale sets
SPARSITIES = ("active", "expansion")  # variables that a sparsity sets
RANK = 1e-6  # smallest singular value that counts as information, relative to that of all points
STARTS = 3  # of each draw
BETTER = 1e-9  # relative decrease that makes the solution of another draw a better start
SOLUTIONS = 1000  # of other draws that each draw is held against
ROUNDS = 5
STOPPED = 1e-9  # decrease that a Newton step still predicts where the reference solver is taken to have converged


class Refit(NamedTuple):
    """The best fit of each draw, and how many draws another draw's solution helped to a better one."""

    minimum: newton.Minimum
    misses: int


def unit_keys(points: Points, resample: str) -> list[tuple[Hashable, ...]]:
    """What each point is resampled as part of: its cell, or (`endpoints`) its place within the cell.

    Endpoints of one architecture take their places by their tokens, so that those of another in the same
    place go in or out with them.
    """
    if resample != "endpoints":
        return list(points.cells)
    keys: list[tuple[Hashable, ...]] = [()] * points.loss.size
    counts: dict[tuple[str, ...], int] = {}
    for row in np.argsort(points.tokens, kind="stable").tolist():
        cell = (str(points.scale[row]), str(points.sparsity[row]))
        place = counts.setdefault((str(points.names[row]), *cell), 0)
        counts[str(points.names[row]), *cell] += 1
        keys[row] = (*cell, place)
    return keys


def weights(units: Sequence[tuple[Hashable, ...]], settings: Settings) -> Array:
    """How often each unit (a cell, first its scale) comes up in each draw, (draws, units).

    Draw i depends on the seed and i alone.
    """
    strata = [np.arange(len(units))]
    if settings.resample == "cells_by_scale":
        scales = [unit[0] for unit in units]
        if alone := sorted({str(scale) for scale in scales if scales.count(scale) == 1}):
            raise UserError(
                f"scaling.resample: cells_by_scale, but scale {alone[0]} has a single cell, so that every draw would "
                "be the same; choose cells, or add sparsities"
            )
        strata = [np.flatnonzero([one == scale for one in scales]) for scale in dict.fromkeys(scales)]
    # Filled row by row from one stream.
    shares = np.random.default_rng(settings.seed).random((settings.draws, len(units)))
    picks = np.empty(shares.shape, dtype=np.int64)
    for stratum in strata:
        picks[:, stratum] = stratum[(shares[:, stratum] * stratum.size).astype(np.int64)]
    picks += len(units) * np.arange(settings.draws)[:, None]
    return np.bincount(picks.ravel(), minlength=picks.size).reshape(picks.shape).astype(np.float64)


def draw_weights(points: Mapping[str, Points], settings: Settings) -> dict[str, Array]:
    """The weights of the points of each entry in each draw, (draws, points), from the same draws of units."""
    keys = {name: unit_keys(one, settings.resample) for name, one in points.items()}
    units = sorted({key for mine in keys.values() for key in mine})
    drawn = weights(units, settings)
    place = {unit: column for column, unit in enumerate(units)}
    return {name: drawn[:, [place[key] for key in mine]] for name, mine in keys.items()}


def without_each(points: Points, cells: Sequence[tuple[str, str]]) -> Array:
    """Weights that leave out one cell after the other, (cells, points)."""
    mine = points.cells
    return np.array([[float(one != cell) for one in mine] for cell in cells]).reshape(len(cells), len(mine))


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

    Each draw is then held against the solutions of others, and refitted from one that is better for it.
    """
    first = np.repeat(starts_around(theta, design)[:starts, None], len(drawn), axis=1)
    found = _solve(first, design, drawn, settings)
    missed = np.zeros(len(drawn), dtype=bool)
    for _ in range(ROUNDS):
        better, start = _better_start(found, design, drawn, settings.huber_delta)
        if not better.size:
            break
        missed[better] = True
        again = _solve(start[None], design, drawn[better], settings)
        lower = again.objective < found.objective[better]
        for values, new in zip(found, again, strict=True):
            values[better[lower]] = new[lower]
    return Refit(found, int(missed.sum()))


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
    ends = [solve.lbfgsb(start, design, weight, delta) for start, weight in zip(starts, drawn, strict=True)]
    theta, value, steps = (np.array(column) for column in zip(*ends, strict=True))
    left = newton.predicted_decrease(theta, design, drawn, delta)
    return newton.Minimum(theta, value, steps, left <= STOPPED * np.maximum(value, newton.ROUNDING))


def starts_around(theta: Array, design: Design) -> Array:
    """The starts of a draw around the point fit, (3, P)."""
    moves = np.array([((1.0, 0.0), *parameter.moves) for parameter in design.surface.parameters])
    moves[~design.free] = 1.0, 0.0
    return np.asarray(theta * moves[:, :, 0].T + moves[:, :, 1].T)


def _better_start(found: newton.Minimum, design: Design, drawn: Array, delta: float) -> tuple[NDArray[np.int64], Array]:
    """The draws for which the solution of another is better than their own, and the best of those."""
    losses = point_losses(found.theta[:SOLUTIONS], design, delta)
    best = np.concatenate([(part @ losses).argmin(axis=1) for part in np.array_split(drawn, len(drawn) // 500 + 1)])
    there = np.einsum("bn,nb->b", drawn, losses[:, best])
    better = np.flatnonzero(there < found.objective * (1 - BETTER) - newton.ROUNDING)
    return better, found.theta[best[better]]


def _smooth(points: Points) -> dict[str, Array]:
    """The variables, with those that a scale or a sparsity sets replaced by its mean, each architecture apart."""
    found = dict(points.variables)
    for names, labels in ((SIZES, points.scale), (SPARSITIES, points.sparsity)):
        groups = np.unique(np.stack([points.names, labels]), axis=1, return_inverse=True)[1].ravel()
        for name in set(names) & found.keys():
            means = np.bincount(groups, found[name]) / np.bincount(groups)
            found[name] = means[groups]
    return found
