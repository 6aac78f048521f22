"""Surfaces to answers: CE gain, compute-optimal allocation, frontiers and pairs of surfaces, with intervals.

Reads results/scaling/{endpoints,coefficients,draws,surfaces_without}.parquet; writes ce_gain.parquet,
allocation.parquet, frontier.parquet, gain_curve.parquet, leave_one_out.parquet and surface_pairs.parquet.
A value that is missing or not resolved says why.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts
from smelt.artifacts import field
from smelt.errors import command
from smelt.job import read_job
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.gains import joint, leave_one_out
from smelt.scaling.gains.allocation import (
    ALLOCATION,
    BUDGET,
    FACTOR_OUTSIDE,
    FRONTIER,
    REASON,
    SPARSITY,
    WINDOW,
    S,
    allocation_row,
    frontier_rows,
)
from smelt.scaling.gains.comparison import Comparison, budgets, compare, sentence
from smelt.scaling.gains.frontiers import FittedSurface, frontiers, labels, read_surfaces
from smelt.scaling.gains.gain_curve import GAIN_CURVE, curve_rows
from smelt.scaling.gains.surface_pairs import SURFACE_PAIRS, pair_rows
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier, search

CE_GAIN = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        BUDGET,
        SPARSITY,
        field("gain", pa.float64(), "CE gain as a fraction: 1 - C_tgt / C_ref"),
        field("gain_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("gain_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        field("multiplier", pa.float64(), "C_ref / C_tgt"),
        field("endpoints", pa.int32(), "fitted endpoints of both architectures"),
        field("draws", pa.int32(), "bootstrap draws that the interval uses"),
        field("s_convention", pa.string(), "convention of S"),
        WINDOW,
        field("resolved", pa.bool_(), "whether the sign of the gain is established inside the compute window"),
        REASON,
        S,
        field("loss", pa.float64(), "frontier loss of the architecture at this budget, nats"),
        field("surface", pa.string(), "form of the fitted surfaces"),
        field("resample", pa.string(), "what the bootstrap resamples"),
        field("jackknife_low", pa.float64(), "low end of the gain's 95 % delete-one-cell jackknife interval"),
        field("jackknife_high", pa.float64(), "high end of the gain's 95 % delete-one-cell jackknife interval"),
        field("inversion_error", pa.float64(), "|gain - gain by numerical minimisation and inversion|"),
        field("scales_low", pa.float64(), "low end of the gain's 95 % delete-one-scale jackknife interval"),
        field("scales_high", pa.float64(), "high end of the gain's 95 % delete-one-scale jackknife interval"),
        field("joint_p", pa.float64(), "p-value that all gains of the architecture are zero, Holm over architectures"),
        field("flops_per_token", pa.float64(), "F*: training FLOPs per token of the architecture's optimum"),
        field("tokens", pa.float64(), "D*: training tokens of the architecture's optimum"),
        field("flops_per_token_reference", pa.float64(), "F* of the reference at C_ref"),
        field("tokens_reference", pa.float64(), "D* of the reference at C_ref"),
        FACTOR_OUTSIDE,
        field("inside_delta", pa.float64(), "share of the architecture's residuals inside the Huber delta"),
        field("inside_delta_reference", pa.float64(), "share of the reference's residuals inside the Huber delta"),
    ]
)

TABLES = {
    "ce_gain": CE_GAIN,
    "allocation": ALLOCATION,
    "frontier": FRONTIER,
    "gain_curve": GAIN_CURVE,
    "leave_one_out": leave_one_out.LEAVE_ONE_OUT,
    "surface_pairs": SURFACE_PAIRS,
}


def gain_row(comparison: Comparison, budget: float, verdict: joint.Joint) -> dict[str, Any]:
    """CE gain of an architecture over the reference at one budget (training FLOPs) and sparsity: Eq. 5.

    `verdict` is that on all gains of the architecture together, without which no row is resolved.
    """
    settings, label = comparison.settings, comparison.label
    row: dict[str, Any] = dict.fromkeys(CE_GAIN.names)
    row |= {"architecture": comparison.target.name, "reference": comparison.reference.name}
    row |= {"budget_flops": budget, "sparsity": label, "S": settings.sparsity_values[label]}
    row |= {"s_convention": settings.s_convention, "draws": 0, "endpoints": comparison.endpoints}
    row |= {"surface": settings.surface, "resample": settings.resample, "joint_p": verdict.p}
    row["inside_delta"] = comparison.target.surface.inside_delta
    row["inside_delta_reference"] = comparison.reference.surface.inside_delta
    caveats: list[str] = []
    if unresolved_because := comparison.invalid_because:
        row["window"] = comparison.compute_window(budget)
        unresolved_because = [*unresolved_because, *_place(row, comparison)]
    else:
        unresolved_because, caveats = _fill(row, comparison)
        unresolved_because += verdict.unresolved_because
    unpaired, beside = comparison.pairing
    unresolved_because = [*unresolved_because, *unpaired]
    row["resolved"] = row["gain"] is not None and not unresolved_because
    row["reason"] = sentence([*unresolved_because, *comparison.caveats, *beside, *caveats])
    return row


def _fill(row: dict[str, Any], comparison: Comparison) -> tuple[list[str], list[str]]:
    """Fill the numbers of a row whose frontiers exist; return why it is unresolved, and its caveats."""
    budget, target, reference = row["budget_flops"], comparison.target.fitted, comparison.reference.fitted
    log_multiplier = comparison.log_multiplier(budget)
    row |= {"loss": float(frontier.frontier_loss(target, budget)), "gain": float(frontier.gain_of(log_multiplier))}
    searched = search.gain(partial(frontier.loss, target), partial(frontier.loss, reference), budget)
    row["inversion_error"] = abs(row["gain"] - searched)
    row["window"] = comparison.window(budget)
    unresolved_because: list[str] = []
    caveats: list[str] = []
    name = comparison.reference.name
    if np.isfinite(log_multiplier):
        row["multiplier"] = float(np.exp(min(log_multiplier, frontier.LARGEST)))
    else:
        unresolved_because.append(f"the frontier cannot be inverted: {name} never reaches this loss")
    if row["window"] == frontier.EXTRAPOLATED:
        unresolved_because += comparison.extrapolated_because(budget)
    _place(row, comparison)
    usable, gains = comparison.usable, comparison.drawn_gains(budget)
    row["gain_low"], row["gain_high"] = usable.interval(gains)
    row["draws"] = usable.count
    unresolved_because += usable.unresolved_because
    if row["gain_low"] is not None:
        if row["gain_low"] <= 0 <= row["gain_high"]:
            unresolved_because.append("the interval spans zero")
        never = float((gains[usable.usable] >= 1).mean())
        caveats = [f"in {100 * never:.3g} % of the draws {name} never reaches this loss"] if never else []
        caveats += usable.caveats
    by_cell, by_scale = leave_one_out.over_cells(comparison, budget), leave_one_out.over_scales(comparison, budget)
    row["jackknife_low"], row["jackknife_high"] = by_cell.interval
    row["scales_low"], row["scales_high"] = by_scale.interval
    unresolved_because += by_scale.unresolved_because
    return unresolved_because, [*caveats, *([by_cell.missing_because] if by_cell.missing_because else [])]


def _place(row: dict[str, Any], comparison: Comparison) -> list[str]:
    """Fill in where the optima lie, as far as there are any, and say so in words."""
    target, reference = comparison.optima(row["budget_flops"])
    if target:
        row |= {"flops_per_token": target.flops, "tokens": target.tokens}
    if reference:
        row |= {"flops_per_token_reference": reference.flops, "tokens_reference": reference.tokens}
    found = [one for one in (target, reference) if one]
    if found:
        row["factor_outside"] = max(one.outside for one in found)
    if any(one.far for one in found):
        row["window"] = frontier.EXTRAPOLATED
    return [one.where for one in found]


def gain_rows(
    comparisons: Mapping[tuple[str, str], Comparison],
    budgets: Sequence[float],
    verdicts: Mapping[str, joint.Joint],
) -> list[dict[str, Any]]:
    """The rows of ce_gain: by architecture, budget (training FLOPs) and sparsity."""
    return [
        gain_row(comparison, budget, verdicts[name])
        for name in verdicts
        for budget in budgets
        for (other, _), comparison in comparisons.items()
        if other == name
    ]


def answers(
    surfaces: Sequence[FittedSurface], settings: Settings, verdicts: Mapping[str, joint.Joint]
) -> dict[str, pa.Table]:
    """All tables of the stage's answers, from the surfaces of all architectures, the reference first.

    Raises UserError where the settings name no compute budgets and the architectures share no compute.
    """
    by_name = frontiers(surfaces, settings)
    comparisons = compare(by_name, surfaces[0].name)
    compute_budgets, names = budgets(surfaces, settings), labels(surfaces, settings)
    by_architecture = [[comparisons[surface.name, label] for label in names] for surface in surfaces[1:]]
    by_budget = [(pair, budget) for pairs in by_architecture for budget in compute_budgets for pair in pairs]
    allocation = [
        allocation_row(by_name[surface.name, label], budget)
        for budget in compute_budgets
        for label in names
        for surface in surfaces
    ]
    rows = {
        "ce_gain": gain_rows(comparisons, compute_budgets, verdicts),
        "allocation": allocation,
        "frontier": [row for one in by_name.values() for row in frontier_rows(one)],
        "gain_curve": [row for pair in comparisons.values() for row in curve_rows(pair)],
        "leave_one_out": [row for pair, budget in by_budget for row in leave_one_out.rows(pair, budget)],
        "surface_pairs": [row for pairs in by_architecture for row in pair_rows(pairs)],
    }
    return {name: artifacts.table(rows[name], schema) for name, schema in TABLES.items()}


def main(argv: Sequence[str]) -> None:
    reads = ["endpoints", "coefficients", "draws", "without"]
    job = read_job("smelt.scaling.gains.gain", __doc__, argv, Settings, reads, list(TABLES))
    points = read_points(job.path("endpoints"), job.settings)
    surfaces = read_surfaces(points, job.settings, *(job.path(name) for name in reads[1:]))
    for name, table in answers(surfaces, job.settings, joint.verdicts(points, job.settings)).items():
        job.write(name, table)


if __name__ == "__main__":
    command(main)
