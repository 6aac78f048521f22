"""Figure: compute-optimal frontiers with their bootstrap bands, a panel for each sparsity."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from smelt.reporting import style
from smelt.reporting.rows import Row, architectures, counted, grouped, ordered


def draw(
    frontier: Sequence[Row], residuals: Sequence[Row], draws: int, study: str, reference: str, convention: str
) -> Figure:
    """Frontiers over the fitted endpoints of the sparsity; the trained compute window is shaded."""
    if not frontier:
        figure, axes = style.panels(1)
        why = "the endpoints do not determine a surface, or a coefficient lies on a bound of its fit"
        style.message(axes[0], f"no frontier can be read: {why} (tables/coefficients.csv)")
        style.footer(figure, f"study {study}")
        return figure
    names = architectures(frontier, reference)
    labels = ordered(frontier, "sparsity", "S")
    # Colour is free for the architectures here: the reference in dark grey, the others in the palette's.
    looks = style.architecture_style(names, reference)
    colours = {reference: "0.25"} | style.colours([name for name in names if name != reference])
    figure, axes = style.panels(len(labels), sharex=True, sharey=True)
    for axis, label in zip(axes, labels, strict=True):
        trained = [row["budget_flops"] for row in frontier if row["window"] != "extrapolated"]
        axis.axvspan(min(trained), max(trained), color=style.SHADE, zorder=0)
        for name, rows in grouped([row for row in frontier if row["sparsity"] == label], "architecture").items():
            budgets = [row["budget_flops"] for row in rows]
            axis.plot(budgets, [row["loss"] for row in rows], **looks[name](colours[name]))
            if rows[0]["low"] is not None:
                low, high = ([row[end] for row in rows] for end in ("low", "high"))
                axis.fill_between(budgets, low, high, color=colours[name], alpha=0.18, linewidth=0)
            points = [row for row in residuals if (row["architecture"], row["sparsity"]) == (name, label)]
            axis.plot(
                [row["training_flops"] for row in points],
                [row["loss"] for row in points],
                **looks[name](colours[name]) | {"linestyle": "none", "marker": "o", "markersize": 2.2, "alpha": 0.5},
            )
        axis.set(xscale="log", title=label, xlabel="training FLOPs, C")
    axes[0].set_ylim(*_range(frontier))
    axes[0].set_ylabel("loss (nats per token)")
    entries = [style.key(name, marker="o", markersize=2.2, **looks[name](colours[name])) for name in names]
    entries.append(style.key("trained compute", color=style.SHADE, linewidth=6))
    style.legend(figure, entries)
    band = f"bands: 95 % of {draws} cell-bootstrap draws" if draws else "no bands: too few draws"
    parts = (counted(residuals, names) + " fitted; those far above not shown", f"S convention: {convention}", band)
    style.footer(figure, f"study {study}", *parts)
    return figure


def _range(frontier: Sequence[Row]) -> tuple[float, float]:
    """The range of the frontiers: endpoints far from their optimum would flatten them."""
    losses = [row["loss"] for row in frontier]
    margin = 0.1 * (max(losses) - min(losses))
    return min(losses) - margin, max(losses) + margin
