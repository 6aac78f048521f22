"""Figure: compute-optimal frontiers with their bootstrap bands, a panel for each sparsity."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from smelt.reporting.style import colours, legend, log_axes, messages, page
from smelt.reporting.style.labels import About, Row, architectures, counted, ordered, segments

MARKS_EVERY = 16  # rows of a frontier between two marks that say the architecture in grey print


def draw(frontier: Sequence[Row], residuals: Sequence[Row], coefficients: Mapping[str, Row], about: About) -> Figure:
    """Frontiers over the fitted endpoints of the sparsity; the trained compute window is shaded.

    Colour and mark say the architecture, the line what supports the optimum.
    """
    fitted = counted(residuals, architectures(coefficients.values(), about.reference)) + " fitted"
    missing = _missing(frontier, coefficients)
    if not frontier:
        return messages.empty(about, ["no frontier", *missing], fitted)
    names, labels = architectures(frontier, about.reference), ordered(frontier, "sparsity", "S")
    looks = _looks(names, about.reference)
    trained = [row["budget_flops"] for row in frontier if row["window"] != "extrapolated"]
    figure, axes = page.panels(len(labels), sharex=True, sharey=True)
    for axis, label in zip(axes, labels, strict=True):
        if trained:
            axis.axvspan(min(trained), max(trained), color=colours.SHADE, zorder=0)
        for place, name in enumerate(names):
            rows = [row for row in frontier if (row["architecture"], row["sparsity"]) == (name, label)]
            points = [row for row in residuals if (row["architecture"], row["sparsity"]) == (name, label)]
            # The marks of one architecture stand between those of another.
            first = MARKS_EVERY * (2 * place + 1) // (2 * len(names))
            _curve(axis, rows, rows[first::MARKS_EVERY], points, looks[name])
        axis.set(title=label, ylabel="loss (nats per token)")
    log_axes.compute_axis(axes, [row["budget_flops"] for row in frontier])
    axes[0].set_ylim(*_range(frontier))
    log_axes.outer(axes, 3)
    entries: list[legend.Entry | None] = [legend.key(name, **looks[name]) for name in names]
    entries.append(None)
    for window, words in colours.WINDOW_WORDS.items():
        if any(row["window"] == window for row in frontier):
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


def _curve(
    axis: Axes, rows: Sequence[Row], marked: Sequence[Row], points: Sequence[Row], look: Mapping[str, Any]
) -> None:
    """One architecture's frontier and its band, with marks at some of its rows, over its endpoints."""
    for window, part in segments(rows, "window"):
        budgets, losses = ([row[key] for row in part] for key in ("budget_flops", "loss"))
        axis.plot(budgets, losses, color=look["color"], **colours.WINDOWS[window])
    dots = dict(look) | {"linestyle": "none"}
    axis.plot(
        [row["budget_flops"] for row in marked], [row["loss"] for row in marked], markersize=4.2, zorder=3, **dots
    )
    places = ([row[key] for row in points] for key in ("training_flops", "loss"))
    axis.plot(*places, markersize=2, alpha=0.55, **dots)
    if rows and rows[0]["low"] is not None:
        budgets, low, high = ([row[key] for row in rows] for key in ("budget_flops", "low", "high"))
        axis.fill_between(budgets, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _missing(frontier: Sequence[Row], coefficients: Mapping[str, Row]) -> list[str]:
    """Why each architecture without a frontier has none."""
    there = {row["architecture"] for row in frontier}
    return [
        f"{name}: {row['at_bound']} on a bound of the fit"
        if row["at_bound"] not in (None, "none")
        else f"{name}: {row['reason'] or 'an exponent is not positive'}"
        for name, row in coefficients.items()
        if name not in there
    ]


def _range(frontier: Sequence[Row]) -> tuple[float, float]:
    """The range of the frontiers: endpoints far from their optimum would flatten them."""
    losses = [row["loss"] for row in frontier]
    margin = 0.1 * (max(losses) - min(losses))
    return min(losses) - margin, max(losses) + margin
