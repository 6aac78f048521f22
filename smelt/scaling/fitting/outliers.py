"""Endpoints that lie far off their own fitted surface: a diverged run, another text, a mistyped number.

The Huber fit all but ignores most of them, so that its numbers may still be right. A cell at the corner of the grid can
draw the surface to itself; the surface without that cell shows it. No interval knows of either. What rests on such a
surface is not resolved until the endpoints are left out.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from smelt.labels import Cell
from smelt.surfaces.catalogue import Surface
from smelt.surfaces.points import Array, Points

# Robust standard deviations and log loss: what lies beyond both is outlying.
ENDPOINT_FAR = (10.0, 0.03)  # an endpoint
CELL_FAR = (8.0, 0.02)  # the median of a cell
WITHOUT_FAR = (10.0, 0.10)  # the median of a cell, off the surface that was fitted without it
LEAST_CELLS = 6  # from which the spread of their medians can be told
LEAST_SHARE = 2  # endpoints per coefficient, below which residuals say little
TO_DEVIATION = 1.4826  # times the median absolute deviation of normal residuals
NAMED = 3  # cells that a reason names


def outlying(points: Points, surface: Surface, values: Array | None, without: Mapping[Cell, Array]) -> list[str]:
    """Which endpoints of an architecture are outlying, as one reason; empty where none is or nothing was fitted.

    `values` are the coefficients, (P,), and `without` those fitted without each cell, NaN where that was not possible.
    """
    if values is None or points.loss.size < LEAST_SHARE * len(values):
        return []
    cells = sorted(set(points.cells))
    members = [(points.scale == scale) & (points.sparsity == sparsity) for scale, sparsity in cells]
    expected = surface.predict(values, points.variables)
    far = _far_off(np.log(points.loss / expected), members)
    for cell, inside in zip(cells, members, strict=True):
        alone = surface.predict(without.get(cell, np.full_like(values, np.nan)), points.variables)
        if _drawn(np.log(points.loss / alone), inside):
            far, expected = far | inside, np.where(inside, alone, expected)
    parts = [
        f"{(inside & far).sum()} of {inside.sum()} in {' '.join(cell)} ({_worst(points.loss, expected, inside & far)})"
        for cell, inside in zip(cells, members, strict=True)
        if (inside & far).any()
    ]
    if not parts:
        return []
    more = f" and others in {len(parts) - NAMED} more cells" if len(parts) > NAMED else ""
    named = ", ".join(parts[:NAMED]) + more
    return [f"{points.architecture}: outlying endpoints, {named}; leave them out or measure them again"]


def _far_off(residual: Array, members: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which endpoints are outlying by themselves or as a cell; `members` are the endpoints of each cell."""
    far = _far(residual, *ENDPOINT_FAR)
    if len(members) >= LEAST_CELLS:
        medians = np.array([np.median(residual[inside]) for inside in members])
        for inside, wrong in zip(members, _far(medians, *CELL_FAR), strict=True):
            far = far | (inside & wrong)
    return far


def _far(values: Array, deviations: float, least: float) -> NDArray[np.bool_]:
    apart = np.abs(values - np.median(values))
    return np.asarray(apart > max(deviations * TO_DEVIATION * float(np.median(apart)), least))


def _drawn(residual: Array, inside: NDArray[np.bool_]) -> bool:
    """Whether a cell is far off the surface without it, to which `residual` is, by the spread of all others."""
    others = residual[~inside]
    if not np.isfinite(residual).all() or not others.size:
        return False
    deviations, least = WITHOUT_FAR
    spread = TO_DEVIATION * float(np.median(np.abs(others - np.median(others))))
    return bool(np.abs(np.median(residual[inside])) > max(deviations * spread, least))


def _worst(loss: Array, expected: Array, which: NDArray[np.bool_]) -> str:
    places = np.flatnonzero(which)
    worst = places[np.abs(np.log(loss[places] / expected[places])).argmax()]
    return f"loss {loss[worst]:.4g}, expected {expected[worst]:.4g}"
