"""Figure: iso-loss gain against training tokens, a panel for each architecture, the cells behind the pooled gain."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from smelt.reporting.style import colours, gains, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, counted, groups, reference_first
from smelt.tables import numbers, rows

CELL: dict[str, Any] = {"color": "0.72", "linewidth": 0.8, "zorder": 1}
# Of a cell of which only a bound is known: the gain is at least or at most this.
BOUND: dict[str, dict[str, Any]] = {
    words: {"color": "0.55", "marker": marker, "markersize": 3.4, "linestyle": "none", "zorder": 1}
    for words, marker in (("at least", "^"), ("at most", "v"))
}
INTERVALS = "95 % intervals: Student's t over cells or means of scales, the wider one"


def draw(iso_loss_gain: pd.DataFrame, endpoints: pd.DataFrame, about: About) -> Figure:
    """The pooled gain of all cells with its interval at each horizon; thin lines are cells, triangles are bounds."""
    used = counted(endpoints, reference_first(endpoints["architecture"], about.reference))
    said = (f"study {about.study}", used, f"S convention: {about.convention}", INTERVALS, "equal loss, fixed size")
    if iso_loss_gain.empty:
        figure, axes = page.panels(1, height=1.5)
        messages.message(axes[0], "no iso-loss gain: there is one architecture, and a gain compares two", 90)
        return _finished(figure, [], about, said)
    names = list(dict.fromkeys(iso_loss_gain["architecture"]))
    pooled = iso_loss_gain[iso_loss_gain["kind"] == "all"]
    cells = iso_loss_gain[iso_loss_gain["kind"] == "cell"]
    by = "horizon" if pooled[pooled["horizon"].notna()]["tokens"].isna().any() else "tokens"
    colour_of = colours.by_label(names)
    columns = min(len(names), 3)
    figure, axes = page.panels(len(names), columns=columns, height=3.0 if len(names) < 3 else 2.3, sharey=True)
    shown = pd.concat([pooled, cells[cells["gain"].notna()]])
    ends = gains.limits(numbers(shown, column) for column in ("gain", "gain_low", "gain_high"))
    for axis, name in zip(axes, names, strict=True):
        axis.set_ylim(*ends)
        axis.set_title(name)
        axis.set_ylabel(f"iso-loss gain over {about.reference}")
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        _panel(axis, pooled[pooled["architecture"] == name], cells[cells["architecture"] == name], by, colour_of[name])
    _horizons(axes, pooled, by)
    log_axes.outer(axes, columns)
    return _finished(figure, _entries(pooled, cells), about, (*said, *gains.hidden(numbers(shown, "gain"), ends)))


def _finished(figure: Figure, entries: list[legend.Entry | None], about: About, said: tuple[str, ...]) -> Figure:
    """The figure with its legend and footer, which speaks of no surface and no draws, since there are none."""
    legend.legend(figure, entries, title=about.simulated)
    legend.footer(figure, about.simulated, *said)
    return figure


def _panel(axis: Axes, pooled: pd.DataFrame, cells: pd.DataFrame, by: str, colour: str) -> None:
    """One architecture; says why where there is no gain."""
    axis.axhline(0, color="0.3", linewidth=0.9, zorder=0.5)
    for _, cell in groups(cells, "scale", "sparsity"):
        known = cell[cell["bound"].isna()]
        axis.plot(numbers(known, by), numbers(known, "gain"), **CELL)
    for words, look in BOUND.items():
        bounded = cells[cells["bound"] == words]
        axis.plot(numbers(bounded, by), numbers(bounded, "gain"), **look)
    known = pooled[pooled["gain"].notna()]
    axis.plot(numbers(known, by), numbers(known, "gain"), color=colour, linewidth=1.8, zorder=2)
    for row in rows(known):
        gains.mark(axis, row[by], row, colour)
    if known.empty:
        reasons = dict.fromkeys(part for reason in pooled["reason"].dropna() for part in reason.split("; "))
        words = messages.wrapped("no pooled gain: " + "; ".join(reasons), 34, 9)
        axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")


def _horizons(axes: list[Axes], pooled: pd.DataFrame, by: str) -> None:
    """The axis of horizons: training tokens, or the horizons' numbers where cells have other tokens."""
    values = numbers(pooled[pooled[by].notna()], by)
    for axis in axes:
        axis.set_xlabel("training tokens, D" if by == "tokens" else "horizon (number of the endpoint in its run)")
        if by == "horizon" or not values.size:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            continue
        low, high = log_axes.margins(values)
        axis.set(xscale="log", xlim=(low, high))
        log_axes.counted_log(axis.xaxis, low, high, log_axes.tokens)


def _entries(pooled: pd.DataFrame, cells: pd.DataFrame) -> list[legend.Entry | None]:
    """What the legend explains, of what there is."""
    entries: list[legend.Entry | None] = [*gains.resolved_keys(pooled, "all cells")]
    if (cells["gain"].notna() & cells["bound"].isna()).any():
        entries.append(legend.key("one cell", **CELL))
    for words, look in BOUND.items():
        if (cells["bound"] == words).any():
            entries.append(legend.key(f"one cell, {words} this", **look))
    return entries
