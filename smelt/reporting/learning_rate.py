"""Figure: held-out loss against learning rate, a panel for each cell of a tuning study.

Reads results/scaling/learning_rate.parquet; writes results/figures/learning_rate.{pdf,png}.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting import style


def draw(rows: Sequence[dict], study: str, reference: str) -> Figure:
    """Line style says the architecture; a ring marks the best rate of each."""
    cells = list(dict.fromkeys((row["scale"], row["sparsity"]) for row in rows))
    names = sorted({row["architecture"] for row in rows}, key=lambda name: (name != reference, name))
    looks, colours = style.architecture_style(names, reference), style.colours(names)
    figure, axes = style.panels(len(cells), columns=2 if len(cells) in (2, 4) else 3, sharex=True)
    for axis, cell in zip(axes, cells, strict=True):
        for name in names:
            mine = [row for row in rows if (row["scale"], row["sparsity"]) == cell and row["architecture"] == name]
            rates, losses = [row["learning_rate"] for row in mine], [row["loss"] for row in mine]
            axis.plot(rates, losses, marker="o", **looks[name](colours[name]))
            best = next(row for row in mine if row["best"])
            axis.plot(best["learning_rate"], best["loss"], "o", ms=9, mfc="none", mec=colours[name])
        axis.set(
            xscale="log", title="-".join(cell), xlabel="peak learning rate", ylabel="held-out loss (nats per token)"
        )
        axis.label_outer(remove_inner_ticks=False)
        difference = next(
            (row for row in rows if (row["scale"], row["sparsity"]) == cell and row["architecture"] != reference), None
        )
        if difference is not None:
            own, shared = difference["difference_own_rate"], difference["difference_shared_rate"]
            axis.text(
                0.5,
                0.97,
                f"{difference['architecture']} − {reference}: {own:+.3f} at own rates, {shared:+.3f} at {reference}'s",
                transform=axis.transAxes,
                ha="center",
                va="top",
                fontsize=6.5,
                color="0.3",
            )
        axis.margins(y=0.18)
    low, high = min(row["learning_rate"] for row in rows), max(row["learning_rate"] for row in rows)
    for axis in axes:
        style.plain_log(axis.xaxis, low / 1.2, high * 1.2)
    entries = [style.key(name, marker="o", **looks[name](colours[name])) for name in names]
    entries.append(style.key("best rate", marker="o", ms=9, mfc="none", mec="0.3", linestyle="none"))
    style.legend(figure, entries)
    seeds = sorted({row["seeds"] for row in rows})
    style.footer(
        figure,
        f"study {study}",
        f"{len(rows)} endpoints of {rows[0]['tokens']:,} tokens",
        f"seeds a point: {', '.join(map(str, seeds))}",
        "held-out loss: mean over sources",
    )
    return figure


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    parser.add_argument("--rates", required=True, type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="files to write, .pdf or .png")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec)
    rows = read_table(arguments.rates).to_pylist()
    style.save(draw(rows, settings["study"], settings["reference"]), arguments.out)


if __name__ == "__main__":
    command(main)
