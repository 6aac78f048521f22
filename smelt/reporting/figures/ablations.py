"""Figures of the ablations: held-out loss along the axis of a sweep, and its difference to the reference.

Reads results/scaling/SWEEP.parquet of each sweep and results/scaling/endpoints.parquet; writes
results/figures/SWEEP.{pdf,svg,png}. A column of panels for each cell: above the loss, below the difference; large
markers are means with their standard error over seeds, small ones single seeds.
"""

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from smelt import spec
from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting.style import colours, legend, page
from smelt.reporting.style.labels import Row, grouped, reference_first, simulation

LABELS = {
    "looped": "layers in the span",
    "span_pct": "layers in the span (%)",
    "layers": "physical layers",
    "executed_layers": "executed layers",
    "visits": "visits to the span",
}
NUDGE = 0.1  # of the distance of two points, by which the single seeds stand beside their mean
BARS: dict[str, Any] = {"capsize": 2.5, "elinewidth": 1.0, "fmt": "none"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The study and the axis of each of its sweeps."""

    study: str
    reference: str
    axes: Mapping[str, str]


def draw(rows: Sequence[Row], endpoints: Sequence[Row], axis: str, settings: Settings) -> Figure:
    """One sweep; `axis` is the column that its points differ in."""
    lines = reference_first([row["line"] for row in rows], settings.reference)
    looks = colours.architecture_style(lines, settings.reference)
    colour_of = colours.by_label(lines)
    cells = grouped(rows, "scale", "sparsity")
    losses = _last_losses(endpoints)
    figure, axes = page.panels(2 * len(cells), columns=len(cells), sharex="col")
    for place, (cell, inside) in enumerate(cells.items()):
        above, below = axes[place], axes[place + len(cells)]
        for line, points in grouped([row for row in inside if row["loss"] is not None], "line").items():
            points.sort(key=lambda row: row[axis])
            look = looks[line](colour_of[line])
            shift = NUDGE * (lines.index(line) + 1) * _step(inside, axis)
            _curve(above, points, axis, "loss", look, shift, losses)
            _curve(below, points, axis, "difference", look, shift, losses)
        above.set(title="-".join(cell), ylabel="loss (nats per token)")
        below.set(xlabel=LABELS[axis], ylabel="minus the reference's")
        below.axhline(0, color="0.5", linewidth=0.8, zorder=1)
        ticks = sorted({row[axis] for row in inside if row[axis] is not None})
        below.xaxis.set_major_locator(FixedLocator(ticks))
        below.xaxis.set_minor_locator(NullLocator())
        below.set_xticklabels([f"{tick:.3g}" for tick in ticks])
    entries = [legend.key(line.replace("_", " "), marker="o", **looks[line](colour_of[line])) for line in lines]
    entries.append(legend.key("single seed", marker="o", markersize=2.5, color="0.5", linestyle="none"))
    entries.append(legend.key("resolved", marker="o", ms=9, mfc="none", mec="0.3", linestyle="none"))
    simulated = simulation(endpoints)
    legend.legend(figure, entries, title=simulated)
    legend.footer(figure, simulated, f"study {settings.study}", *_footer(rows))
    return figure


def _last_losses(endpoints: Sequence[Row]) -> dict[tuple[str, str, str], dict[int, float]]:
    """Loss of each run's last endpoint, by (architecture, scale, sparsity) and seed."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in sorted(endpoints, key=lambda row: row["branch_step"]):
        found.setdefault((row["architecture"], row["scale"], row["sparsity"]), {})[row["seed"]] = row["loss"]
    return found


def _step(rows: Sequence[Row], axis: str) -> float:
    """The smallest distance of two points."""
    places = sorted({row[axis] for row in rows if row[axis] is not None})
    return min((b - a for a, b in itertools.pairwise(places)), default=1.0)


def _curve(
    panel: Axes,
    points: Sequence[Row],
    axis: str,
    column: str,
    look: Mapping[str, Any],
    shift: float,
    losses: Mapping[tuple[str, str, str], Mapping[int, float]],
) -> None:
    """Means joined by a line, their errors, the single seeds beside them, and a ring where a difference is resolved."""
    shown = [row for row in points if row[column] is not None]
    panel.plot([row[axis] for row in shown], [row[column] for row in shown], marker="o", **look)
    barred = [row for row in shown if row[f"{column}_se"]]
    panel.errorbar(
        [row[axis] for row in barred],
        [row[column] for row in barred],
        [row[f"{column}_se"] for row in barred],
        color=look["color"],
        **BARS,
    )
    for row in shown:
        values = _single(row, column, losses)
        if len(values) > 1:
            panel.plot([row[axis] + shift] * len(values), values, "o", ms=2.5, color=look["color"], alpha=0.5, mew=0)
        if column == "difference" and row["resolved"]:
            panel.plot(row[axis], row[column], "o", ms=9, mfc="none", mec=look["color"])


def _single(row: Row, column: str, losses: Mapping[tuple[str, str, str], Mapping[int, float]]) -> list[float]:
    """The values of single seeds behind a mean; none of the reference's difference to itself."""
    cell = (row["scale"], row["sparsity"])
    mine, theirs = (losses.get((name, *cell), {}) for name in (row["architecture"], row["reference"]))
    if column == "loss":
        return [mine[seed] for seed in sorted(mine)]
    if row["architecture"] == row["reference"]:
        return []
    return [mine[seed] - theirs[seed] for seed in sorted(mine) if seed in theirs]


def _footer(rows: Sequence[Row]) -> list[str]:
    shown = [row for row in rows if row["loss"] is not None]
    tokens = " and ".join(f"{count:,}" for count in sorted({row["tokens"] for row in shown}))
    seeds = ", ".join(str(count) for count in sorted({row["seeds"] for row in shown}))
    references = dict.fromkeys(f"{row['reference']} ({row['line'].replace('_', ' ')})" for row in rows)
    worst = max(
        (abs(row[name] - 1) for row in shown for name in ("flops_ratio", "params_ratio", "kv_ratio") if row[name]),
        default=0.0,
    )
    return [
        f"endpoints of {tokens} tokens" if tokens else "no endpoint",
        f"seeds a point: {seeds}",
        f"reference: {', '.join(references)}",
        f"budgets within {100 * worst:.1f} % of it",
        "bars: one standard error over seeds; resolved: beyond the 95 % interval of the paired difference",
    ]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="study, reference and the axis of each sweep, as JSON")
    parser.add_argument("--endpoints", required=True, type=Path)
    parser.add_argument("--sweeps", required=True, nargs="+", type=Path, help="SWEEP.parquet of each sweep")
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="SWEEP.pdf, .svg or .png of each sweep")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    endpoints = read_table(arguments.endpoints).to_pylist()
    known = {path.stem: path for path in arguments.sweeps}
    wanted = page.by_figure(arguments.out, [name for name in settings.axes if name in known])
    for name, paths in wanted.items():
        page.save(draw(read_table(known[name]).to_pylist(), endpoints, settings.axes[name], settings), paths)


if __name__ == "__main__":
    command(main)
