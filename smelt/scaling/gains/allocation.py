"""What one surface says by itself: compute-optimal model and tokens, and the frontier with its band."""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.comparison import FittedSurface, compute_window, drawn, faults, point, sentence, support
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier

CURVE_POINTS = 81  # of each frontier, from the start of the compute window to ten times its end

BUDGET = field("budget_flops", pa.float64(), "C: training FLOPs")
SPARSITY = field("sparsity", pa.string(), "label of the sparsity; its value is in S")
S = field("S", pa.float64(), "sparsity at which the frontiers are read")
WINDOW = field("window", pa.string(), "inside the trained (F, D) box, edge (compute window only), or extrapolated")
REASON = field("reason", pa.string(), "why a value is missing or not resolved, and what was held or left out")
ALLOCATION = pa.schema(
    [
        BUDGET,
        SPARSITY,
        field("architecture", pa.string(), "execution plan"),
        field("flops_per_token", pa.float64(), "F*: compute-optimal training FLOPs per token"),
        field("tokens", pa.float64(), "D*: compute-optimal training tokens"),
        field("tpp", pa.float64(), "tokens per active parameter, D* / (F*/6)"),
        field("tpp_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("tpp_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        WINDOW,
        REASON,
        S,
    ]
)
FRONTIER = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        SPARSITY,
        S,
        BUDGET,
        field("loss", pa.float64(), "L*(C, S) in nats"),
        field("low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("high", pa.float64(), "high end of its 95 % bootstrap interval"),
        WINDOW,
    ]
)


def allocation_row(side: FittedSurface, budget: float, label: str, settings: Settings) -> dict[str, Any]:
    """Compute-optimal model and tokens of one architecture at one budget and sparsity."""
    row: dict[str, Any] = dict.fromkeys(ALLOCATION.names)
    row |= {"budget_flops": budget, "sparsity": label, "S": settings.sparsity_values[label], "architecture": side.name}
    reasons = faults(side, label, settings)
    if reasons:
        row["window"] = compute_window([side], budget)
    else:
        here = point(side, label, settings)
        flops, tokens = frontier.optimum(here, budget)
        row |= {"flops_per_token": float(flops), "tokens": float(tokens), "tpp": float(6 * tokens / flops)}
        row["window"] = frontier.window(here, frontier.box(side.points), budget)
        held = support(side, label=label, settings=settings)
        with np.errstate(all="ignore"):  # of the draws that are not used
            ratios = frontier.tokens_per_parameter(drawn(side, label, settings), budget)
        row["tpp_low"], row["tpp_high"] = held.interval(ratios)
        reasons = held.notes
    row["reason"] = sentence(reasons)
    return row


def frontier_rows(side: FittedSurface, label: str, settings: Settings) -> list[dict[str, Any]]:
    """The frontier of one architecture at one sparsity with its band, as far as it exists."""
    if faults(side, label, settings):
        return []
    here, many = point(side, label, settings), drawn(side, label, settings)
    box, held = frontier.box(side.points), support(side, label=label, settings=settings)
    rows = []
    for budget in np.geomspace(box.compute[0], 10 * box.compute[1], CURVE_POINTS).tolist():
        with np.errstate(all="ignore"):
            low, high = held.interval(frontier.frontier_loss(many, budget))
        loss, place = float(frontier.frontier_loss(here, budget)), frontier.window(here, box, budget)
        values = (side.name, label, settings.sparsity_values[label], budget, loss, low, high, place)
        rows.append(dict(zip(FRONTIER.names, values, strict=True)))
    return rows
