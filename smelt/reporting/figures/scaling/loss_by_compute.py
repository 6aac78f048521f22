"""Figure: held-out loss against training FLOPs, a panel for each sparsity, a line for each run."""

import pandas as pd
from matplotlib.figure import Figure

from smelt.reporting.style import colours, legend, log_axes, page
from smelt.reporting.style.labels import About, counted, groups, ordered, reference_first
from smelt.tables import numbers


def draw(endpoints: pd.DataFrame, about: About) -> Figure:
    """Colour by scale; line style, marker and its fill by architecture."""
    names = reference_first(endpoints["architecture"], about.reference)
    scales = ordered(endpoints, "scale", "flops_per_token")
    sparsities = ordered(endpoints, "sparsity", "S")
    colour_of, looks = colours.by_label(scales), colours.architecture_style(names, about.reference)
    marker_of = colours.markers(names)
    figure, axes = page.panels(len(sparsities), sharex=True, sharey=True)
    for axis, sparsity in zip(axes, sparsities, strict=True):
        inside = endpoints[endpoints["sparsity"] == sparsity]
        for (architecture, scale, _), run in groups(inside, "architecture", "scale", "seed", sort=True):
            branches = run.sort_values("training_flops", kind="stable")
            look = looks[architecture](colour_of[scale])
            compute, loss = numbers(branches, "training_flops"), numbers(branches, "loss")
            axis.plot(compute, loss, marker=marker_of[architecture], **look)
        axis.set_title(sparsity)
    log_axes.compute_axis(axes, numbers(endpoints, "training_flops"))
    for axis in axes:
        axis.set_ylabel("held-out loss (nats per token)")
    log_axes.outer(axes, 3)
    entries: list[legend.Entry | None] = []
    entries += legend.some_keys(scales, lambda scale: {"color": colour_of[scale], "linewidth": 3})
    entries += [None, *(legend.key(name, marker=marker_of[name], **looks[name]("0.25")) for name in names)]
    legend.finish(figure, entries, about, counted(endpoints, names))
    return figure
