"""Figure: CE gain of each category and source with its interval, a panel for each architecture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import About, Row
from smelt.tables import numbers
from smelt.tables import rows as rows_of

LINE = 0.155  # inches: height of a subset's line
LOWEST, HIGHEST = -1.0, 1.0  # gains that are shown: from twice the compute to none
MISSING: dict[str, Any] = {"color": "0.45", "fontsize": 6.5, "va": "center", "ha": "left"}


def draw(subsets: pd.DataFrame, about: About, place: tuple[float, str] | None) -> Figure:
    """Categories, each followed by its sources; the gain on the whole loss is a line, its interval a band.

    `place` is the budget and the sparsity; nothing where no architecture stands beside the reference.
    """
    names = sorted(set(subsets["architecture"]))
    if place is None:
        figure, axes = page.panels(1)
        messages.message(axes[0], "no gain: there is one architecture, and a gain compares two")
        legend.finish(figure, [], about)
        return figure
    at_place = (subsets["budget_flops"] == place[0]) & (subsets["sparsity"] == place[1])
    here = subsets[at_place & (subsets["kind"] != "quartile")]
    if here["gain"].isna().all():
        figure, axes = page.panels(len(names), columns=min(len(names), 3))
        for axis, name in zip(axes, names, strict=True):
            axis.set(title=f"{name} over {about.reference}", xticks=[], yticks=[])
            nothing(axis, here[here["architecture"] == name])
        finish(figure, here, [], about, *_footer(here, [], place))
        return figure
    lines = order(here[here["architecture"] == names[0]])
    height = LINE * len(lines) + 1.6
    columns = min(len(names), 3)
    figure, grid = plt.subplots(
        1, columns, figsize=(page.WIDTH, height), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    colour_of = colours.by_label(sorted({category for category, _ in lines}))
    ends = span(here)
    for axis, name in zip(grid.flat, names, strict=False):
        _panel(axis, here[here["architecture"] == name], lines, colour_of, ends)
        axis.set_title(f"{name} over {about.reference}")
    grid[0, 0].set_yticks(range(len(lines)), [source or category for category, source in lines], fontsize=6.5)
    for label, (_, source) in zip(grid[0, 0].get_yticklabels(), lines, strict=True):
        label.set(fontweight="normal" if source else "bold")
    grid[0, 0].set_ylim(len(lines) - 0.4, -0.6)
    finish(figure, here, _entries(here), about, *_footer(here, names[columns:], place))
    return figure


def finish(figure: Figure, rows: pd.DataFrame, entries: Sequence[legend.Entry], about: About, *parts: str) -> None:
    """Legend and footer; without any gain there is nothing to explain, and no draws to speak of."""
    if rows["gain"].notna().any():
        legend.finish(figure, entries, about, *parts)
    else:
        legend.legend(figure, [], title=about.simulated)
        legend.footer(figure, about.simulated, f"study {about.study}", *parts, *about.parts[:2])


def rested(rows: pd.DataFrame) -> str:
    """How many endpoints a comparison rests on, those of both architectures."""
    counts = sorted(set(rows["endpoints"].dropna()))
    return f"{' or '.join(map(str, counts))} endpoints of both architectures" if counts else ""


def nothing(axis: Axes, rows: pd.DataFrame) -> None:
    """Say why a panel has no gain at all."""
    width = 60 // min(len(axis.figure.axes), 3) + 5
    reasons = rows["reason"].dropna().unique()
    text = messages.wrapped("no gain: " + "; ".join(reasons), width, 14)
    axis.grid(visible=False)
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")


def order(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """The lines of a panel: (category, "") and then (category, source) of each of its sources.

    Both go from the highest gain to the lowest, those without a gain last, by name.
    """
    ranked = rows.sort_values(["gain", "subset"], ascending=[False, True])
    sources = ranked[ranked["kind"] == "source"]
    return [
        (category, name)
        for category in ranked[ranked["kind"] == "category"]["subset"]
        for name in ["", *sources[sources["category"] == category]["subset"]]
    ]


def span(rows: pd.DataFrame) -> tuple[float, float]:
    """The range that is shown: 0, the middle nine tenths of the gains, and the intervals up to once their range beyond.

    One subset that says nothing must not press all others together; what leaves the range ends in an arrow.
    """
    gains = np.clip(numbers(rows[rows["gain"].notna()], "gain"), LOWEST, HIGHEST)
    low, high = np.quantile([0.0, *gains], [0.05, 0.95]).tolist()
    low, high = min(low, 0.0), max(high, 0.0)
    reach = max(high - low, 0.1)
    ends = [numbers(rows, name) for name in ("gain", "gain_low", "gain_high")]
    values = np.clip(np.concatenate([[low, high], *ends]), low - reach, high + reach)
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.05 * (most - least or 1.0)
    return least - margin, most + margin


def _panel(
    axis: Axes,
    rows: pd.DataFrame,
    lines: Sequence[tuple[str, str]],
    colour_of: dict[str, str],
    ends: tuple[float, float],
) -> None:
    parts = rows[rows["kind"].isin(["category", "source"])]
    row_of = {(row["kind"], row["subset"]): row for row in rows_of(parts)}
    whole = rows_of(rows[rows["kind"] == "all"])[0]
    known = bool(parts["gain"].notna().any())
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
        row = row_of.get(("source", source) if source else ("category", category))
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


def _entries(rows: pd.DataFrame) -> list[legend.Entry]:
    entries: list[legend.Entry] = [
        legend.key("category", color="0.3", marker="D", markersize=6, linewidth=2),
        legend.key("source", color="0.3", marker="o", markersize=3.8, linewidth=1.1),
    ]
    if (rows["gain"].notna() & ~rows["resolved"]).any():
        entries.append(legend.key("not resolved", color="0.3", marker="o", markerfacecolor="white", linewidth=1.1))
    if ((rows["kind"] == "all") & rows["gain"].notna()).any():
        entries.append(legend.key("whole loss", color="0.1", linestyle=colours.REFERENCE_DASH))
        entries.append(legend.key("its 95 % interval", color=colours.SHADE, linewidth=6))
    return entries


def _footer(rows: pd.DataFrame, hidden: Sequence[str], place: tuple[float, str]) -> list[str]:
    """What stands below the panel."""
    parts = [f"CE gain at {place[0]:.3g} training FLOPs, {place[1]}", rested(rows)]
    parts.append("exponents as in the fit of the whole loss")
    drawn = rows[rows["kind"].isin(["category", "source"])]
    missing = int(drawn["gain"].isna().sum())
    if missing:
        parts.append(f"{missing} of {len(drawn)} subsets without a gain: reasons in tables/subsets.csv")
    if hidden:
        parts.append(f"not shown: {', '.join(hidden)}")
    return parts
