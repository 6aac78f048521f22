"""Surfaces of parts of the text: the exponents of the whole loss's fit, with (E, A, K) fitted to the part's losses.

The same objective, weights and solver as for the whole; in each bootstrap draw the exponents are those that the draw
gave the whole loss. With the exponents fixed three coefficients are left, so a start near the answer is enough: the
draw's own levels, moved as the point fit's levels move from the whole to the part.
"""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.fitting import newton, resampling
from smelt.scaling.fitting.intervals import Draws, LeftOut
from smelt.scaling.gains.frontiers import FittedSurface
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import LEVELS, Design
from smelt.surfaces.points import Array

T = TypeVar("T", bound=Hashable)
# Changes of (log E, level of the capacity term, level of the data term) for the starts of a point fit.
STARTS = ((0.0, 0.0, 0.0), (-1.0, 0.7, 0.7), (0.2, -2.0, -2.0))
SEARCH = 300  # steps of each; the best then goes on to its end
NEAR = 1e-6  # distance from a bound within which a coordinate lies on it


def refit(
    surfaces: Sequence[FittedSurface], losses: Mapping[T, Array], settings: Settings
) -> dict[T, list[FittedSurface]]:
    """The surfaces of each part of the text, from its loss at each endpoint of the table that the points refer to.

    `losses` are nats by part, one entry for each endpoint of that table. Where the exponents cannot be shared the
    surfaces have no values, and say why: the whole loss's fit is missing or on a bound, or it is one surface for all
    architectures, whose levels all but cancel in a gain.
    """
    drawn = resampling.draw_weights({fitted.name: fitted.points for fitted in surfaces}, settings)
    by_surface = [_refit_all(fitted, losses, drawn[fitted.name], settings.huber_delta) for fitted in surfaces]
    return {
        part: [
            dataclasses.replace(fitted, **changes[part], without_cells=None)
            for fitted, changes in zip(surfaces, by_surface, strict=True)
        ]
        for part in losses
    }


def _refit_all(fitted: FittedSurface, losses: Mapping[T, Array], drawn: Array, delta: float) -> dict[T, dict[str, Any]]:
    """What changes in the fitted surface for each part of the text."""
    why = ""
    if fitted.surface.shared:
        why = "one surface for all architectures says the same of all parts of the text"
    elif fitted.values is None:
        why = f"the whole loss has no surface whose exponents could be shared ({fitted.reason})"
    elif fitted.at_bound != "none":
        why = f"{fitted.bounds} on a bound of the fit of the whole loss, whose exponents cannot be shared"
    if why:
        return {part: _missing(why) for part in losses}
    return {part: _refit(fitted, loss[fitted.points.rows], drawn, delta) for part, loss in losses.items()}


def _refit(fitted: FittedSurface, loss: Array, weights: Array, delta: float) -> dict[str, Any]:
    assert fitted.values is not None
    assert fitted.draws is not None
    surface, points = fitted.surface, fitted.points
    names = np.array(surface.coefficients)
    levels = np.isin(names, LEVELS)
    design = surface.design(dataclasses.replace(points, loss=loss))
    start = surface.to_theta(fitted.values, design)
    shifts = np.zeros((len(STARTS), start.size))
    shifts[:, levels] = np.array(STARTS) + np.log(loss.mean() / points.loss.mean())
    ones = np.ones((len(STARTS), design.size))
    ends = newton.minimise(start + shifts, design, ones, delta, ~levels, steps=SEARCH)
    (theta,), *_, (converged,) = newton.minimise(
        ends.theta[[ends.objective.argmin()]], design, ones[:1], delta, ~levels
    )
    if not converged:
        return _missing("the refit did not converge")
    (at_bound,) = _written(_on_bound(theta[None], design) & levels, names)
    draws = _redrawn(fitted.draws, design, weights, theta - start, delta)
    without_scales = None
    if left_out := fitted.without_scales:
        kept = resampling.without_each([(scale,) for scale in points.scale.tolist()], left_out.units)
        without_scales = LeftOut(left_out.units, _redrawn(left_out.refits, design, kept, theta - start, delta))
    values = surface.to_values(theta, design)
    return {"values": values, "at_bound": at_bound, "draws": draws, "without_scales": without_scales}


def _missing(why: str) -> dict[str, Any]:
    return {"values": None, "at_bound": "none", "reason": why, "draws": None, "without_scales": None}


def _redrawn(whole: Draws, design: Design, weights: Array, shift: Array, delta: float) -> Draws:
    """The levels fitted under each row of weights, the exponents being those of the whole loss's refit under it.

    `shift` (P,) is by how much the point fit's coordinates move from the whole to the part.
    """
    surface, names = design.surface, np.array(design.surface.coefficients)
    levels = np.isin(names, LEVELS)
    with np.errstate(all="ignore"):  # of the draws that are not used
        drawn = surface.to_theta(whole.values, design) + shift
        drawn = np.where(drawn < design.lower + NEAR, design.lower, drawn)  # from just above, no step would fall
    usable = whole.identified & whole.converged & np.isfinite(drawn).all(axis=1)
    minimum = newton.minimise(drawn[usable], design, weights[usable], delta, ~levels)
    values, reached, hit = np.full_like(drawn, np.nan), np.zeros_like(usable), _read(whole.at_bound, names) & ~levels
    values[usable], reached[usable] = surface.to_values(minimum.theta, design), minimum.converged
    hit[usable] |= _on_bound(minimum.theta, design) & levels
    return dataclasses.replace(whole, values=values, converged=reached, at_bound=_written(hit, names))


def _on_bound(theta: Array, design: Design) -> NDArray[np.bool_]:
    return np.asarray(np.minimum(np.abs(theta - design.lower), np.abs(theta - design.upper)) <= NEAR)


def _read(texts: NDArray[np.str_], names: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which of the coefficients each text names."""
    known, which = np.unique(texts, return_inverse=True)
    return np.array([np.isin(names, text.split()) for text in known.tolist()])[which]


def _written(hit: NDArray[np.bool_], names: NDArray[np.str_]) -> NDArray[np.str_]:
    """The names of the coefficients in each row of `hit` in one text, or "none"."""
    known, which = np.unique(hit, axis=0, return_inverse=True)
    return np.array([" ".join(names[row]) or "none" for row in known])[which.ravel()]
