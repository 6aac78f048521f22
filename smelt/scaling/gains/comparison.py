"""The surfaces that are compared, one side each, and what is doubtful about them.

Architectures are compared at a common (C, S), S being the value of the sparsity's label, since each
architecture's measured S differs a little from cell to cell. What else a surface reads (loops, experts)
is that of the architecture's own endpoints of the label.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smelt.artifacts import read_table
from smelt.errors import UserError
from smelt.scaling.fitting.draws import read_coefficients, read_draws, values_of
from smelt.scaling.fitting.intervals import Draws, UsableDraws
from smelt.scaling.fitting.intervals import support as draws_support
from smelt.scaling.fitting.resampling import NARROW
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import SURFACES, Surface
from smelt.surfaces.frontier import Slice
from smelt.surfaces.points import Array, Points

HELD = " is held at "  # in the fit's reason: that the points cannot determine a coefficient
Cell = tuple[str, str]


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
        return self.points.architecture

    @property
    def owner(self) -> str:
        """Whose coefficients these are, in a reason."""
        return f"{self.surface.name} of all architectures" if self.surface.shared else self.name

    @property
    def bounds(self) -> str:
        """The coefficients on a bound, in a reason."""
        return " and ".join(self.at_bound.split())


def read_sides(
    points: Mapping[str, Points], settings: Settings, coefficients: Path, draws: Path, without: Path
) -> list[FittedSurface]:
    """All architectures, the reference first."""
    surface = SURFACES[settings.surface]
    rows, drawn, left = read_coefficients(coefficients), read_draws(draws, surface), read_draws(without, surface)
    cells = cells_left_out(without)
    return [
        FittedSurface(
            points=one,
            surface=surface,
            values=values_of(rows[name], surface),
            at_bound=rows[name]["at_bound"],
            reason=rows[name]["reason"] or "",
            draws=drawn[name],
            without=left[name],
            cells=cells,
        )
        for name, one in points.items()
    ]


def cells_left_out(path: Path) -> list[Cell]:
    """The cells of the surfaces fitted without one, in the order of each architecture's rows."""
    data = read_table(path, ["scale", "sparsity"]).to_pylist()
    return list(dict.fromkeys((row["scale"], row["sparsity"]) for row in data))


def section(side: FittedSurface, values: Array, label: str, settings: Settings) -> Slice:
    """The section of one or many surfaces of `side`, `values` (..., P), at the sparsity of a label."""
    mine = side.points.sparsity == label
    shape = {name: column[mine] for name, column in side.points.variables.items()}
    with np.errstate(all="ignore"):  # of the draws that are not used
        return side.surface.section(values, shape | {"active": np.float64(1 - settings.sparsity_values[label])})


def point(side: FittedSurface, label: str, settings: Settings) -> Slice:
    """The section of the fitted surface, which must have no fault."""
    assert side.values is not None
    return section(side, side.values, label, settings)


def drawn(side: FittedSurface, label: str, settings: Settings) -> Slice:
    """The sections of the refitted surfaces, one entry for each draw."""
    assert side.draws is not None
    return section(side, side.draws.values, label, settings)


def support(*sides: FittedSurface, label: str, settings: Settings) -> UsableDraws:
    """The draws in which all of these sides have a frontier."""
    draws = [side.draws for side in sides if side.draws is not None]
    return draws_support(draws, sections=[drawn(side, label, settings) for side in sides])


def faults(side: FittedSurface, label: str, settings: Settings) -> list[str]:
    """Why no number can be read off a surface at this sparsity; nothing where it can."""
    if side.values is None:
        return [f"{side.owner}: {side.reason}"]
    shaped = any(not set(name.split("|")) & {"flops", "active", "tokens"} for name in side.surface.variables)
    if shaped and label not in side.points.sparsity:
        return [f"{side.name}: no endpoint at {label}, whose loops and experts {side.surface.name} would read"]
    found = []
    if side.at_bound != "none":
        # Such a coefficient was set by the bound and not by the text.
        found.append(f"{side.owner}: {side.bounds} on a bound of the fit")
    here = point(side, label, settings)
    for name in ("a", "c"):
        if not getattr(here, name) > 0:
            found.append(f"{side.owner}: the exponent {name} is not positive, so there is no frontier")
    return found


def remarks(side: FittedSurface) -> list[str]:
    """What a reader should know of a surface whose numbers still hold."""
    notes = [note for note in side.reason.split("; ") if HELD in note]
    named = {} if side.values is None else dict(zip(side.surface.coefficients, side.values.tolist(), strict=True))
    if named.get("b", 0) < 0:
        notes.append(f"{side.owner}: the exponent b is negative, so sparsity raises the loss")
    return notes


def pairing(target: FittedSurface, reference: FittedSurface, settings: Settings) -> tuple[list[str], list[str]]:
    """What makes the intervals of a comparison doubtful, and what a reader should know of them."""
    narrow = [NARROW[settings.resample]] if settings.resample in NARROW else []
    mine, other = set(target.points.cells), set(reference.points.cells)
    if not mine & other:
        return [
            *narrow,
            f"{target.name} and {reference.name} have no cell in common, so their draws are not paired",
        ], []
    if apart := len(mine ^ other):
        return narrow, [f"cells that {target.name} and {reference.name} do not share, and that are not paired: {apart}"]
    return narrow, []


def unique(notes: Sequence[str]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(notes))


def sentence(notes: Sequence[str]) -> str | None:
    """The reason of a row, or nothing."""
    return "; ".join(unique(notes)) or None


def labels(sides: Sequence[FittedSurface], settings: Settings) -> list[str]:
    """The sparsities of the reference's points, from dense to sparse."""
    return sorted(set(sides[0].points.sparsity.tolist()), key=settings.sparsity_values.__getitem__)


def budgets(sides: Sequence[FittedSurface], settings: Settings) -> list[float]:
    """The study's budgets; by default two inside the compute window that all share and one beyond it."""
    if settings.compute_budgets:
        return sorted(settings.compute_budgets)
    low, high = shared_window(sides)
    if low > high:
        raise UserError("scaling: the architectures' compute windows do not overlap; give scaling.compute_budgets")
    ratio = high / low
    return [_two_digits(value) for value in (low * ratio ** (1 / 3), low * ratio ** (2 / 3), 10 * high)]


def shared_window(sides: Sequence[FittedSurface]) -> tuple[float, float]:
    """The compute that all were trained at, from its start to its end (which lies lower where there is none)."""
    boxes = [frontier.box(side.points) for side in sides]
    return max(box.compute[0] for box in boxes), min(box.compute[1] for box in boxes)


def compute_window(sides: Sequence[FittedSurface], budget: float) -> str:
    """The window where no optimum is known: all that can be said is whether the compute was trained."""
    low, high = shared_window(sides)
    return frontier.EDGE if low <= budget <= high else frontier.EXTRAPOLATED


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
