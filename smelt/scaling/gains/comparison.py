"""Fitted surfaces beside one another: the frontier of one architecture at a sparsity, and two of them compared.

Architectures are compared at a common (C, S), S being the value of the sparsity's label, since each architecture's
measured S differs a little from cell to cell. What else a surface reads (loops, experts) is that of the architecture's
own endpoints of the label. Everything that no budget changes is computed once and then asked often.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smelt import tables
from smelt.errors import UserError
from smelt.labels import Cell
from smelt.scaling.fitting.draws import read_coefficients, read_draws, values_of
from smelt.scaling.fitting.intervals import Draws, UsableDraws, support
from smelt.scaling.fitting.outliers import outlying
from smelt.scaling.fitting.resampling import NARROW
from smelt.scaling.gains.sides import differing
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import SURFACES, Surface
from smelt.surfaces.frontier import Box, Slice
from smelt.surfaces.points import Array, Points

HELD = " is held at "  # in the fit's reason: that the points cannot determine a coefficient


@dataclasses.dataclass(frozen=True)
class FittedSurface:
    """One architecture: its points, and its surface as fitted, on the draws and with each cell left out."""

    points: Points
    surface: Surface
    values: Array | None  # (P,), or nothing where the points do not determine them
    at_bound: str  # the coefficients on a bound, or "none"
    reason: str  # what the fit says of itself
    draws: Draws | None = None
    without: Draws | None = None  # one entry for each of `cells`
    cells: Sequence[Cell] = ()

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
        return outlying(self.points, self.surface, self.values, self._surfaces_without())

    def _surfaces_without(self) -> dict[Cell, Array]:
        """The coefficients without each cell, (P,) each, where the other cells determine a surface that falls."""
        refits = self.without
        if refits is None:
            return {}
        exponents = [self.surface.coefficients.index(name) for name in ("a", "c")]
        sound = refits.identified & refits.converged & (refits.at_bound == "none")
        sound = sound & (refits.values[:, exponents] > 0).all(axis=1)
        return {cell: values for cell, values, kept in zip(self.cells, refits.values, sound, strict=True) if kept}

    @property
    def caveats(self) -> list[str]:
        """What a reader should know of a surface whose numbers still hold."""
        notes = [note for note in self.reason.split("; ") if HELD in note]
        named = {} if self.values is None else dict(zip(self.surface.coefficients, self.values.tolist(), strict=True))
        if named.get("b", 0) < 0:
            notes.append(f"{self.owner}: the exponent b is negative, so sparsity raises the loss")
        return notes


@dataclasses.dataclass(frozen=True, eq=False)
class Frontier:
    """One architecture at one sparsity: its frontier as fitted, on every draw and without each cell."""

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
        shaped = any(not set(name.split("|")) & {"flops", "active", "tokens"} for name in surface.surface.variables)
        if shaped and self.label not in surface.points.sparsity:
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
        return self._slice(self.surface.values)

    @functools.cached_property
    def drawn(self) -> Slice:
        """The slices of the refitted surfaces, one entry for each bootstrap draw."""
        assert self.surface.draws is not None
        return self._slice(self.surface.draws.values)

    @functools.cached_property
    def without(self) -> Slice:
        """The slices of the surfaces with each cell left out, one entry for each cell."""
        assert self.surface.without is not None
        return self._slice(self.surface.without.values)

    @functools.cached_property
    def without_invalid_because(self) -> list[str]:
        """For each cell why nothing can be said without it, or an empty text."""
        refits = self.surface.without
        assert refits is not None
        causes = {
            "is not determined": ~refits.identified,
            "did not converge": ~refits.converged,
            "has a coefficient on a bound": refits.at_bound != "none",
            "has no frontier": ~np.broadcast_to(frontier.meaningful(self.without), refits.converged.shape),
        }
        reasons = []
        for index, (scale, sparsity) in enumerate(self.surface.cells):
            cause = next((cause for cause, excluded in causes.items() if excluded[index]), "")
            reasons.append(cause and f"without {scale} {sparsity} {self.surface.owner} {cause}")
        return reasons

    @functools.cached_property
    def box(self) -> Box:
        """What the architecture was trained on."""
        return frontier.box(self.surface.points)

    @functools.cached_property
    def usable(self) -> UsableDraws:
        """The draws in which there is a frontier."""
        return usable_draws([self])

    def window(self, budget: float) -> str:
        """Where the optimum for `budget` (training FLOPs) lies."""
        return frontier.window(self.fitted, self.box, budget)

    def _slice(self, values: Array) -> Slice:
        """The slice of one or many surfaces, `values` (..., P), at the sparsity of the label."""
        points = self.surface.points
        of_label = points.sparsity == self.label
        variables = {name: column[of_label] for name, column in points.variables.items()}
        variables["active"] = np.float64(1 - self.settings.sparsity_values[self.label])
        with np.errstate(all="ignore"):  # of the draws that are not used
            return self.surface.surface.slice(values, variables)


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """The frontier of an architecture, the target, beside that of the reference at the same sparsity."""

    target: Frontier
    reference: Frontier

    @property
    def label(self) -> str:
        """Label of the sparsity."""
        return self.target.label

    @property
    def settings(self) -> Settings:
        """Settings of the scaling stage."""
        return self.target.settings

    @functools.cached_property
    def invalid_because(self) -> list[str]:
        """Why the two cannot be compared; empty where they can."""
        return self.target.invalid_because + self.reference.invalid_because

    @property
    def endpoints(self) -> int:
        """Fitted endpoints of both."""
        return int(self.target.surface.points.rows.size + self.reference.surface.points.rows.size)

    @property
    def caveats(self) -> list[str]:
        """What a reader should know of the two surfaces."""
        return self.target.surface.caveats + self.reference.surface.caveats

    @functools.cached_property
    def without_invalid_because(self) -> list[str]:
        """For each cell why nothing can be compared without it, or an empty text."""
        both = self.target.without_invalid_because, self.reference.without_invalid_because
        return [of_target or of_reference for of_target, of_reference in zip(*both, strict=True)]

    @functools.cached_property
    def usable(self) -> UsableDraws:
        """The draws in which both have a frontier."""
        return usable_draws([self.target, self.reference])

    @functools.cached_property
    def pairing(self) -> tuple[list[str], list[str]]:
        """What makes all intervals doubtful, and what a reader should know of how the draws are paired."""
        return pairing(self.target.surface, self.reference.surface, self.settings)

    def log_multiplier(self, budget: float) -> float:
        """log C_reference / C_target at the target's `budget`; infinite where the reference never gets there."""
        return float(frontier.log_multiplier(self.target.fitted, self.reference.fitted, budget))

    def drawn_gains(self, budget: float) -> Array:
        """The gain in each draw, (draws,), also of those that are not usable."""
        with np.errstate(all="ignore"):
            return frontier.gain(self.target.drawn, self.reference.drawn, budget)

    def window(self, budget: float) -> str:
        """Where a gain lies: it rests on the target's optimum at its budget and the reference's at the one it needs."""
        needed = np.log(budget) + self.log_multiplier(budget)
        return frontier.weakest(
            self.target.window(budget),
            self.reference.window(float(np.exp(min(needed, frontier.LARGEST)))),
        )

    def compute_window(self, budget: float) -> str:
        """The window where no optimum is known."""
        return compute_window([self.target.surface, self.reference.surface], budget)


def frontiers(surfaces: Sequence[FittedSurface], settings: Settings) -> dict[tuple[str, str], Frontier]:
    """The frontier of every architecture at each sparsity of the reference, by (architecture, label)."""
    names = labels(surfaces, settings)
    return {(surface.name, label): Frontier(surface, label, settings) for surface in surfaces for label in names}


def compare(by_name: Mapping[tuple[str, str], Frontier], reference: str) -> dict[tuple[str, str], Comparison]:
    """Every other architecture beside the reference at each sparsity, by (architecture, label)."""
    return {
        (name, label): Comparison(target, by_name[reference, label])
        for (name, label), target in by_name.items()
        if name != reference
    }


def usable_draws(frontiers: Sequence[Frontier]) -> UsableDraws:
    """The draws in which all of these have a frontier."""
    draws = [one.surface.draws for one in frontiers if one.surface.draws is not None]
    return support(draws, slices=[one.drawn for one in frontiers])


def read_surfaces(
    points: Mapping[str, Points], settings: Settings, coefficients: Path, draws: Path, without: Path
) -> list[FittedSurface]:
    """The fitted surfaces of all architectures, the reference first, from the artifacts of the fit."""
    surface = SURFACES[settings.surface]
    rows, drawn, left_out = read_coefficients(coefficients), read_draws(draws, surface), read_draws(without, surface)
    cells = cells_left_out(without)
    return [
        FittedSurface(
            points=of_architecture,
            surface=surface,
            values=values_of(rows[name], surface),
            at_bound=rows[name]["at_bound"],
            reason=rows[name]["reason"] or "",
            draws=drawn[name],
            without=left_out[name],
            cells=cells,
        )
        for name, of_architecture in points.items()
    ]


def cells_left_out(path: Path) -> list[Cell]:
    """The cells of the surfaces fitted without one, in the order of each architecture's rows."""
    cells = tables.read(path, ["scale", "sparsity"]).drop_duplicates()
    return list(cells.itertuples(index=False, name=None))


def pairing(target: FittedSurface, reference: FittedSurface, settings: Settings) -> tuple[list[str], list[str]]:
    """What makes the intervals of a comparison doubtful, and what a reader should know of them."""
    narrow = [NARROW[settings.resample]] if settings.resample in NARROW else []
    narrow += endpoints_doubtful_because(target, reference)
    cells, reference_cells = set(target.points.cells), set(reference.points.cells)
    if not cells & reference_cells:
        unpaired = f"{target.name} and {reference.name} have no cell in common, so their draws are not paired"
        return [*narrow, unpaired], []
    if count := len(cells ^ reference_cells):
        return narrow, [f"cells that {target.name} and {reference.name} do not share, and that are not paired: {count}"]
    return narrow, []


def endpoints_doubtful_because(target: FittedSurface, reference: FittedSurface) -> list[str]:
    """Why no sign is established whatever the intervals say: what is wrong with the endpoints of either side."""
    wrong = [*target.outlying, *reference.outlying]
    there = set(reference.points.sparsity.tolist())
    if not there & set(target.points.sparsity.tolist()):
        wrong.append(f"{target.name} has no endpoint at {', '.join(sorted(there))}")
    return [*wrong, *differing(target.points, reference.points)]


def sentence(notes: Sequence[str]) -> str | None:
    """The reason of a row, each note once, or nothing."""
    return "; ".join(dict.fromkeys(notes)) or None


def labels(surfaces: Sequence[FittedSurface], settings: Settings) -> list[str]:
    """The sparsities of the reference's points, from dense to sparse."""
    return sorted(set(surfaces[0].points.sparsity.tolist()), key=settings.sparsity_values.__getitem__)


def budgets(surfaces: Sequence[FittedSurface], settings: Settings) -> list[float]:
    """The study's compute budgets; by default two inside the compute window that all share and one beyond it.

    Raises UserError where the study names none and the windows do not overlap.
    """
    if settings.compute_budgets:
        return sorted(settings.compute_budgets)
    low, high = shared_window(surfaces)
    if low > high:
        raise UserError("scaling: the architectures' compute windows do not overlap; give scaling.compute_budgets")
    ratio = high / low
    return [_two_digits(value) for value in (low * ratio ** (1 / 3), low * ratio ** (2 / 3), 10 * high)]


def shared_window(surfaces: Sequence[FittedSurface]) -> tuple[float, float]:
    """The compute that all were trained at, from its start to its end (which lies lower where there is none)."""
    boxes = [frontier.box(surface.points) for surface in surfaces]
    return max(box.compute[0] for box in boxes), min(box.compute[1] for box in boxes)


def compute_window(surfaces: Sequence[FittedSurface], budget: float) -> str:
    """The window where no optimum is known: all that can be said is whether the compute was trained."""
    low, high = shared_window(surfaces)
    return frontier.EDGE if low <= budget <= high else frontier.EXTRAPOLATED


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
