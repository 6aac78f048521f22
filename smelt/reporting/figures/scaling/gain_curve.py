"""Figure: CE gain against budget, a row of panels for each architecture and a panel for each sparsity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style import gains as style
from smelt.reporting.style.labels import About, Row, counted, ordered, reference_first, segments
from smelt.tables import numbers
from smelt.tables import rows as rows_of

SHOWN = ["architecture", "sparsity", "S", "budget_flops", "gain"]
# Behind the curve: what its optima rest on. The shades differ in grey print too.
BEHIND: dict[str, dict[str, Any]] = {
    "inside": {"facecolor": "0.91", "edgecolor": "none"},
    "edge": {"facecolor": "white", "edgecolor": "0.82", "hatch": "////"},
    "extrapolated": {"facecolor": "white", "edgecolor": "none"},
}


def draw(
    curve: pd.DataFrame,
    gains: pd.DataFrame,
    residuals: pd.DataFrame,
    coefficients: Mapping[str, Row],
    about: About,
) -> Figure:
    """Curve, 95 % band and the study's budgets; behind them the window in which the optima lie."""
    fitted = counted(residuals, reference_first(coefficients, about.reference)) + " fitted"
    both = pd.concat([gains[SHOWN], curve[SHOWN]])
    if both.empty:
        return messages.empty(about, ["no gain: there is one architecture, and a gain compares two"], fitted)
    if both["gain"].isna().all():
        return messages.empty(about, ["no gain", *_reasons(gains)], fitted)
    names, labels = sorted(set(both["architecture"])), ordered(both, "sparsity", "S")
    colour_of = colours.by_label(names)
    columns = len(labels) if len(names) > 1 and 1 < len(labels) <= 4 else min(3, len(names) * len(labels))
    figure, axes = page.panels(len(names) * len(labels), columns=columns, sharey=True)
    ends = _range(curve, gains)
    for axis, (name, label) in zip(axes, [(name, label) for name in names for label in labels], strict=True):
        axis.set_ylim(*ends)
        axis.set_title(label if len(names) == 1 else f"{name}, {label}")
        _panel(axis, _chosen(curve, name, label), _chosen(gains, name, label), colour_of[name])
        axis.set_ylabel(f"CE gain over {about.reference}")
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    log_axes.compute_axis(axes, numbers(both, "budget_flops"))
    log_axes.outer(axes, columns)
    remarks = style.hidden(numbers(both, "gain"), ends)
    legend.finish(figure, _entries(names, colour_of, curve, gains), about, fitted, *remarks, *_without_interval(gains))
    return figure


def _panel(axis: Axes, curve: pd.DataFrame, gains: pd.DataFrame, colour: str) -> None:
    """One architecture at one sparsity; says why where there is no gain."""
    known = gains[gains["gain"].notna()]
    if curve.empty and known.empty:
        lines = messages.wrapped("no gain: " + "; ".join(_reasons(gains)), 34, 9)
        axis.text(0.5, 0.5, lines, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")
        return
    axis.axhline(0, color="0.3", linewidth=0.9, zorder=1)
    rows = curve[curve["gain"].notna()].sort_values("budget_flops", kind="stable")
    for window, left, right in _spans(rows):
        axis.axvspan(left, right, zorder=0, linewidth=0, **BEHIND[window])
    for window, part in segments(rows, "window"):
        axis.plot(numbers(part, "budget_flops"), numbers(part, "gain"), color=colour, **colours.WINDOWS[window])
    stretches = (rows["gain_low"].isna() != rows["gain_low"].isna().shift(fill_value=True)).cumsum()
    for _, part in rows[rows["gain_low"].notna()].groupby(stretches):
        budgets, low, high = (numbers(part, name) for name in ("budget_flops", "gain_low", "gain_high"))
        axis.fill_between(budgets, low, high, color=colour, alpha=0.22, linewidth=0)
    for row in rows_of(known):
        style.mark(axis, row["budget_flops"], row, colour)


def _chosen(rows: pd.DataFrame, name: str, label: str) -> pd.DataFrame:
    return rows[(rows["architecture"] == name) & (rows["sparsity"] == label)]


def _reasons(gains: pd.DataFrame) -> list[str]:
    """Why rows have no gain, each reason once."""
    parts = _parts(gains[gains["gain"].isna()])
    return list(dict.fromkeys(parts)) or ["the architectures have no frontiers"]


def _parts(gains: pd.DataFrame) -> list[str]:
    """Each reason of each row, in order."""
    return [part for reason in gains["reason"].dropna() for part in reason.split("; ") if part]


def _without_interval(gains: pd.DataFrame) -> list[str]:
    """Why gains have no interval, each reason once."""
    bare = gains[gains["gain"].notna() & gains["gain_low"].isna()]
    return list(dict.fromkeys(part for part in _parts(bare) if part.startswith("no interval")))


def _spans(rows: pd.DataFrame) -> list[tuple[str, float, float]]:
    """The windows along a curve as (window, from, to), a change lying half way between two budgets."""
    budgets = numbers(rows, "budget_flops")
    ends = np.concatenate([budgets[:1], np.sqrt(budgets[:-1] * budgets[1:]), budgets[-1:]])
    spans = []
    first = 0
    for window, part in segments(rows, "window"):
        last = first + len(part) - (first > 0)  # a later part begins with the row before it
        spans.append((window, float(ends[first]), float(ends[last])))
        first = last
    return spans


def _range(curve: pd.DataFrame, gains: pd.DataFrame) -> tuple[float, float]:
    """The range of all gains and of the intervals of the budgets and of trained compute, as far as it can be shown."""
    trained = curve[curve["window"] != "extrapolated"]
    columns = [numbers(rows, "gain") for rows in (curve, gains)]
    columns += [numbers(rows, end) for rows in (trained, gains) for end in ("gain_low", "gain_high")]
    return style.limits(columns)


def _entries(
    names: Sequence[str], colour_of: Mapping[str, str], curve: pd.DataFrame, gains: pd.DataFrame
) -> list[legend.Entry | None]:
    """What the legend explains, of what there is."""
    entries: list[legend.Entry | None] = []
    if len(names) > 1:
        entries += [*legend.keys(names, lambda name: {"color": colour_of[name], "linewidth": 3}), None]
    for window, words in colours.WINDOW_WORDS.items():
        if (curve["window"] == window).any():
            entries.append(legend.window_key(words, "0.2", window, BEHIND[window]))
    entries.append(None)
    entries += style.resolved_keys(gains, "budget")
    return entries
