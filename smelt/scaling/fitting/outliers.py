"""Endpoints that lie far off their own fitted surface: a diverged run, another text, a mistyped number.

The Huber fit all but ignores most of them, so that its numbers may still be right. A cell at the corner of the grid can
draw the surface to itself; the surface without that cell shows it. No interval knows of either. What rests on such a
surface is not resolved until the endpoints are left out.
"""

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.fitting.intervals import LeftOut
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


def outlying(points: Points, surface: Surface, values: Array | None, without: LeftOut | None = None) -> list[str]:
    """Which endpoints of an architecture are outlying, as one reason; empty where none is or nothing was fitted.

    `values` are the coefficients, (P,), and `without` the surfaces fitted without each cell.
    """
    if values is None or points.loss.size < LEAST_SHARE * len(values):
        return []
    others = {} if without is None else _determined(surface, without)
    cells = sorted(set(points.cells))
    members = [(points.scale == scale) & (points.sparsity == sparsity) for scale, sparsity in cells]
    expected = surface.predict(values, points.variables)
    far = _far_off(np.log(points.loss / expected), members)
    for cell, inside in zip(cells, members, strict=True):
        alone = surface.predict(others.get(cell, np.full_like(values, np.nan)), points.variables)
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


def _determined(surface: Surface, without: LeftOut) -> dict[tuple[str, ...], Array]:
    """The coefficients without each cell, (P,) each, where the other cells determine a surface that falls."""
    refits = without.refits
    exponents = [surface.coefficients.index(name) for name in ("a", "c")]
    sound = refits.identified & refits.converged & (refits.at_bound == "none")
    sound = sound & (refits.values[:, exponents] > 0).all(axis=1)
    return {cell: values for cell, values, kept in zip(without.units, refits.values, sound, strict=True) if kept}


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
