"""Figure: compute-optimal frontiers with their bootstrap bands, a panel for each sparsity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, Row, counted, ordered, reference_first, segments
from smelt.tables import numbers

MARKS_EVERY = 16  # rows of a frontier between two marks that say the architecture in grey print


def draw(frontier: pd.DataFrame, residuals: pd.DataFrame, coefficients: Mapping[str, Row], about: About) -> Figure:
    """Frontiers over the fitted endpoints of the sparsity; the trained compute window is shaded.

    Colour and mark say the architecture, the line what supports the optimum.
    """
    fitted = counted(residuals, reference_first(coefficients, about.reference)) + " fitted"
    missing = _missing(frontier, coefficients)
    if frontier.empty:
        return messages.empty(about, ["no frontier", *missing], fitted)
    names, labels = reference_first(frontier["architecture"], about.reference), ordered(frontier, "sparsity", "S")
    looks = _looks(names, about.reference)
    trained = numbers(frontier[frontier["window"] != "extrapolated"], "budget_flops")
    figure, axes = page.panels(len(labels), sharex=True, sharey=True)
    for axis, label in zip(axes, labels, strict=True):
        if trained.size:
            axis.axvspan(trained.min(), trained.max(), color=colours.SHADE, zorder=0)
        for place, name in enumerate(names):
            rows = _selected(frontier, name, label)
            points = _selected(residuals, name, label)
            # The marks of one architecture stand between those of another.
            first = MARKS_EVERY * (2 * place + 1) // (2 * len(names))
            _curve(axis, rows, rows.iloc[first::MARKS_EVERY], points, looks[name])
        axis.set(title=label, ylabel="loss (nats per token)")
    log_axes.compute_axis(axes, numbers(frontier, "budget_flops"))
    axes[0].set_ylim(*_range(frontier))
    log_axes.outer(axes, 3)
    entries: list[legend.Entry | None] = [legend.key(name, **looks[name]) for name in names]
    entries.append(None)
    for window, words in colours.WINDOW_WORDS.items():
        if (frontier["window"] == window).any():
            entries.append(legend.key(words, color="0.2", **colours.WINDOWS[window]))
    entries.append(Patch(color=colours.SHADE, label="trained compute"))
    hidden = "endpoints far above the frontiers not shown"
    legend.finish(figure, entries, about, fitted, hidden, *(f"no frontier of {why}" for why in missing))
    return figure


def _looks(names: Sequence[str], reference: str) -> dict[str, dict[str, Any]]:
    """Colour and mark of each architecture: the reference in grey with open marks."""
    colour_of = {reference: "0.25"} | colours.by_label([name for name in names if name != reference])
    return {
        name: {
            "color": colour_of[name],
            "marker": mark,
            "markerfacecolor": "white" if name == reference else colour_of[name],
            "markeredgecolor": colour_of[name],
        }
        for name, mark in colours.markers(names).items()
    }


def _selected(rows: pd.DataFrame, name: str, label: str) -> pd.DataFrame:
    """The rows of one architecture at one sparsity."""
    return rows[(rows["architecture"] == name) & (rows["sparsity"] == label)]


def _curve(axis: Axes, rows: pd.DataFrame, marked: pd.DataFrame, points: pd.DataFrame, look: Mapping[str, Any]) -> None:
    """One architecture's frontier and its band, with marks at some of its rows, over its endpoints."""
    for window, part in segments(rows, "window"):
        axis.plot(numbers(part, "budget_flops"), numbers(part, "loss"), color=look["color"], **colours.WINDOWS[window])
    dots = dict(look) | {"linestyle": "none"}
    axis.plot(numbers(marked, "budget_flops"), numbers(marked, "loss"), markersize=4.2, zorder=3, **dots)
    axis.plot(numbers(points, "training_flops"), numbers(points, "loss"), markersize=2, alpha=0.55, **dots)
    if rows["low"].notna().any():
        budgets, low, high = (numbers(rows, name) for name in ("budget_flops", "low", "high"))
        axis.fill_between(budgets, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _missing(frontier: pd.DataFrame, coefficients: Mapping[str, Row]) -> list[str]:
    """Why each architecture without a frontier has none."""
    known = set(frontier["architecture"])
    return [
        f"{name}: {row['at_bound']} on a bound of the fit"
        if row["at_bound"] not in (None, "none")
        else f"{name}: {row['reason'] or 'an exponent is not positive'}"
        for name, row in coefficients.items()
        if name not in known
    ]


def _range(frontier: pd.DataFrame) -> tuple[float, float]:
    """The range of the frontiers: endpoints far from their optimum would flatten them."""
    losses = numbers(frontier, "loss")
    low, high = float(np.min(losses)), float(np.max(losses))
    margin = 0.1 * (high - low)
    return low - margin, high + margin
