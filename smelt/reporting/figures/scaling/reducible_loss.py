"""Figure: reducible loss L - E of each fitted endpoint against what its surface predicts."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, Row, counted, ordered, reference_first
from smelt.tables import numbers, rows


def draw(residuals: pd.DataFrame, coefficients: Mapping[str, Row], about: About) -> Figure:
    """A panel for each architecture; colour by scale, marker by sparsity, a line where both are equal."""
    names = reference_first(coefficients, about.reference)
    fitted = counted(residuals, names) + " fitted"
    if residuals.empty:
        return messages.empty(
            about, ["no surface", *(f"{name}: {coefficients[name]['reason']}" for name in names)], fitted
        )
    scales, sparsities = ordered(residuals, "scale", "flops_per_token"), ordered(residuals, "sparsity", "S")
    colour_of, marker_of = colours.by_label(scales), colours.markers(sparsities)
    figure, axes = page.panels(len(names), columns=min(len(names), 3), height=2.3 if len(names) > 2 else 3.1)
    for axis, name in zip(axes, names, strict=True):
        row = coefficients[name]
        axis.set_title(name)
        if row["E"] is None:
            messages.message(axis, f"no surface: {row['reason']}")
            continue
        axis.set_xlabel("predicted L − E")
        if axis in axes[::3]:
            axis.set_ylabel("measured L − E (nats per token)")
        points = residuals[residuals["architecture"] == name]
        hidden = _panel(axis, points, row["E"], colour_of, marker_of)
        bound = " (on a bound)" if "E" in row["at_bound"].split() else ""
        spread = f"= {row['rmse_nats']:.2g}" if row["rmse_nats"] > 1e-6 else "< 1e-6"
        text = f"E = {row['E']:.4g} nats{bound}\nRMSE {spread} nats"
        messages.note(axis, text + (f"\n{hidden} at or below E not shown" if hidden else ""))
    entries: list[legend.Entry | None] = [
        *legend.some_keys(scales, lambda scale: {"color": colour_of[scale], "linewidth": 3})
    ]
    mark = {"color": "0.25", "linestyle": "none", "markerfacecolor": "none"}
    entries += [None, *legend.keys(sparsities, lambda label: mark | {"marker": marker_of[label]})]
    entries.append(legend.key("measured = predicted", color="0.4", linewidth=0.8))
    legend.finish(figure, entries, about, fitted)
    return figure


def _panel(
    axis: Axes, points: pd.DataFrame, E: float, colour_of: Mapping[str, str], marker_of: Mapping[str, str]
) -> int:
    """Draw the points of one architecture; return how many a log axis cannot show."""
    shown = points[points["loss"] > E]
    for point in rows(shown):
        axis.plot(
            point["predicted"] - E,
            point["loss"] - E,
            marker=marker_of[point["sparsity"]],
            color=colour_of[point["scale"]],
            linestyle="none",
            markerfacecolor="none",
            markeredgewidth=0.9,
        )
    values = np.concatenate([numbers(shown, name) - E for name in ("predicted", "loss")])
    ends = (float(values.min()) * 0.95, float(values.max()) * 1.05)
    axis.plot(ends, ends, color="0.4", linewidth=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    log_axes.plain_log(axis.xaxis, *ends)
    log_axes.plain_log(axis.yaxis, *ends)
    return len(points) - len(shown)
