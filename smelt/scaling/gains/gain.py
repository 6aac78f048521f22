"""Surfaces to answers: CE gain, compute-optimal allocation, frontiers and pairs of surfaces, with intervals.

Reads results/scaling/{endpoints,coefficients,draws,surfaces_without}.parquet; writes ce_gain.parquet,
allocation.parquet, frontier.parquet, gain_curve.parquet, leave_one_out.parquet and surface_pairs.parquet.
A value that is missing or not resolved says why.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts
from smelt.artifacts import field
from smelt.errors import command
from smelt.job import read_job
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.gains import leave_one_out
from smelt.scaling.gains.allocation import (
    ALLOCATION,
    BUDGET,
    FRONTIER,
    REASON,
    SPARSITY,
    WINDOW,
    S,
    allocation_row,
    frontier_rows,
)
from smelt.scaling.gains.comparison import (
    Comparison,
    FittedSurface,
    budgets,
    compare,
    frontiers,
    labels,
    read_surfaces,
    sentence,
)
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


def gain_row(comparison: Comparison, budget: float) -> dict[str, Any]:
    """CE gain of an architecture over the reference at one budget (training FLOPs) and sparsity: Eq. 5."""
    settings, label = comparison.settings, comparison.label
    row: dict[str, Any] = dict.fromkeys(CE_GAIN.names)
    row |= {"architecture": comparison.target.name, "reference": comparison.reference.name}
    row |= {"budget_flops": budget, "sparsity": label, "S": settings.sparsity_values[label]}
    row |= {"s_convention": settings.s_convention, "draws": 0, "endpoints": comparison.endpoints}
    row |= {"surface": settings.surface, "resample": settings.resample}
    caveats: list[str] = []
    unresolved_because = comparison.invalid_because
    if unresolved_because:
        row["window"] = comparison.compute_window(budget)
    else:
        unresolved_because, caveats = _fill(row, comparison)
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
        unresolved_because.append("extrapolated beyond the trained compute")
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
    row["jackknife_low"], row["jackknife_high"], why = leave_one_out.gain_interval(comparison, budget)
    return unresolved_because, [*caveats, *([why] if why else [])]


def answers(surfaces: Sequence[FittedSurface], settings: Settings) -> dict[str, pa.Table]:
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
        "ce_gain": [gain_row(pair, budget) for pair, budget in by_budget],
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
    for name, table in answers(surfaces, job.settings).items():
        job.write(name, table)


if __name__ == "__main__":
    command(main)
