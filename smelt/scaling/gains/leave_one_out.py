"""The gain with each cell left out in turn: a table of it, and a second interval beside the bootstrap's.

The jackknife takes log C_ref / C_tgt, for which a symmetric interval is reasonable, and the ends are turned
into gains, so that none is above 1.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.comparison import Comparison, sentence
from smelt.statistics import jackknife_interval
from smelt.surfaces import frontier

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


def gain_interval(comparison: Comparison, budget: float) -> tuple[float | None, float | None, str]:
    """The jackknife interval of the gain, or why there is none; the two must be comparable with all cells."""
    cells = comparison.target.surface.cells
    if wrong := [reason for reason in comparison.without_invalid_because if reason]:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return None, None, f"no jackknife: {wrong[0]}{more}"
    if len(cells) < 2:
        return None, None, "no jackknife: there is one cell"
    estimate = comparison.log_multiplier(budget)
    left_out = frontier.log_multiplier(comparison.target.without, comparison.reference.without, budget)
    if not (np.isfinite(estimate) and np.isfinite(left_out).all()):
        return None, None, f"no jackknife: {comparison.reference.name} does not always reach the loss"
    low, high = jackknife_interval(estimate, left_out)
    return float(frontier.gain_of(low)), float(frontier.gain_of(high)), ""


def rows(comparison: Comparison, budget: float) -> list[dict[str, Any]]:
    """The gain at one budget and sparsity without each cell in turn."""
    target, reference = comparison.target, comparison.reference
    if target.surface.values is None or reference.surface.values is None:
        return []
    with np.errstate(all="ignore"):  # of the surfaces that are not used
        gains = frontier.gain(target.without, reference.without, budget)
        gammas = [np.broadcast_to(frontier.gamma(one.without), gains.shape) for one in (target, reference)]
    table = []
    for index, reason in enumerate(comparison.without_invalid_because):
        row: dict[str, Any] = dict.fromkeys(LEAVE_ONE_OUT.names)
        row |= {"architecture": target.name, "reference": reference.name}
        row |= {"budget_flops": budget, "sparsity": comparison.label}
        row["left_out_scale"], row["left_out_sparsity"] = target.surface.cells[index]
        if not reason:
            row |= {"gain": float(gains[index])}
            row |= {"gamma": float(gammas[0][index]), "gamma_reference": float(gammas[1][index])}
        row["reason"] = sentence([reason] if reason else [])
        table.append(row)
    return table
