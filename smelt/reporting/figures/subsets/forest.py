"""Figure: CE gain of each category and source with its interval, a panel for each architecture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import About, Row, grouped

LINE = 0.155  # inches: height of a subset's line
LOWEST, HIGHEST = -1.0, 1.0  # gains that are shown: from twice the compute to none
MISSING: dict[str, Any] = {"color": "0.45", "fontsize": 6.5, "va": "center", "ha": "left"}


def draw(subsets: Sequence[Row], about: About, place: tuple[float, str] | None) -> Figure:
    """Categories, each followed by its sources; the gain on the whole loss is a line, its interval a band.

    `place` is the budget and the sparsity; nothing where no architecture stands beside the reference.
    """
    names = sorted({row["architecture"] for row in subsets})
    if place is None:
        figure, axes = page.panels(1)
        messages.message(axes[0], "no gain: there is one architecture, and a gain compares two")
        legend.finish(figure, [], about)
        return figure
    here = [row for row in subsets if (row["budget_flops"], row["sparsity"]) == place and row["kind"] != "quartile"]
    if all(row["gain"] is None for row in here):
        figure, axes = page.panels(len(names), columns=min(len(names), 3))
        for axis, name in zip(axes, names, strict=True):
            axis.set(title=f"{name} over {about.reference}", xticks=[], yticks=[])
            nothing(axis, [row for row in here if row["architecture"] == name])
        finish(figure, here, [], about, *_footer(here, [], place))
        return figure
    lines = order([row for row in here if row["architecture"] == names[0]])
    height = LINE * len(lines) + 1.6
    columns = min(len(names), 3)
    figure, grid = plt.subplots(
        1, columns, figsize=(page.WIDTH, height), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    colour_of = colours.by_label(sorted({category for category, _ in lines}))
    ends = span(here)
    for axis, name in zip(grid.flat, names, strict=False):
        _panel(axis, [row for row in here if row["architecture"] == name], lines, colour_of, ends)
        axis.set_title(f"{name} over {about.reference}")
    grid[0, 0].set_yticks(range(len(lines)), [source or category for category, source in lines], fontsize=6.5)
    for label, (_, source) in zip(grid[0, 0].get_yticklabels(), lines, strict=True):
        label.set(fontweight="normal" if source else "bold")
    grid[0, 0].set_ylim(len(lines) - 0.4, -0.6)
    finish(figure, here, _entries(here), about, *_footer(here, names[columns:], place))
    return figure


def finish(figure: Figure, rows: Sequence[Row], entries: Sequence[legend.Entry], about: About, *parts: str) -> None:
    """Legend and footer; without any gain there is nothing to explain, and no draws to speak of."""
    if any(row["gain"] is not None for row in rows):
        legend.finish(figure, entries, about, *parts)
    else:
        legend.legend(figure, [], title=about.simulated)
        legend.footer(figure, about.simulated, f"study {about.study}", *parts, *about.parts[:2])


def rested(rows: Sequence[Row]) -> str:
    """How many endpoints a comparison rests on, those of both architectures."""
    counts = sorted({row["endpoints"] for row in rows if row["endpoints"] is not None})
    return f"{' or '.join(map(str, counts))} endpoints of both architectures" if counts else ""


def nothing(axis: Axes, rows: Sequence[Row]) -> None:
    """Say why a panel has no gain at all."""
    width = 60 // min(len(axis.figure.axes), 3) + 5
    reasons = dict.fromkeys(row["reason"] for row in rows if row["reason"])
    text = messages.wrapped("no gain: " + "; ".join(reasons), width, 14)
    axis.grid(visible=False)
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")


def order(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(category, "") and then (category, source) of its sources, both from the highest gain to the lowest, those
    without a gain last, by name."""

    def rank(row: Row) -> tuple[bool, float, str]:
        return row["gain"] is None, -(row["gain"] or 0.0), row["subset"]

    sources = grouped(sorted((row for row in rows if row["kind"] == "source"), key=rank), "category")
    heads = sorted((row for row in rows if row["kind"] == "category"), key=rank)
    return [
        (head["subset"], name)
        for head in heads
        for name in ["", *(row["subset"] for row in sources.get(head["subset"], []))]
    ]


def span(rows: Sequence[Row]) -> tuple[float, float]:
    """The range that is shown: 0, the middle nine tenths of the gains, and the intervals up to once their range beyond.

    One subset that says nothing must not press all others together; what leaves the range ends in an arrow.
    """
    gains = [min(max(row["gain"], LOWEST), HIGHEST) for row in rows if row["gain"] is not None]
    low, high = np.quantile([0.0, *gains], [0.05, 0.95]).tolist()
    low, high = min(low, 0.0), max(high, 0.0)
    reach = max(high - low, 0.1)
    ends = [row[name] for row in rows for name in ("gain", "gain_low", "gain_high") if row[name] is not None]
    values = [min(max(value, low - reach), high + reach) for value in [low, high, *ends]]
    margin = 0.05 * (max(values) - min(values) or 1.0)
    return min(values) - margin, max(values) + margin


def _panel(
    axis: Axes,
    rows: Sequence[Row],
    lines: Sequence[tuple[str, str]],
    colour_of: dict[str, str],
    ends: tuple[float, float],
) -> None:
    found = {("", row["subset"]) if row["kind"] == "source" else (row["subset"], ""): row for row in rows}
    whole = next(row for row in rows if row["kind"] == "all")
    known = any(row["gain"] is not None for row in rows if row["kind"] in ("category", "source"))
    axis.set(xlim=ends, xlabel="CE gain" if known else "")
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.grid(axis="y", visible=False)
    if known:
        axis.axvline(0, color="0.3", linewidth=0.8)
    else:
        axis.set_xticks([])
    if whole["gain"] is not None:
        axis.axvline(whole["gain"], color="0.1", linewidth=1.1, linestyle=colours.REFERENCE_DASH)
    if whole["gain_low"] is not None:
        axis.axvspan(whole["gain_low"], whole["gain_high"], color=colours.SHADE, zorder=0)
    for height, (category, source) in enumerate(lines):
        if not source and height:
            axis.axhline(height - 0.5, color="0.85", linewidth=0.6)
        row = found.get(("", source) if source else (category, ""))
        if row is not None and row["gain"] is not None:
            interval(axis, row, height, ends, colour_of[category], bold=not source)
        elif known:
            axis.text(ends[0] + 0.015 * (ends[1] - ends[0]), height, _why(row), **MISSING)
    if not known:
        nothing(axis, rows)


def interval(axis: Axes, row: Row, height: float, ends: tuple[float, float], colour: str, bold: bool) -> None:
    """A gain and its interval on a line; an arrow where one of them leaves the panel."""
    low, high = (row["gain_low"], row["gain_high"]) if row["gain_low"] is not None else (row["gain"], row["gain"])
    shown = [min(max(value, ends[0]), ends[1]) for value in (low, row["gain"], high)]
    axis.plot([shown[0], shown[2]], [height] * 2, color=colour, linewidth=2.0 if bold else 1.1, zorder=2)
    for value, limit, mark in ((low, ends[0], "<"), (high, ends[1], ">")):
        if (value < limit) if mark == "<" else (value > limit):
            axis.plot(limit, height, marker=mark, color=colour, markersize=4, clip_on=False, zorder=3)
    if shown[1] != row["gain"]:
        left = row["gain"] < ends[0]
        place: dict[str, Any] = {"ha": "left" if left else "right", "va": "bottom", "fontsize": 6.5, "color": colour}
        shift = (6 if left else -6, 0)
        axis.annotate(f"{row['gain']:.0%}", (shown[1], height), shift, textcoords="offset points", **place)
    else:
        face = colour if row["resolved"] else "white"
        size = 6 if bold else 3.8
        axis.plot(
            shown[1], height, marker="D" if bold else "o", color=colour, markerfacecolor=face, markersize=size, zorder=3
        )


def _why(row: Row | None) -> str:
    """Why a line is empty, in few words; the table has them all."""
    reason = "not in the table" if row is None else row["reason"] or "no gain"
    return messages.wrapped(f"no gain: {reason}", 60, 1)


def _entries(rows: Sequence[Row]) -> list[legend.Entry]:
    entries: list[legend.Entry] = [
        legend.key("category", color="0.3", marker="D", markersize=6, linewidth=2),
        legend.key("source", color="0.3", marker="o", markersize=3.8, linewidth=1.1),
    ]
    if any(row["gain"] is not None and not row["resolved"] for row in rows):
        entries.append(legend.key("not resolved", color="0.3", marker="o", markerfacecolor="white", linewidth=1.1))
    if any(row["kind"] == "all" and row["gain"] is not None for row in rows):
        entries.append(legend.key("whole loss", color="0.1", linestyle=colours.REFERENCE_DASH))
        entries.append(legend.key("its 95 % interval", color=colours.SHADE, linewidth=6))
    return entries


def _footer(rows: Sequence[Row], hidden: Sequence[str], place: tuple[float, str]) -> list[str]:
    """What stands below the panel."""
    parts = [f"CE gain at {place[0]:.3g} training FLOPs, {place[1]}", rested(rows)]
    parts.append("exponents as in the fit of the whole loss")
    missing = [row for row in rows if row["kind"] in ("category", "source") and row["gain"] is None]
    if missing:
        total = sum(row["kind"] in ("category", "source") for row in rows)
        parts.append(f"{len(missing)} of {total} subsets without a gain: reasons in tables/subsets.csv")
    if hidden:
        parts.append(f"not shown: {', '.join(hidden)}")
    return parts
