"""Figure: CE gain by quartile of the reference's loss, a panel for each architecture."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from smelt.reporting.figures.subsets.forest import finish, nothing, rested, span
from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import About, ordered
from smelt.tables import rows as rows_of

STEP = 0.13  # between the sparsities of one quartile
LABELS = ("Q1\nlowest loss", "Q2", "Q3", "Q4\nhighest loss")


def draw(subsets: pd.DataFrame, about: About, place: tuple[float, str] | None) -> Figure:
    """Colour by sparsity, at the budget of `place`; filled where the sign of the gain is resolved."""
    rows = subsets[subsets["kind"] == "quartile"]
    rows = rows[rows["budget_flops"] == place[0]] if place is not None else rows
    if place is None or rows.empty:
        figure, axes = page.panels(1)
        messages.message(axes[0], "no gain: there is one architecture, and a gain compares two")
        legend.finish(figure, [], about)
        return figure
    names, labels = sorted(set(rows["architecture"])), ordered(rows, "sparsity", "S")
    colour_of, marks = colours.by_label(labels), colours.markers(labels)
    figure, axes = page.panels(len(names), columns=min(len(names), 3), height=2.9, sharey=True)
    ends = span(rows)
    for axis, name in zip(axes, names, strict=True):
        _panel(axis, rows[rows["architecture"] == name], labels, ends, colour_of, marks)
        axis.set(title=f"{name} over {about.reference}", ylim=ends)
        axis.set_xticks(range(len(LABELS)), LABELS)
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].set_ylabel("CE gain")
    entries: list[legend.Entry] = [
        legend.key(label, color=colour_of[label], marker=marks[label], linewidth=1.2) for label in labels
    ]
    if (rows["gain"].notna() & ~rows["resolved"]).any():
        entries.append(legend.key("not resolved", color="0.3", marker="o", markerfacecolor="white", linewidth=1.1))
    parts = (
        f"CE gain at {place[0]:.3g} training FLOPs",
        rested(rows),
        f"sources ranked by the loss of {about.reference} within each pair; means over sources, then over pairs",
    )
    finish(figure, rows, entries, about, *parts)
    return figure


def _panel(
    axis: Axes,
    rows: pd.DataFrame,
    labels: Sequence[str],
    ends: tuple[float, float],
    colour_of: dict[str, str],
    marks: dict[str, str],
) -> None:
    axis.set_xlim(-0.6, len(LABELS) - 0.4)
    if rows["gain"].isna().all():
        nothing(axis, rows)
        axis.set_yticks([])
        return
    axis.axhline(0, color="0.3", linewidth=0.9)
    for row in rows_of(rows):
        across = int(row["subset"][1:]) - 1 + STEP * (labels.index(row["sparsity"]) - (len(labels) - 1) / 2)
        colour = colour_of[row["sparsity"]]
        if row["gain"] is None:
            axis.text(across, ends[0], "none", rotation=90, fontsize=6.5, color=colour, ha="center", va="bottom")
            continue
        if row["gain_low"] is not None:
            low, high = (min(max(row[end], ends[0]), ends[1]) for end in ("gain_low", "gain_high"))
            axis.plot([across] * 2, [low, high], color=colour, linewidth=1.3)
            for value, end, mark in ((row["gain_low"], low, "v"), (row["gain_high"], high, "^")):
                if value != end:
                    axis.plot(across, end, marker=mark, color=colour, markersize=4, clip_on=False)
        face = colour if row["resolved"] else "white"
        axis.plot(
            across,
            row["gain"],
            linestyle="none",
            marker=marks[row["sparsity"]],
            color=colour,
            markerfacecolor=face,
            markersize=5,
        )
