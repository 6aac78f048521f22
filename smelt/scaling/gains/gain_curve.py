"""The gain along the compute axis, with its interval."""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.allocation import BUDGET, SPARSITY, WINDOW, S
from smelt.scaling.gains.comparison import FittedSurface, drawn, faults, point, shared_window, support
from smelt.scaling.settings import Settings
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


def gain_window(target: FittedSurface, reference: FittedSurface, budget: float, label: str, settings: Settings) -> str:
    """Where a gain lies: it rests on both optima, the target's at its budget, the reference's at the one it needs."""
    mine, other = point(target, label, settings), point(reference, label, settings)
    needed = np.log(budget) + float(frontier.log_multiplier(mine, other, budget))
    return frontier.worst(
        frontier.window(mine, frontier.box(target.points), budget),
        frontier.window(other, frontier.box(reference.points), float(np.exp(min(needed, frontier.LARGEST)))),
    )


def curve_rows(target: FittedSurface, reference: FittedSurface, label: str, settings: Settings) -> list[dict[str, Any]]:
    """The gain of `target` over `reference` by budget, as far as it exists."""
    if faults(target, label, settings) or faults(reference, label, settings):
        return []
    start, end = sorted(shared_window([target, reference]))
    places = np.geomspace(start, 10 * end, CURVE_POINTS)
    gains = frontier.gain(point(target, label, settings), point(reference, label, settings), places)
    mine, other = drawn(target, label, settings), drawn(reference, label, settings)
    held = support(target, reference, label=label, settings=settings)
    rows = []
    for budget, value in zip(places.tolist(), gains.tolist(), strict=True):
        with np.errstate(all="ignore"):  # of the draws that are not used
            low, high = held.interval(frontier.gain(mine, other, budget))
        row: dict[str, Any] = {"architecture": target.name, "reference": reference.name, "sparsity": label}
        row |= {"S": settings.sparsity_values[label], "budget_flops": budget}
        row |= {"gain": value, "gain_low": low, "gain_high": high}
        rows.append(row | {"window": gain_window(target, reference, budget, label, settings)})
    return rows
