"""Surfaces to answers: CE gain, compute-optimal allocation, frontiers and pairs of surfaces, with intervals.

Reads results/scaling/{endpoints,coefficients,draws,surfaces_without}.parquet; writes ce_gain.parquet,
allocation.parquet, frontier.parquet, gain_curve.parquet, leave_one_out.parquet and surface_pairs.parquet.
A value that is missing or not resolved says why.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts, spec
from smelt.artifacts import field
from smelt.errors import command
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
    FittedSurface,
    budgets,
    compute_window,
    drawn,
    faults,
    labels,
    pairing,
    point,
    read_sides,
    remarks,
    sentence,
    support,
)
from smelt.scaling.gains.gain_curve import GAIN_CURVE, curve_rows, gain_window
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


def gain_row(
    target: FittedSurface, reference: FittedSurface, budget: float, label: str, settings: Settings
) -> dict[str, Any]:
    """CE gain of `target` over `reference` at one budget and sparsity."""
    row: dict[str, Any] = dict.fromkeys(CE_GAIN.names)
    row |= {"architecture": target.name, "reference": reference.name, "budget_flops": budget, "sparsity": label}
    row |= {"S": settings.sparsity_values[label], "s_convention": settings.s_convention, "draws": 0}
    row |= {"surface": settings.surface, "resample": settings.resample}
    row |= {"endpoints": target.points.rows.size + reference.points.rows.size}
    notes: list[str] = []
    doubts = faults(target, label, settings) + faults(reference, label, settings)
    if doubts:
        row["window"] = compute_window([target, reference], budget)
    else:
        doubts, notes = _fill(row, target, reference, settings)
    unpaired, beside = pairing(target, reference, settings)
    doubts, notes = [*doubts, *unpaired], [*beside, *notes]
    row["resolved"] = row["gain"] is not None and not doubts
    row["reason"] = sentence([*doubts, *remarks(target), *remarks(reference), *notes])
    return row


def _fill(
    row: dict[str, Any], target: FittedSurface, reference: FittedSurface, settings: Settings
) -> tuple[list[str], list[str]]:
    """Fill the numbers of a row whose frontiers exist; return its doubts and its notes."""
    budget, label = row["budget_flops"], row["sparsity"]
    mine, other = point(target, label, settings), point(reference, label, settings)
    ratio = float(frontier.log_multiplier(mine, other, budget))
    row |= {"loss": float(frontier.frontier_loss(mine, budget)), "gain": float(frontier.gain_of(ratio))}
    searched = search.gain(partial(frontier.loss, mine), partial(frontier.loss, other), budget)
    row["inversion_error"] = abs(row["gain"] - searched)
    row["window"] = gain_window(target, reference, budget, label, settings)
    doubts: list[str] = []
    notes: list[str] = []
    if np.isfinite(ratio):
        row["multiplier"] = float(np.exp(min(ratio, frontier.LARGEST)))
    else:
        doubts.append(f"the frontier cannot be inverted: {reference.name} never reaches this loss")
    if row["window"] == frontier.EXTRAPOLATED:
        doubts.append("extrapolated beyond the trained compute")
    held = support(target, reference, label=label, settings=settings)
    with np.errstate(all="ignore"):  # of the draws that are not used
        gains = frontier.gain(drawn(target, label, settings), drawn(reference, label, settings), budget)
    row["gain_low"], row["gain_high"] = held.interval(gains)
    row["draws"] = held.count
    doubts += held.doubts
    if row["gain_low"] is not None:
        if row["gain_low"] <= 0 <= row["gain_high"]:
            doubts.append("the interval spans zero")
        never = float((gains[held.usable] >= 1).mean())
        notes = [f"in {100 * never:.3g} % of the draws {reference.name} never reaches this loss"] if never else []
        notes += held.notes
    row["jackknife_low"], row["jackknife_high"], why = leave_one_out.gain_interval(
        target, reference, budget, label, settings
    )
    return doubts, [*notes, *([why] if why else [])]


def answers(sides: Sequence[FittedSurface], settings: Settings) -> dict[str, tuple[pa.Schema, list[dict[str, Any]]]]:
    """The rows of all tables."""
    first, others, names = sides[0], sides[1:], labels(sides, settings)
    places = [(budget, label) for budget in budgets(sides, settings) for label in names]
    gains = [gain_row(one, first, *at, settings) for one in others for at in places]
    return {
        "ce_gain": (CE_GAIN, gains),
        "allocation": (ALLOCATION, [allocation_row(one, *at, settings) for at in places for one in sides]),
        "frontier": (
            FRONTIER,
            [row for one in sides for label in names for row in frontier_rows(one, label, settings)],
        ),
        "gain_curve": (
            GAIN_CURVE,
            [row for one in others for label in names for row in curve_rows(one, first, label, settings)],
        ),
        "leave_one_out": (
            leave_one_out.LEAVE_ONE_OUT,
            [row for one in others for at in places for row in leave_one_out.rows(one, first, *at, settings)],
        ),
        "surface_pairs": (SURFACE_PAIRS, [row for one in others for row in pair_rows(one, first, names, settings)]),
    }


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    for name in ("endpoints", "coefficients", "draws", "without"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    names = ("ce_gain", "allocation", "frontier", "gain_curve", "leave_one_out", "surface_pairs")
    for name in names:
        parser.add_argument(f"--{name.replace('_', '-')}", required=True, type=Path, help=f"where to write {name}")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    points = read_points(arguments.endpoints, settings)
    inputs = [arguments.coefficients, arguments.draws, arguments.without]
    tables = answers(read_sides(points, settings, *inputs), settings)
    origin = artifacts.provenance(
        "smelt.scaling.gains.gain", dataclasses.asdict(settings), [arguments.endpoints, *inputs]
    )
    for name in names:
        schema, rows = tables[name]
        artifacts.write_table(artifacts.table(rows, schema), getattr(arguments, name), origin)


if __name__ == "__main__":
    command(main)
