"""What figures of gains share: their range, and a gain with its interval, filled where its sign is resolved."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from smelt.reporting.style import legend
from smelt.reporting.style.labels import Row
from smelt.statistics import Array

LOWEST, HIGHEST = -1.0, 1.0  # gains that are shown: from twice the compute to none
MARGIN = 0.08  # of the range of gains, above and below


def limits(columns: Iterable[Array]) -> tuple[float, float]:
    """Ends of an axis of gains that hold zero and all values, as far as they can be shown."""
    values = np.clip(np.concatenate([[0.0], *columns]), LOWEST, HIGHEST)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = MARGIN * (high - low or 1.0)
    return low - margin, high + margin


def hidden(values: Array, ends: tuple[float, float]) -> list[str]:
    """A remark on how many gains lie outside of `ends`; empty where none does."""
    known = values[~np.isnan(values)]
    count = int(((known < ends[0]) | (known > ends[1])).sum())
    return [f"{count} gains outside {ends[0]:.0%} to {ends[1]:.0%} not shown"] if count else []


def mark(axis: Axes, at: float, row: Row, colour: str) -> None:
    """The gain of a row with its interval, filled where the sign is resolved."""
    if row["gain_low"] is not None:
        axis.plot([at, at], [row["gain_low"], row["gain_high"]], color="black", linewidth=1.1, zorder=3)
    look: dict[str, Any] = {"markeredgecolor": "black", "markerfacecolor": colour if row["resolved"] else "white"}
    axis.plot(at, row["gain"], marker="o", markersize=4.6, markeredgewidth=0.9, linestyle="none", zorder=4, **look)


def resolved_keys(gains: pd.DataFrame, what: str) -> list[Line2D]:
    """Entries of a legend for the marks of these gains."""
    entries = []
    for resolved, words in ((True, f"{what}, sign resolved"), (False, f"{what}, not resolved")):
        if ((gains["resolved"] == resolved) & gains["gain"].notna()).any():
            look = {"color": "black", "linestyle": "none", "markerfacecolor": "0.4" if resolved else "white"}
            entries.append(legend.key(words, marker="o", markersize=4.6, **look))
    return entries
