"""Figure: held-out loss against learning rate, a panel for each cell of a tuning study.

Reads results/scaling/learning_rate.parquet; writes results/figures/learning_rate.{pdf,svg,png}.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting.style import colours, legend, log_axes, page
from smelt.reporting.style.labels import Row, architectures, grouped


def draw(rows: Sequence[Row], study: str, reference: str) -> Figure:
    """Line style says the architecture; a ring marks the best rate of each."""
    names = architectures(rows, reference)
    looks, colour_of = colours.architecture_style(names, reference), colours.by_label(names)
    cells = grouped(rows, "scale", "sparsity")
    columns = 2 if len(cells) in (2, 4) else 3
    figure, axes = page.panels(len(cells), columns=columns, sharex=True, sharey=True)
    rates = [row["learning_rate"] for row in rows]
    for axis, (cell, inside) in zip(axes, cells.items(), strict=True):
        for name, curve in grouped(inside, "architecture").items():
            curve.sort(key=lambda row: row["learning_rate"])
            points = [[row[column] for row in curve] for column in ("learning_rate", "loss")]
            axis.plot(*points, marker="o", **looks[name](colour_of[name]))
            best = next(row for row in curve if row["best"])
            axis.plot(best["learning_rate"], best["loss"], "o", ms=9, mfc="none", mec=colour_of[name])
        axis.set(
            xscale="log", title="-".join(cell), xlabel="peak learning rate", ylabel="held-out loss (nats per token)"
        )
        axis.margins(y=0.2)
        axis.text(
            0.5, 0.98, _differences(inside, reference), transform=axis.transAxes, ha="center", va="top", fontsize=6.5
        )
    for axis in axes:
        log_axes.plain_log(axis.xaxis, min(rates) / 1.2, max(rates) * 1.2)
        axis.label_outer()
    entries = [legend.key(name, marker="o", **looks[name](colour_of[name])) for name in names]
    entries.append(legend.key("best rate", marker="o", ms=9, mfc="none", mec="0.3", linestyle="none"))
    legend.legend(figure, entries)
    tokens = " and ".join(f"{count:,}" for count in sorted({row["tokens"] for row in rows}))
    seeds = ", ".join(str(count) for count in sorted({row["seeds"] for row in rows}))
    legend.footer(figure, f"study {study}", f"{len(rows)} endpoints of {tokens} tokens", f"seeds a point: {seeds}")
    return figure


def _differences(rows: Sequence[Row], reference: str) -> str:
    """The comparison with the reference under both rules, two lines for each other architecture."""
    first = {row["architecture"]: row for row in reversed(rows) if row["architecture"] != reference}
    return "\n".join(
        f"{name} − {reference}: {row['difference_own_rate']:+.3f} at own rates,\n"
        f"{row['difference_shared_rate']:+.3f} at {reference}'s best"
        for name, row in sorted(first.items())
    ).replace("-", "−")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    parser.add_argument("--rates", required=True, type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="files to write, .pdf, .svg or .png")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec)
    rows = read_table(arguments.rates).to_pylist()
    page.save(draw(rows, settings["study"], settings["reference"]), arguments.out)


if __name__ == "__main__":
    command(main)
