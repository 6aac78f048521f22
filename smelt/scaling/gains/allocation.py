"""What one surface says by itself: compute-optimal model and tokens, and the frontier with its band."""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.comparison import compute_window, sentence
from smelt.scaling.gains.frontiers import Frontier
from smelt.surfaces import frontier

CURVE_POINTS = 81  # of each frontier, from the start of the compute window to ten times its end

BUDGET = field("budget_flops", pa.float64(), "C: training FLOPs")
SPARSITY = field("sparsity", pa.string(), "label of the sparsity; its value is in S")
S = field("S", pa.float64(), "sparsity at which the frontiers are read")
WINDOW = field("window", pa.string(), "inside the trained (F, D), edge (up to 1.5 times outside), or extrapolated")
FACTOR_OUTSIDE = field("factor_outside", pa.float64(), "factor by which the optimum lies outside the trained (F, D)")
REASON = field("reason", pa.string(), "why a value is missing or not resolved, and what was held or left out")
ALLOCATION = pa.schema(
    [
        BUDGET,
        SPARSITY,
        field("architecture", pa.string(), "execution plan"),
        field("flops_per_token", pa.float64(), "F*: compute-optimal training FLOPs per token"),
        field("tokens", pa.float64(), "D*: compute-optimal training tokens"),
        field("tpp", pa.float64(), "tokens per dense-equivalent parameter, D* / (F*/6)"),
        field("tpp_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("tpp_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        WINDOW,
        REASON,
        S,
        FACTOR_OUTSIDE,
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


def allocation_row(frontier_: Frontier, budget: float) -> dict[str, Any]:
    """Compute-optimal model and tokens of one architecture and sparsity at a budget (training FLOPs): Eq. 3."""
    label = frontier_.label
    row: dict[str, Any] = dict.fromkeys(ALLOCATION.names)
    row |= {"budget_flops": budget, "sparsity": label, "S": frontier_.settings.sparsity_values[label]}
    row["architecture"] = frontier_.name
    reasons = frontier_.invalid_because
    optimum = frontier_.optimum(budget) if frontier_.has_optimum else None
    if optimum:
        row["factor_outside"] = optimum.outside
    if reasons:
        row["window"] = compute_window([frontier_.surface], budget)
    elif optimum:
        row |= {"flops_per_token": optimum.flops, "tokens": optimum.tokens, "tpp": 6 * optimum.tokens / optimum.flops}
        row["window"] = frontier_.window(budget)
        with np.errstate(all="ignore"):  # of the draws that are not used
            ratios = frontier.tokens_per_parameter(frontier_.drawn, budget)
        row["tpp_low"], row["tpp_high"] = frontier_.usable.interval(ratios)
        reasons = [*frontier_.surface.outlying, *frontier_.usable.caveats]
    if optimum and (optimum.far or reasons is frontier_.invalid_because):
        reasons = [*reasons, optimum.where]
    row["reason"] = sentence(reasons)
    return row


def frontier_rows(frontier_: Frontier) -> list[dict[str, Any]]:
    """The frontier of one architecture at one sparsity with its band, as far as it exists: Eq. 4."""
    if frontier_.invalid_because:
        return []
    start, end = frontier_.trained.compute
    rows = []
    for budget in np.geomspace(start, 10 * end, CURVE_POINTS).tolist():
        with np.errstate(all="ignore"):
            low, high = frontier_.usable.interval(frontier.frontier_loss(frontier_.drawn, budget))
        loss = float(frontier.frontier_loss(frontier_.fitted, budget))
        sparsity = frontier_.settings.sparsity_values[frontier_.label]
        values = (frontier_.name, frontier_.label, sparsity, budget, loss, low, high, frontier_.window(budget))
        rows.append(dict(zip(FRONTIER.names, values, strict=True)))
    return rows
