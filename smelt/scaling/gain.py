"""Surfaces to answers: CE gain, compute-optimal allocation and frontiers, each with its interval.

Reads results/scaling/{endpoints,coefficients,draws}.parquet; writes ce_gain.parquet, allocation.parquet
and frontier.parquet. Architectures are compared at a common (C, S), S being the value of the sparsity's
label, since each architecture's measured S differs a little from cell to cell. A value that is missing
or not resolved says why.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts, spec
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.scaling import frontier
from smelt.scaling.draws import HELD, Draws, Support, read_coefficients, read_draws, support, surface_of
from smelt.scaling.settings import Points, Settings, read_points
from smelt.scaling.surface import Coefficients

CURVE_POINTS = 81  # of each frontier, from the start of the compute window to ten times its end

_PLACE = [
    field("budget_flops", pa.float64(), "C: training FLOPs"),
    field("sparsity", pa.string(), "label of the sparsity; its value is in S"),
]
_WINDOW = field("window", pa.string(), "inside the trained (F, D) box, edge (compute window only), or extrapolated")
_S = field("S", pa.float64(), "sparsity at which the frontiers are read")
_REASON = field("reason", pa.string(), "why a value is missing or not resolved, and what was held or left out")
CE_GAIN = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        *_PLACE,
        field("gain", pa.float64(), "CE gain as a fraction: 1 - C_tgt / C_ref"),
        field("gain_low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("gain_high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        field("multiplier", pa.float64(), "C_ref / C_tgt"),
        field("endpoints", pa.int32(), "fitted endpoints of both architectures"),
        field("draws", pa.int32(), "bootstrap draws that the interval uses"),
        field("s_convention", pa.string(), "convention of S"),
        _WINDOW,
        field("resolved", pa.bool_(), "whether the sign of the gain is established inside the compute window"),
        _REASON,
        _S,
        field("loss", pa.float64(), "frontier loss of the architecture at this budget, nats"),
    ]
)
ALLOCATION = pa.schema(
    [
        *_PLACE,
        field("architecture", pa.string(), "execution plan"),
        field("flops_per_token", pa.float64(), "F*: compute-optimal training FLOPs per token"),
        field("tokens", pa.float64(), "D*: compute-optimal training tokens"),
        field("tpp", pa.float64(), "tokens per active parameter, D* / (F*/6)"),
        field("tpp_low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("tpp_high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        _WINDOW,
        _REASON,
        _S,
    ]
)
FRONTIER = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("sparsity", pa.string(), "label of the sparsity"),
        _S,
        field("budget_flops", pa.float64(), "C: training FLOPs"),
        field("loss", pa.float64(), "L*(C, S) in nats"),
        field("low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        _WINDOW,
    ]
)


@dataclasses.dataclass(frozen=True)
class Side:
    """One architecture: its row of coefficients, surface (if there is one), draws and trained box."""

    row: Mapping[str, Any]
    surface: Coefficients | None
    draws: Draws
    box: frontier.Box

    @property
    def name(self) -> str:
        return str(self.row["architecture"])

    @property
    def determined(self) -> bool:
        """Whether numbers can be read off the surface: it has a frontier, and no coefficient was set by a bound of the
        fit instead of the text."""
        return self.surface is not None and bool(frontier.meaningful(self.surface)) and self.row["at_bound"] == "none"


def budgets(sides: Sequence[Side], settings: Settings) -> list[float]:
    """The study's budgets; by default two inside the compute window that all share and one beyond it."""
    if settings.budgets:
        return sorted(settings.budgets)
    low = max(side.box.compute[0] for side in sides)
    high = min(side.box.compute[1] for side in sides)
    if low > high:
        raise UserError("scaling: the architectures' compute windows do not overlap; give scaling.budgets")
    ratio = high / low
    return [_two_digits(value) for value in (low * ratio ** (1 / 3), low * ratio ** (2 / 3), 10 * high)]


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def faults(side: Side) -> list[str]:
    """What makes any number from this surface doubtful."""
    if side.surface is None:
        return [f"{side.name}: {side.row['reason']}"]
    found = []
    if side.row["at_bound"] != "none":
        found.append(f"{side.name}: {side.row['at_bound']} on a bound of the fit")
    for name in ("a", "c"):
        if not getattr(side.surface, name) > 0:
            found.append(f"{side.name}: the exponent {name} is not positive, so there is no frontier")
    return found


def remarks(side: Side) -> list[str]:
    """What a reader should know of a surface whose numbers still hold."""
    notes = [HELD] if _held(side) else []
    if side.surface is not None and side.surface.b < 0:
        notes.append(f"{side.name}: the exponent b is negative, so sparsity raises the loss")
    return notes


def gain_row(target: Side, reference: Side, budget: float, label: str, settings: Settings) -> dict[str, Any]:
    """CE gain of `target` over `reference` at one budget and sparsity."""
    row: dict[str, Any] = dict.fromkeys(CE_GAIN.names)
    row |= {"architecture": target.name, "reference": reference.name, "budget_flops": budget, "sparsity": label}
    row |= {"S": settings.sparsity_values[label], "s_convention": settings.s_convention, "draws": 0}
    row |= {"endpoints": target.row["endpoints"] + reference.row["endpoints"], "resolved": False}
    doubts = faults(target) + faults(reference)
    notes = list(dict.fromkeys(remarks(target) + remarks(reference)))
    if target.determined and reference.determined:
        notes += _fill_gain(row, doubts, target, reference, settings)
    else:
        row["window"] = _compute_window([target, reference], budget)
    row["resolved"] = row["gain"] is not None and not doubts
    row["reason"] = "; ".join([*doubts, *notes]) or None
    return row


def _held(side: Side) -> bool:
    return HELD in (side.row["reason"] or "")


def _compute_window(sides: Sequence[Side], budget: float) -> str:
    """The window where no optimum is known: all that can be said is whether the compute was trained."""
    trained = all(side.box.compute[0] <= budget <= side.box.compute[1] for side in sides)
    return frontier.EDGE if trained else frontier.EXTRAPOLATED


def _fill_gain(row: dict[str, Any], doubts: list[str], target: Side, reference: Side, settings: Settings) -> list[str]:
    """Fill the numbers of a row whose frontiers exist; append its doubts and return its notes."""
    assert target.surface is not None
    assert reference.surface is not None
    budget, active = row["budget_flops"], 1 - row["S"]
    loss = float(frontier.frontier_loss(target.surface, budget, active))
    reached = float(frontier.log_compute(reference.surface, loss, active))
    row |= {"loss": loss, "gain": float(frontier.gain(target.surface, reference.surface, budget, active))}
    if np.isfinite(reached):
        row["multiplier"] = float(np.exp(min(reached - np.log(budget), frontier.LARGEST)))
    else:
        doubts.append(f"the frontier cannot be inverted: {reference.name} never reaches this loss")
    # The answer rests on both optima: the target's at its budget, the reference's at the budget it needs.
    row["window"] = frontier.worst(
        frontier.window(target.surface, target.box, budget, active),
        frontier.window(reference.surface, reference.box, float(np.exp(min(reached, frontier.LARGEST))), active),
    )
    if row["window"] == frontier.EXTRAPOLATED:
        doubts.append("extrapolated beyond the trained compute")
    drawn, held = _drawn_gain(target, reference, budget, active)
    row["gain_low"], row["gain_high"] = held.interval(drawn)
    row["draws"] = held.count
    if row["gain_low"] is None:
        doubts.append(held.reason)
        return []
    if row["gain_low"] <= 0 <= row["gain_high"]:
        doubts.append("the interval spans zero")
    never = float((drawn[held.usable] >= 1).mean())
    notes = [f"in {100 * never:.3g} % of the draws {reference.name} never reaches this loss"] if never else []
    return notes + held.notes


def _drawn_gain(target: Side, reference: Side, budget: float, active: float) -> tuple[np.ndarray, Support]:
    held = support([target.draws, reference.draws])
    with np.errstate(all="ignore"):  # of the draws that are not used
        return frontier.gain(target.draws.surface, reference.draws.surface, budget, active), held


def allocation_row(side: Side, budget: float, label: str, settings: Settings) -> dict[str, Any]:
    """Compute-optimal model and tokens of one architecture at one budget and sparsity."""
    row: dict[str, Any] = dict.fromkeys(ALLOCATION.names)
    row |= {"budget_flops": budget, "sparsity": label, "S": settings.sparsity_values[label], "architecture": side.name}
    reasons = faults(side)
    if side.determined:
        assert side.surface is not None
        active = 1 - row["S"]
        flops, tokens = frontier.optimum(side.surface, budget, active)
        row |= {"flops_per_token": float(flops), "tokens": float(tokens), "tpp": float(6 * tokens / flops)}
        row["window"] = frontier.window(side.surface, side.box, budget, active)
        held = support([side.draws])
        with np.errstate(all="ignore"):
            drawn = frontier.tokens_per_parameter(side.draws.surface, budget, active)
        row["tpp_low"], row["tpp_high"] = held.interval(drawn)
        reasons += held.notes
    else:
        row["window"] = _compute_window([side], budget)
    row["reason"] = "; ".join(reasons) or None
    return row


def frontier_rows(side: Side, label: str, settings: Settings) -> list[dict[str, Any]]:
    """The frontier of one architecture at one sparsity with its band, as far as it exists."""
    if not side.determined:
        return []
    assert side.surface is not None
    sparsity = settings.sparsity_values[label]
    held = support([side.draws])
    rows = []
    for budget in np.geomspace(side.box.compute[0], 10 * side.box.compute[1], CURVE_POINTS).tolist():
        with np.errstate(all="ignore"):
            drawn = frontier.frontier_loss(side.draws.surface, budget, 1 - sparsity)
        low, high = held.interval(drawn)
        loss = float(frontier.frontier_loss(side.surface, budget, 1 - sparsity))
        place = frontier.window(side.surface, side.box, budget, 1 - sparsity)
        values = (side.name, label, sparsity, budget, loss, low, high, place)
        rows.append(dict(zip(FRONTIER.names, values, strict=True)))
    return rows


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    for name in ("endpoints", "coefficients", "draws"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    for name in ("ce-gain", "allocation", "frontier"):
        parser.add_argument(f"--{name}", required=True, type=Path, help=f"where to write {name}")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    points = read_points(arguments.endpoints, settings)
    sides = read_sides(points, arguments.coefficients, arguments.draws)
    labels = sorted(set(points[settings.reference].sparsity.tolist()), key=settings.sparsity_values.__getitem__)
    places = [(budget, label) for budget in budgets(sides, settings) for label in labels]
    tables = {
        arguments.ce_gain: (CE_GAIN, [gain_row(one, sides[0], *at, settings) for one in sides[1:] for at in places]),
        arguments.allocation: (ALLOCATION, [allocation_row(one, *at, settings) for at in places for one in sides]),
        arguments.frontier: (
            FRONTIER,
            [row for one in sides for label in labels for row in frontier_rows(one, label, settings)],
        ),
    }
    inputs = [arguments.endpoints, arguments.coefficients, arguments.draws]
    origin = artifacts.provenance("smelt.scaling.gain", dataclasses.asdict(settings), inputs)
    for path, (schema, rows) in tables.items():
        artifacts.write_table(artifacts.table(rows, schema), path, origin)


def read_sides(points: Mapping[str, Points], coefficients: Path, draws: Path) -> list[Side]:
    """All architectures, the reference first."""
    rows, drawn = read_coefficients(coefficients), read_draws(draws)
    return [Side(rows[name], surface_of(rows[name]), drawn[name], frontier.box(one)) for name, one in points.items()]


if __name__ == "__main__":
    command(main)
