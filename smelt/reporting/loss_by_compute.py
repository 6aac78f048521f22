"""Figure: held-out loss against training FLOPs, a panel for each sparsity, a line for each run."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from smelt.reporting import style
from smelt.reporting.rows import Row, architectures, counted, grouped, ordered


def draw(endpoints: Sequence[Row], study: str, reference: str, convention: str) -> Figure:
    """Colour by scale; line style, marker and its fill by architecture."""
    names = architectures(endpoints, reference)
    scales = ordered(endpoints, "scale", "flops_per_token")
    sparsities = ordered(endpoints, "sparsity", "S")
    colours, looks = style.colours(scales), style.architecture_style(names, reference)
    marks = style.markers(names)
    figure, axes = style.panels(len(sparsities), sharex=True, sharey=True)
    for axis, sparsity in zip(axes, sparsities, strict=True):
        runs = grouped([row for row in endpoints if row["sparsity"] == sparsity], "architecture", "scale", "seed")
        for (architecture, scale, _), rows in sorted(runs.items()):
            rows = sorted(rows, key=lambda row: row["training_flops"])
            axis.plot(
                [row["training_flops"] for row in rows],
                [row["loss"] for row in rows],
                marker=marks[architecture],
                **looks[architecture](colours[scale]),
            )
        axis.set(xscale="log", title=sparsity, xlabel="training FLOPs, C")
    axes[0].set_ylabel("held-out loss (nats per token)")
    entries = [style.key(scale, color=colours[scale], linewidth=3) for scale in scales]
    entries += [style.key(name, marker=marks[name], **looks[name]("0.25")) for name in names]
    style.legend(figure, entries)
    style.footer(figure, f"study {study}", counted(endpoints, names), f"S convention: {convention}")
    return figure
