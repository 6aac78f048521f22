"""Figure: held-out loss against learning rate, a panel for each cell of a tuning study.

Reads results/scaling/learning_rate.parquet; writes results/figures/learning_rate.{pdf,svg,png}.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from smelt import tables
from smelt.errors import command
from smelt.reporting.figures.command import read_figure_job
from smelt.reporting.style import colours, legend, log_axes, page
from smelt.reporting.style.labels import groups, reference_first
from smelt.tables import numbers

MODULE = "smelt.reporting.figures.learning_rate"


def draw(rows: pd.DataFrame, study: str, reference: str) -> Figure:
    """Line style says the architecture; a ring marks the best rate of each."""
    names = reference_first(rows["architecture"], reference)
    looks, colour_of = colours.architecture_style(names, reference), colours.by_label(names)
    cells = groups(rows, "scale", "sparsity")
    columns = 2 if len(cells) in (2, 4) else 3
    figure, axes = page.panels(len(cells), columns=columns, sharex=True, sharey=True)
    rates = numbers(rows, "learning_rate")
    for axis, (cell, inside) in zip(axes, cells, strict=True):
        for name, sweep in groups(inside, "architecture"):
            curve = sweep.sort_values("learning_rate", kind="stable")
            axis.plot(
                numbers(curve, "learning_rate"), numbers(curve, "loss"), marker="o", **looks[name](colour_of[name])
            )
            best = curve[curve["best"]].iloc[0]
            axis.plot(best["learning_rate"], best["loss"], "o", ms=9, mfc="none", mec=colour_of[name])
        axis.set(
            xscale="log", title="-".join(cell), xlabel="peak learning rate", ylabel="held-out loss (nats per token)"
        )
        axis.margins(y=0.2)
        axis.text(
            0.5, 0.98, _differences(inside, reference), transform=axis.transAxes, ha="center", va="top", fontsize=6.5
        )
    for axis in axes:
        log_axes.plain_log(axis.xaxis, float(rates.min()) / 1.2, float(rates.max()) * 1.2)
        axis.label_outer()
    entries = [legend.key(name, marker="o", **looks[name](colour_of[name])) for name in names]
    entries.append(legend.key("best rate", marker="o", ms=9, mfc="none", mec="0.3", linestyle="none"))
    legend.legend(figure, entries)
    tokens = " and ".join(f"{count:,}" for count in sorted(set(rows["tokens"])))
    seeds = ", ".join(str(count) for count in sorted(set(rows["seeds"])))
    legend.footer(figure, f"study {study}", f"{len(rows)} endpoints of {tokens} tokens", f"seeds per point: {seeds}")
    return figure


def _differences(rows: pd.DataFrame, reference: str) -> str:
    """The comparison with the reference under both rules, two lines for each other architecture."""
    others = rows[rows["architecture"] != reference].drop_duplicates("architecture").sort_values("architecture")
    return "\n".join(
        f"{row['architecture']} − {reference}: {row['difference_own_rate']:+.3f} at own rates,\n"
        f"{row['difference_shared_rate']:+.3f} at {reference}'s best"
        for row in tables.rows(others)
    ).replace("-", "−")


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ["rates"])
    rates = tables.read(job.path("rates"))
    page.save(draw(rates, job.settings.study, job.settings.reference), job.paths("out"))


if __name__ == "__main__":
    command(main)
