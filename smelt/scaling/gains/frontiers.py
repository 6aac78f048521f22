"""One architecture: its fitted surface, and the frontier of that surface at one sparsity.

The frontier is read at the S of the sparsity's label, since each architecture's measured S differs a little from cell
to cell. What else a surface reads (loops, experts) is that of the architecture's own endpoints of the label.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smelt.scaling.fitting.draws import read_coefficients, read_draws, read_without, values_of
from smelt.scaling.fitting.intervals import Draws, LeftOut, UsableDraws, support
from smelt.scaling.fitting.outliers import outlying
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import SURFACES, Surface
from smelt.surfaces.frontier import Slice, Trained
from smelt.surfaces.hull import factor_outside
from smelt.surfaces.points import Array, Points

HELD = " is held at "  # in the fit's reason: that the points cannot determine a coefficient


@dataclasses.dataclass(frozen=True)
class FittedSurface:
    """One architecture: its points, and its surface as fitted, on the draws and with each cell and scale left out."""

    points: Points
    surface: Surface
    values: Array | None  # (P,), or nothing where the points do not determine them
    at_bound: str  # the coefficients on a bound, or "none"
    reason: str  # what the fit says of itself
    draws: Draws | None = None
    without_cells: LeftOut | None = None
    without_scales: LeftOut | None = None
    inside_delta: float | None = None  # share of its residuals inside the Huber delta

    @property
    def name(self) -> str:
        """The architecture."""
        return self.points.architecture

    @property
    def owner(self) -> str:
        """Whose coefficients these are, in a reason."""
        return f"{self.surface.name} of all architectures" if self.surface.shared else self.name

    @property
    def bounds(self) -> str:
        """The coefficients on a bound, in a reason."""
        return " and ".join(self.at_bound.split())

    @functools.cached_property
    def outlying(self) -> list[str]:
        """Which endpoints lie far off the surface; empty where none does."""
        return outlying(self.points, self.surface, self.values, self.without_cells)

    @property
    def caveats(self) -> list[str]:
        """What a reader should know of a surface whose numbers still hold."""
        notes = [note for note in self.reason.split("; ") if HELD in note]
        named = {} if self.values is None else dict(zip(self.surface.coefficients, self.values.tolist(), strict=True))
        if named.get("b", 0) < 0:
            notes.append(f"{self.owner}: the exponent b is negative, so sparsity raises the loss")
        return notes


class Optimum(NamedTuple):
    """A compute-optimal model, and where it lies beside what was trained."""

    flops: float  # F*, FLOPs per token
    tokens: float  # D*
    outside: float  # factor by which it lies outside the trained (F, D), 1 inside
    where: str  # in words

    @property
    def far(self) -> bool:
        """Whether it is too far outside to be read off the surface."""
        return not self.outside <= frontier.FARTHEST


@dataclasses.dataclass(frozen=True, eq=False)
class Frontier:
    """One architecture at one sparsity: its frontier as fitted, on every draw and with units left out."""

    surface: FittedSurface
    label: str  # of the sparsity
    settings: Settings

    @property
    def name(self) -> str:
        """The architecture."""
        return self.surface.name

    @functools.cached_property
    def invalid_because(self) -> list[str]:
        """Why no number can be read off the surface at this sparsity; empty where it can."""
        surface = self.surface
        if surface.values is None:
            return [f"{surface.owner}: {surface.reason}"]
        if self._shapeless:
            missing = f"no endpoint at {self.label}, whose loops and experts {surface.surface.name} would read"
            return [f"{self.name}: {missing}"]
        reasons = []
        if surface.at_bound != "none":  # such a coefficient was set by the bound and not by the text
            reasons.append(f"{surface.owner}: {surface.bounds} on a bound of the fit")
        for name in ("a", "c"):
            if not getattr(self.fitted, name) > 0:
                reasons.append(f"{surface.owner}: the exponent {name} is not positive, so there is no frontier")
        return reasons

    @functools.cached_property
    def fitted(self) -> Slice:
        """The slice of the fitted surface, which there must be."""
        assert self.surface.values is not None
        return self.slice(self.surface.values)

    @functools.cached_property
    def drawn(self) -> Slice:
        """The slices of the refitted surfaces, one entry for each bootstrap draw."""
        assert self.surface.draws is not None
        return self.slice(self.surface.draws.values)

    @functools.cached_property
    def trained(self) -> Trained:
        """What the architecture was trained on."""
        return frontier.trained(self.surface.points)

    @functools.cached_property
    def has_optimum(self) -> bool:
        """Whether the point fit has a frontier at all, be it one that no number can be read off."""
        there = self.surface.values is not None and not self._shapeless
        return there and bool(frontier.meaningful(self.fitted))

    @property
    def _shapeless(self) -> bool:
        """Whether the surface reads loops or experts and no endpoint of the label has any."""
        variables = self.surface.surface.variables
        shaped = any(not set(name.split("|")) & {"flops", "active", "tokens"} for name in variables)
        return shaped and self.label not in self.surface.points.sparsity

    @functools.cached_property
    def usable(self) -> UsableDraws:
        """The draws in which there is a frontier."""
        return usable_draws([self])

    def window(self, budget: float) -> str:
        """Where the optimum for `budget` (training FLOPs) lies."""
        return frontier.window(self.fitted, self.trained, budget)

    def optimum(self, budget: float) -> Optimum:
        """The optimum for `budget` (training FLOPs) of a surface that has one (`has_optimum`)."""
        flops, tokens = frontier.optimum(self.fitted, budget)
        outside = float(factor_outside(self.trained.corners, flops, tokens))
        where = frontier.whereabouts(float(flops), float(tokens), self.trained)
        return Optimum(float(flops), float(tokens), outside, f"{self.name}: {where}")

    def slice(self, values: Array) -> Slice:
        """The slice of one or many surfaces, `values` (..., P), at the sparsity of the label."""
        points = self.surface.points
        of_label = points.sparsity == self.label
        variables = {name: column[of_label] for name, column in points.variables.items()}
        variables["active"] = np.float64(1 - self.settings.sparsity_values[self.label])
        with np.errstate(all="ignore"):  # of the draws that are not used
            return self.surface.surface.slice(values, variables)


def labels(surfaces: Sequence[FittedSurface], settings: Settings) -> list[str]:
    """The sparsities of the reference's points, from dense to sparse."""
    return sorted(set(surfaces[0].points.sparsity.tolist()), key=settings.sparsity_values.__getitem__)


def frontiers(surfaces: Sequence[FittedSurface], settings: Settings) -> dict[tuple[str, str], Frontier]:
    """The frontier of every architecture at each sparsity of the reference, by (architecture, label)."""
    names = labels(surfaces, settings)
    return {(surface.name, label): Frontier(surface, label, settings) for surface in surfaces for label in names}


def usable_draws(frontiers: Sequence[Frontier]) -> UsableDraws:
    """The draws in which all of these have a frontier."""
    draws = [one.surface.draws for one in frontiers if one.surface.draws is not None]
    return support(draws, slices=[one.drawn for one in frontiers])


def read_surfaces(
    points: Mapping[str, Points], settings: Settings, coefficients: Path, draws: Path, without: Path
) -> list[FittedSurface]:
    """The fitted surfaces of all architectures, the reference first, from the artifacts of the fit."""
    surface = SURFACES[settings.surface]
    rows, drawn = read_coefficients(coefficients), read_draws(draws, surface)
    by_cell, by_scale = read_without(without, surface)
    return [
        FittedSurface(
            points=of_architecture,
            surface=surface,
            values=values_of(rows[name], surface),
            at_bound=rows[name]["at_bound"],
            reason=rows[name]["reason"] or "",
            draws=drawn[name],
            without_cells=by_cell[name],
            without_scales=by_scale[name],
            inside_delta=rows[name]["inside_delta"],
        )
        for name, of_architecture in points.items()
    ]
