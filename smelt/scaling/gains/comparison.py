"""Two architectures beside one another at a common (C, S), S being the value of the sparsity's label.

Everything that no budget changes is computed once and then asked often.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from smelt.errors import UserError
from smelt.scaling.fitting.intervals import UsableDraws
from smelt.scaling.fitting.resampling import NARROW
from smelt.scaling.gains.frontiers import FittedSurface, Frontier, Optimum, usable_draws
from smelt.scaling.gains.sides import differing
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier
from smelt.surfaces.points import Array


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
        return frontier.weakest(self.target.window(budget), self.reference.window(self.needed(budget)))

    def extrapolated_because(self, budget: float) -> list[str]:
        """Why a gain at `budget` is read off too far away; empty where it is not."""
        windows = ((self.target.trained.compute, budget), (self.reference.trained.compute, self.needed(budget)))
        beyond = any(not low <= compute <= high for (low, high), compute in windows)
        far = [one.where for one in self.optima(budget) if one and one.far]
        return [*(["extrapolated beyond the trained compute"] if beyond else []), *far]

    def needed(self, budget: float) -> float:
        """Training FLOPs that the reference needs for the target's loss at `budget`, or a very large number."""
        return float(np.exp(min(np.log(budget) + self.log_multiplier(budget), frontier.LARGEST)))

    def optima(self, budget: float) -> tuple[Optimum | None, Optimum | None]:
        """The target's optimum at its budget and the reference's at the one it needs, each as far as there is one."""
        if not self.target.has_optimum:
            return None, None
        target = self.target.optimum(budget)
        if not (self.reference.has_optimum and np.isfinite(self.log_multiplier(budget))):
            return target, None
        return target, self.reference.optimum(self.needed(budget))

    def compute_window(self, budget: float) -> str:
        """The window where no optimum is known."""
        return compute_window([self.target.surface, self.reference.surface], budget)


def compare(by_name: Mapping[tuple[str, str], Frontier], reference: str) -> dict[tuple[str, str], Comparison]:
    """Every other architecture beside the reference at each sparsity, by (architecture, label)."""
    return {
        (name, label): Comparison(target, by_name[reference, label])
        for (name, label), target in by_name.items()
        if name != reference
    }


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
    windows = [frontier.trained(surface.points).compute for surface in surfaces]
    return max(low for low, _ in windows), min(high for _, high in windows)


def compute_window(surfaces: Sequence[FittedSurface], budget: float) -> str:
    """The window where no optimum is known: all that can be said is whether the compute was trained."""
    low, high = shared_window(surfaces)
    return frontier.EDGE if low <= budget <= high else frontier.EXTRAPOLATED


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
