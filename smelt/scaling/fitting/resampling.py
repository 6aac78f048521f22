"""Bootstrap weights: how often each resampling unit (a cell, or an endpoint) is drawn.

A cell is scale x sparsity; all its endpoints (architectures, branches, seeds) go in or out together, for the six
branches of a run share its stable phase and the residuals of a cell agree with one another.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from smelt.errors import UserError
from smelt.scaling.settings import Settings
from smelt.surfaces.points import Array, Points

RESAMPLES = ("cells", "cells_by_scale", "endpoints")
# Why the intervals of a resample are too narrow to establish a sign.
NARROW = {
    "endpoints": "endpoints are resampled one by one, so the intervals are too narrow: those of a cell agree with one "
    "another",
    "cells_by_scale": "cells are resampled within each scale, so the intervals are too narrow: what differs between "
    "scales is left out",
}


def unit_keys(points: Points, resample: str) -> list[tuple[Hashable, ...]]:
    """The resampling unit of each point: its cell, or (`endpoints`) its cell and its rank in it by tokens.

    Endpoints of different architectures with the same cell and rank are one unit, and go in or out together.
    """
    if resample != "endpoints":
        return list(points.cells)
    keys: list[tuple[Hashable, ...]] = [()] * points.loss.size
    counts: dict[tuple[str, ...], int] = {}
    for row in np.argsort(points.tokens, kind="stable").tolist():
        cell = (str(points.scale[row]), str(points.sparsity[row]))
        rank = counts.setdefault((str(points.names[row]), *cell), 0)
        counts[str(points.names[row]), *cell] += 1
        keys[row] = (*cell, rank)
    return keys


def weights(units: Sequence[tuple[Hashable, ...]], settings: Settings) -> Array:
    """Bootstrap counts, (draws, units): how often each resampling unit is drawn. A unit begins with its scale.

    Draw i depends on the seed and i alone. Raises UserError where cells are resampled by scale and a scale has one.
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
    shares = np.random.default_rng(settings.seed).random((settings.bootstrap_draws, len(units)))
    picks = np.empty(shares.shape, dtype=np.int64)
    for stratum in strata:
        picks[:, stratum] = stratum[(shares[:, stratum] * stratum.size).astype(np.int64)]
    picks += len(units) * np.arange(settings.bootstrap_draws)[:, None]
    return np.bincount(picks.ravel(), minlength=picks.size).reshape(picks.shape).astype(np.float64)


def draw_weights(points: Mapping[str, Points], settings: Settings) -> dict[str, Array]:
    """The weights of the points of each entry in each draw, (draws, points), from the same draws of units."""
    keys = {name: unit_keys(one, settings.resample) for name, one in points.items()}
    units = sorted({key for of_points in keys.values() for key in of_points})
    drawn = weights(units, settings)
    column = {unit: index for index, unit in enumerate(units)}
    return {name: drawn[:, [column[key] for key in of_points]] for name, of_points in keys.items()}


def without_each(of_points: Sequence[Hashable], units: Sequence[Hashable]) -> Array:
    """Weights that leave out one unit (a cell, a scale) after the other, (units, points); each point has its unit."""
    kept = [[float(of_point != unit) for of_point in of_points] for unit in units]
    return np.array(kept).reshape(len(units), len(of_points))
