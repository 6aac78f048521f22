"""Figure: held-out loss against training FLOPs, a panel for each sparsity, a line for each run."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from smelt.reporting.style import colours, legend, log_axes, page
from smelt.reporting.style.labels import About, Row, architectures, counted, grouped, ordered


def draw(endpoints: Sequence[Row], about: About) -> Figure:
    """Colour by scale; line style, marker and its fill by architecture."""
    names = architectures(endpoints, about.reference)
    scales = ordered(endpoints, "scale", "flops_per_token")
    sparsities = ordered(endpoints, "sparsity", "S")
    colour_of, looks = colours.by_label(scales), colours.architecture_style(names, about.reference)
    marks = colours.markers(names)
    figure, axes = page.panels(len(sparsities), sharex=True, sharey=True)
    for axis, sparsity in zip(axes, sparsities, strict=True):
        runs = grouped([row for row in endpoints if row["sparsity"] == sparsity], "architecture", "scale", "seed")
        for (architecture, scale, _), rows in sorted(runs.items()):
            rows = sorted(rows, key=lambda row: row["training_flops"])
            axis.plot(
                [row["training_flops"] for row in rows],
                [row["loss"] for row in rows],
                marker=marks[architecture],
                **looks[architecture](colour_of[scale]),
            )
        axis.set_title(sparsity)
    log_axes.compute_axis(axes, [row["training_flops"] for row in endpoints])
    for axis in axes:
        axis.set_ylabel("held-out loss (nats per token)")
    log_axes.outer(axes, 3)
    entries: list[legend.Entry | None] = [
        *legend.keys(scales, lambda scale: {"color": colour_of[scale], "linewidth": 3})
    ]
    entries += [None, *(legend.key(name, marker=marks[name], **looks[name]("0.25")) for name in names)]
    legend.finish(figure, entries, about, counted(endpoints, names))
    return figure
