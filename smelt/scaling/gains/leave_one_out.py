"""The gain with each cell or each scale left out in turn: a table of the cells, and intervals beside the bootstrap's.

Intervals take log C_ref / C_tgt, for which a symmetric one is reasonable, and their ends are turned into gains, so
that none is above 1. What is chosen once a scale (a learning rate, a matched model's shape) moves all cells of the
scale together; leaving out whole scales sees it, leaving out cells and the bootstrap of cells do not.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.fitting.intervals import LeftOut
from smelt.scaling.gains.comparison import Comparison, sentence
from smelt.scaling.gains.frontiers import Frontier
from smelt.statistics import jackknife_interval
from smelt.surfaces import frontier
from smelt.surfaces.points import Array

LEAST_SCALES = 3  # with two, Student's t has one degree of freedom and reaches over everything

LEAVE_ONE_OUT = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("left_out_scale", pa.string(), "label of the scale of the cell that is left out"),
        field("left_out_sparsity", pa.string(), "label of the sparsity of the cell that is left out"),
        field("budget_flops", pa.float64(), "C: training FLOPs"),
        field("sparsity", pa.string(), "label of the sparsity at which the gain is read"),
        field("gain", pa.float64(), "CE gain as a fraction without the cell"),
        field("gamma", pa.float64(), "exponent of the architecture's frontier without the cell"),
        field("gamma_reference", pa.float64(), "exponent of the reference's frontier without the cell"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)


class Jackknife(NamedTuple):
    """log C_ref / C_tgt with all units and with each left out, (units,), or why there is none."""

    estimate: float
    left_out: Array
    missing_because: str
    logs: bool = True  # or gains, of a mean of gains

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval of the gain, or nothing."""
        if self.missing_because:
            return None, None
        low, high = jackknife_interval(self.estimate, self.left_out)
        return (float(frontier.gain_of(low)), float(frontier.gain_of(high))) if self.logs else (low, high)

    @property
    def unresolved_because(self) -> list[str]:
        """Why the scales do not establish the sign of a gain; empty where they do."""
        low, high = self.interval
        if low is None or high is None:
            return [self.missing_because]
        return ["the interval over scales spans zero"] if low <= 0 <= high else []


def over_cells(comparison: Comparison, budget: float) -> Jackknife:
    """The jackknife over cells at one budget; the two must be comparable with all cells."""
    return _jackknife(comparison, budget, *_cells(comparison), "no jackknife", ("one cell", 2))


def over_scales(comparison: Comparison, budget: float) -> Jackknife:
    """The jackknife over scales at one budget; the two must be comparable with all scales."""
    both = comparison.target.surface.without_scales, comparison.reference.surface.without_scales
    few = f"fewer than {LEAST_SCALES} scales"
    return _jackknife(comparison, budget, *_present(*both), "no interval over scales", (few, LEAST_SCALES))


def rows(comparison: Comparison, budget: float) -> list[dict[str, Any]]:
    """The gain at one budget and sparsity without each cell in turn."""
    target, reference = comparison.target, comparison.reference
    if target.surface.values is None or reference.surface.values is None:
        return []
    of_target, of_reference = _cells(comparison)
    slices = target.slice(of_target.refits.values), reference.slice(of_reference.refits.values)
    with np.errstate(all="ignore"):  # of the surfaces that are not used
        gains = frontier.gain(*slices, budget)
        gammas = [np.broadcast_to(frontier.gamma(one), gains.shape) for one in slices]
    table = []
    for index, reason in enumerate(_faults(comparison, of_target, of_reference)):
        row: dict[str, Any] = dict.fromkeys(LEAVE_ONE_OUT.names)
        row |= {"architecture": target.name, "reference": reference.name}
        row |= {"budget_flops": budget, "sparsity": comparison.label}
        row["left_out_scale"], row["left_out_sparsity"] = of_target.units[index]
        if not reason:
            row |= {"gain": float(gains[index])}
            row |= {"gamma": float(gammas[0][index]), "gamma_reference": float(gammas[1][index])}
        row["reason"] = sentence([reason] if reason else [])
        table.append(row)
    return table


def _jackknife(
    comparison: Comparison,
    budget: float,
    of_target: LeftOut,
    of_reference: LeftOut,
    opening: str,
    fewest: tuple[str, int],
) -> Jackknife:
    """The jackknife over the units of both, or `opening` and why there is none; `fewest` says what too few are."""
    few, least = fewest
    estimate = comparison.log_multiplier(budget)
    if len(of_target.units) < least:
        return Jackknife(estimate, np.empty(0), f"{opening}: there {'is' if least == 2 else 'are'} {few}")
    if wrong := [fault for fault in _faults(comparison, of_target, of_reference) if fault]:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Jackknife(estimate, np.empty(0), f"{opening}: {wrong[0]}{more}")
    slices = (comparison.target.slice(of_target.refits.values), comparison.reference.slice(of_reference.refits.values))
    left_out = frontier.log_multiplier(*slices, budget)
    reached = np.isfinite(estimate) and bool(np.isfinite(left_out).all())
    why = "" if reached else f"{opening}: {comparison.reference.name} does not always reach the loss"
    return Jackknife(estimate, left_out, why)


def _cells(comparison: Comparison) -> tuple[LeftOut, LeftOut]:
    return _present(comparison.target.surface.without_cells, comparison.reference.surface.without_cells)


def _present(target: LeftOut | None, reference: LeftOut | None) -> tuple[LeftOut, LeftOut]:
    assert target is not None
    assert reference is not None
    return target, reference


def _faults(comparison: Comparison, of_target: LeftOut, of_reference: LeftOut) -> list[str]:
    """For each unit why nothing can be compared without it, or an empty text."""
    both = _faults_of(comparison.target, of_target), _faults_of(comparison.reference, of_reference)
    return [target or reference for target, reference in zip(*both, strict=True)]


def _faults_of(one: Frontier, left_out: LeftOut) -> list[str]:
    refits = left_out.refits
    meaningful = frontier.meaningful(one.slice(refits.values))
    causes = {
        "is not determined": ~refits.identified,
        "did not converge": ~refits.converged,
        "has a coefficient on a bound": refits.at_bound != "none",
        "has no frontier": ~np.broadcast_to(meaningful, refits.converged.shape),
    }
    faults = []
    for index, unit in enumerate(left_out.units):
        cause = next((cause for cause, excluded in causes.items() if excluded[index]), "")
        faults.append(cause and f"without {' '.join(unit)} {one.surface.owner} {cause}")
    return faults
