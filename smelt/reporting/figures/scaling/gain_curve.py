"""Figure: CE gain against budget, a row of panels for each architecture and a panel for each sparsity."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, Row, architectures, counted, ordered, segments

LOWEST, HIGHEST = -1.0, 1.0  # gains that are shown: from twice the compute to none
MARGIN = 0.08  # of the range of gains, above and below
# Behind the curve: what its optima rest on. The shades differ in grey print too.
BEHIND: dict[str, dict[str, Any]] = {
    "inside": {"facecolor": "0.91", "edgecolor": "none"},
    "edge": {"facecolor": "white", "edgecolor": "0.82", "hatch": "////"},
    "extrapolated": {"facecolor": "white", "edgecolor": "none"},
}


def draw(
    curve: Sequence[Row],
    gains: Sequence[Row],
    residuals: Sequence[Row],
    coefficients: Mapping[str, Row],
    about: About,
) -> Figure:
    """Curve, 95 % band and the study's budgets; behind them the window in which the optima lie."""
    fitted = counted(residuals, architectures(coefficients.values(), about.reference)) + " fitted"
    both = [*gains, *curve]
    if not both:
        return messages.empty(about, ["no gain: there is one architecture, and a gain compares two"], fitted)
    if all(row["gain"] is None for row in both):
        return messages.empty(about, ["no gain", *_reasons(gains)], fitted)
    names, labels = sorted({row["architecture"] for row in both}), ordered(both, "sparsity", "S")
    colour_of = colours.by_label(names)
    columns = len(labels) if len(names) > 1 and 1 < len(labels) <= 4 else min(3, len(names) * len(labels))
    figure, axes = page.panels(len(names) * len(labels), columns=columns, sharey=True)
    bottom, top = _range(curve, gains)
    for axis, (name, label) in zip(axes, [(name, label) for name in names for label in labels], strict=True):
        axis.set_ylim(bottom, top)
        axis.set_title(label if len(names) == 1 else f"{name}, {label}")
        _panel(axis, _chosen(curve, name, label), _chosen(gains, name, label), colour_of[name])
        axis.set_ylabel(f"CE gain over {about.reference}")
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    log_axes.compute_axis(axes, [row["budget_flops"] for row in both])
    log_axes.outer(axes, columns)
    hidden = sum(1 for row in both if row["gain"] is not None and not bottom <= row["gain"] <= top)
    remarks = [f"{hidden} gains outside {bottom:.0%} to {top:.0%} not shown"] if hidden else []
    legend.finish(figure, _entries(names, colour_of, curve, gains), about, fitted, *remarks, *_without_interval(gains))
    return figure


def _panel(axis: Axes, curve: Sequence[Row], gains: Sequence[Row], colour: str) -> None:
    """One architecture at one sparsity; says why where there is no gain."""
    known = [row for row in gains if row["gain"] is not None]
    if not curve and not known:
        lines = messages.wrapped("no gain: " + "; ".join(_reasons(gains)), 34, 9)
        axis.text(0.5, 0.5, lines, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")
        return
    axis.axhline(0, color="0.3", linewidth=0.9, zorder=1)
    rows = sorted((row for row in curve if row["gain"] is not None), key=lambda row: row["budget_flops"])
    for window, left, right in _spans(rows):
        axis.axvspan(left, right, zorder=0, linewidth=0, **BEHIND[window])
    for window, part in segments(rows, "window"):
        budgets = [row["budget_flops"] for row in part]
        axis.plot(budgets, [row["gain"] for row in part], color=colour, **colours.WINDOWS[window])
    for part in _runs(rows):
        budgets, low, high = ([row[end] for row in part] for end in ("budget_flops", "gain_low", "gain_high"))
        axis.fill_between(budgets, low, high, color=colour, alpha=0.22, linewidth=0)
    for row in known:
        _budget(axis, row, colour)


def _chosen(rows: Sequence[Row], name: str, label: str) -> list[Row]:
    return [row for row in rows if (row["architecture"], row["sparsity"]) == (name, label)]


def _budget(axis: Axes, row: Row, colour: str) -> None:
    """One of the study's budgets: filled where the sign of the gain is resolved, with its interval."""
    place = (row["budget_flops"], row["gain"])
    if row["gain_low"] is not None:
        axis.plot([place[0]] * 2, [row["gain_low"], row["gain_high"]], color="black", linewidth=1.1, zorder=3)
    look: dict[str, Any] = {"markeredgecolor": "black", "markerfacecolor": colour if row["resolved"] else "white"}
    axis.plot(*place, marker="o", markersize=4.6, markeredgewidth=0.9, linestyle="none", zorder=4, **look)


def _reasons(gains: Sequence[Row]) -> list[str]:
    """Why rows have no gain, each reason once."""
    parts = [part for row in gains if row["gain"] is None for part in (row["reason"] or "").split("; ") if part]
    return list(dict.fromkeys(parts)) or ["the architectures have no frontiers"]


def _without_interval(gains: Sequence[Row]) -> list[str]:
    """Why gains have no interval, each reason once."""
    bare = [row for row in gains if row["gain"] is not None and row["gain_low"] is None]
    parts = [part for row in bare for part in (row["reason"] or "").split("; ") if part.startswith("no interval")]
    return list(dict.fromkeys(parts))


def _spans(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """The windows along a curve as (window, from, to), a change lying half way between two budgets."""
    budgets = [row["budget_flops"] for row in rows]
    middles = [float(np.sqrt(one * other)) for one, other in pairwise(budgets)]
    ends = [*budgets[:1], *middles, *budgets[-1:]]
    spans: list[tuple[str, float, float]] = []
    for row, left, right in zip(rows, ends, ends[1:], strict=False):
        if spans and spans[-1][0] == row["window"]:
            spans[-1] = (row["window"], spans[-1][1], right)
        else:
            spans.append((row["window"], left, right))
    return spans


def _runs(rows: Sequence[Row]) -> list[list[Row]]:
    """The stretches of a curve that have an interval."""
    parts: list[list[Row]] = [[]]
    for row in rows:
        if row["gain_low"] is None:
            parts.append([])
        else:
            parts[-1].append(row)
    return [part for part in parts if part]


def _range(curve: Sequence[Row], gains: Sequence[Row]) -> tuple[float, float]:
    """The range of all gains and of the intervals of the budgets and of trained compute, as far as it can be shown."""
    values = [row["gain"] for row in [*curve, *gains] if row["gain"] is not None]
    sure = [row for row in curve if row["window"] != "extrapolated"]
    values += [row[end] for row in [*sure, *gains] for end in ("gain_low", "gain_high") if row[end] is not None]
    values = [min(max(value, LOWEST), HIGHEST) for value in [0.0, *values]]
    margin = MARGIN * (max(values) - min(values) or 1.0)
    return min(values) - margin, max(values) + margin


def _entries(
    names: Sequence[str], colour_of: Mapping[str, str], curve: Sequence[Row], gains: Sequence[Row]
) -> list[legend.Entry | None]:
    """What the legend explains, of what there is."""
    entries: list[legend.Entry | None] = []
    if len(names) > 1:
        entries += [*legend.keys(names, lambda name: {"color": colour_of[name], "linewidth": 3}), None]
    for window, words in colours.WINDOW_WORDS.items():
        if any(row["window"] == window for row in curve):
            entries.append(legend.window_key(words, "0.2", window, BEHIND[window]))
    entries.append(None)
    for resolved, words in ((True, "budget, sign resolved"), (False, "budget, not resolved")):
        if any(row["resolved"] == resolved and row["gain"] is not None for row in gains):
            look = {"color": "black", "linestyle": "none", "markerfacecolor": "0.4" if resolved else "white"}
            entries.append(legend.key(words, marker="o", markersize=4.6, **look))
    return entries
