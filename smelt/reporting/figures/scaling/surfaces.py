"""Figure: the fitted surface of each architecture with its data, and what it leaves of them, panel below panel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, Row, counted, groups, ordered, reference_first
from smelt.tables import numbers

HEIGHTS = (2.7, 1.7)  # inches: loss, residuals
CURVE = 60  # points of a fitted curve
LEAST = 1e-5  # nats that the axis of residuals reaches at least
MILLI = 0.25  # nats: residuals below it are drawn in thousandths


def draw(residuals: pd.DataFrame, endpoints: pd.DataFrame, coefficients: Mapping[str, Row], about: About) -> Figure:
    """A column of two panels for each architecture; colour by scale, marker by sparsity, a curve for each cell."""
    names = reference_first(coefficients, about.reference)
    points = {name: residuals[residuals["architecture"] == name] for name in names}
    # An architecture without a surface still has its data.
    shown = {
        name: endpoints[endpoints["architecture"] == name] if points[name].empty else points[name] for name in names
    }
    drawn = pd.concat(shown.values())
    labels = (ordered(drawn, "scale", "flops_per_token"), ordered(drawn, "sparsity", "S"))
    colour_of, marker_of = colours.by_label(labels[0]), colours.markers(labels[1])
    unit = _unit(residuals)
    figure, pairs = _stacked(len(names))
    for name, (above, below) in zip(names, pairs, strict=True):
        _losses(above, shown[name], colour_of, marker_of)
        above.set_title(name)
        if not points[name].empty:
            _residuals(below, points[name], coefficients[name], unit, colour_of, marker_of)
        else:
            _nothing(below, coefficients[name]["reason"], not residuals.empty)
    _axes(pairs, drawn, _reach(residuals, coefficients) / unit, None if residuals.empty else unit)
    entries: list[legend.Entry | None] = []
    entries += legend.some_keys(labels[0], lambda label: {"color": colour_of[label], "linewidth": 3})
    mark = {"color": "0.25", "linestyle": "none", "markerfacecolor": "none"}
    entries += [None, *legend.keys(labels[1], lambda label: mark | {"marker": marker_of[label]})]
    if not residuals.empty:
        entries.append(legend.key("fitted", color="0.25", linewidth=0.9))
        entries.append(Patch(color=colours.SHADE, label="± RMSE"))
    legend.finish(figure, entries, about, counted(residuals, names) + " fitted")
    return figure


def _stacked(count: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """A figure of one page's width with `count` pairs of panels, one above the other, at most three pairs abreast.

    All upper panels share their axes, and all lower ones theirs.
    """
    columns = min(count, 3)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        2 * rows,
        columns,
        figsize=(page.WIDTH, sum(HEIGHTS) * rows + 0.9),
        layout="constrained",
        squeeze=False,
        height_ratios=HEIGHTS * rows,
    )
    places = [divmod(place, columns) for place in range(rows * columns)]
    pairs = [(axes[2 * row, column], axes[2 * row + 1, column]) for row, column in places]
    for place, pair in enumerate(pairs):
        for axis, first in zip(pair, pairs[0], strict=True):
            if place >= count:
                axis.remove()
            elif place:
                axis.sharex(first)
                axis.sharey(first)
    return figure, pairs[:count]


def curve(points: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tokens and fitted loss between the endpoints of one run: a monotone curve through the surface's own values.

    `points` are fitted endpoints of one cell, of any number of seeds.
    The interpolation is in logs, where all the surfaces are all but straight between neighbours.
    """
    tokens, places = np.unique(points["tokens"].to_numpy(np.int64), return_inverse=True)
    sums = np.bincount(places, weights=numbers(points, "predicted"))
    logs = np.log(tokens), np.log(sums / np.bincount(places))
    if tokens.size < 2:
        return tokens.astype(np.float64), np.exp(logs[1])
    fine = np.linspace(logs[0][0], logs[0][-1], CURVE)
    return np.exp(fine), np.exp(PchipInterpolator(*logs)(fine))


def _losses(axis: Axes, points: pd.DataFrame, colour_of: Mapping[str, str], marker_of: Mapping[str, str]) -> None:
    """Measured losses of an architecture and, where there is a surface, its curve for each cell."""
    for (scale, sparsity, _), rows in groups(points, "scale", "sparsity", "flops_per_token"):
        if "predicted" in rows.columns:
            axis.plot(*curve(rows), color=colour_of[scale], linewidth=0.9, zorder=1.5)
        _marks(axis, numbers(rows, "tokens"), numbers(rows, "loss"), colour_of[scale], marker_of[sparsity])


def _residuals(
    axis: Axes, points: pd.DataFrame, row: Row, unit: float, colour_of: Mapping[str, str], marker_of: Mapping[str, str]
) -> None:
    """Measured - predicted against compute, with the band of one RMSE."""
    spread = row["rmse_nats"] / unit
    axis.axhspan(-spread, spread, color=colours.SHADE, zorder=0)
    axis.axhline(0, color="0.4", linewidth=0.8, zorder=0.5)
    for (scale, sparsity), rows in groups(points, "scale", "sparsity"):
        left = (numbers(rows, "loss") - numbers(rows, "predicted")) / unit
        _marks(axis, numbers(rows, "training_flops"), left, colour_of[scale], marker_of[sparsity])
    inside = f" · {100 * row['inside_delta']:.0f} % inside δ" if row["inside_delta"] is not None else ""
    said = f"RMSE {spread:.3g}" if spread > 1e-3 else "RMSE < 0.001"
    axis.set_title(f"{said}{inside}", fontsize=8.5, loc="left")


def _marks(axis: Axes, x: NDArray[np.float64], y: NDArray[np.float64], colour: str, marker: str) -> None:
    look: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 0.9, "markersize": 3.8}
    axis.plot(x, y, color=colour, marker=marker, linestyle="none", **look)


def _nothing(axis: Axes, reason: str | None, shared: bool) -> None:
    """Say why there are no residuals; an axis shared with others keeps its ticks."""
    if shared:
        lines = messages.wrapped(f"no surface: {reason}", 38)
        axis.text(0.5, 0.5, lines, transform=axis.transAxes, ha="center", va="center", fontsize=8, color="0.3")
    else:
        messages.message(axis, f"no surface: {reason}")


def _axes(pairs: Sequence[tuple[Axes, Axes]], points: pd.DataFrame, reach: float, unit: float | None) -> None:
    """Scales and labels, the same in all columns; labels of y stand at the first of a row only."""
    losses, tokens = (log_axes.margins(numbers(points, name)) for name in ("loss", "tokens"))
    if unit is not None:
        pairs[0][1].set_ylim(-reach, reach)
        pairs[0][1].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        log_axes.compute_axis([below for _, below in pairs], numbers(points, "training_flops"), 0.06)
    for place, (above, below) in enumerate(pairs):
        above.set(xscale="log", yscale="log", ylim=losses, xlim=tokens, xlabel="training tokens, D")
        log_axes.plain_log(above.yaxis, *losses)
        log_axes.counted_log(above.xaxis, *tokens, log_axes.tokens)
        first = place % 3 == 0
        for axis in (above, below):
            axis.tick_params(labelleft=first and (axis is above or unit is not None))
        if first:
            above.set_ylabel("held-out loss (nats per token)")
            if unit is not None:
                below.set_ylabel(f"measured − predicted\n({_name(unit)})")


def _sizes(residuals: pd.DataFrame) -> NDArray[np.float64]:
    """Size of each residual in nats, (rows,)."""
    return np.abs(numbers(residuals, "loss") - numbers(residuals, "predicted"))


def _unit(residuals: pd.DataFrame) -> float:
    """Nats in one unit of the residuals' axis."""
    largest = max(_sizes(residuals), default=0.0)
    return 1e-3 if largest < MILLI else 1.0


def _reach(residuals: pd.DataFrame, coefficients: Mapping[str, Row]) -> float:
    """Nats that the residuals' axis reaches on both sides; enough that rounding errors lie on its zero."""
    spreads = [row["rmse_nats"] for row in coefficients.values() if row["rmse_nats"] is not None]
    return 1.12 * float(max([LEAST, *spreads, *_sizes(residuals)]))


def _name(unit: float) -> str:
    return "nats" if unit == 1 else "millinats"
