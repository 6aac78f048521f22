"""The gain along the compute axis, with its interval."""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.allocation import BUDGET, SPARSITY, WINDOW, S
from smelt.scaling.gains.comparison import Comparison, shared_window
from smelt.surfaces import frontier

CURVE_POINTS = 61  # from the start of the compute window that both share to ten times its end

GAIN_CURVE = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        SPARSITY,
        S,
        BUDGET,
        field("gain", pa.float64(), "CE gain as a fraction: 1 - C_tgt / C_ref"),
        field("gain_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("gain_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        WINDOW,
    ]
)


def curve_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The gain of an architecture over the reference by budget, as far as it exists."""
    if comparison.invalid_because:
        return []
    target, reference = comparison.target, comparison.reference
    start, end = sorted(shared_window([target.surface, reference.surface]))
    budgets = np.geomspace(start, 10 * end, CURVE_POINTS)
    gains = frontier.gain(target.fitted, reference.fitted, budgets)
    rows = []
    for budget, gain in zip(budgets.tolist(), gains.tolist(), strict=True):
        low, high = comparison.usable.interval(comparison.drawn_gains(budget))
        row: dict[str, Any] = {"architecture": target.name, "reference": reference.name, "sparsity": comparison.label}
        row |= {"S": comparison.settings.sparsity_values[comparison.label], "budget_flops": budget}
        row |= {"gain": gain, "gain_low": low, "gain_high": high}
        rows.append(row | {"window": comparison.window(budget)})
    return rows
