"""Figures of the ablations: held-out loss along the axis of a sweep, and its difference to the reference.

Reads results/scaling/SWEEP.parquet of each sweep and results/scaling/endpoints.parquet; writes
results/figures/SWEEP.{pdf,svg,png}. A column of panels for each cell: above the loss, below the difference; large
markers are means with their standard error over seeds, small ones single seeds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from smelt import tables
from smelt.errors import command
from smelt.job import read_job
from smelt.reporting.figures.command import AblationFigureSettings
from smelt.reporting.style import colours, legend, page
from smelt.reporting.style.labels import Row, groups, reference_first, simulation
from smelt.tables import numbers

MODULE = "smelt.reporting.figures.ablations"

LABELS = {
    "looped": "layers in the span",
    "span_pct": "layers in the span (%)",
    "layers": "physical layers",
    "executed_layers": "executed layers",
    "visits": "visits to the span",
}
NUDGE = 0.1  # of the distance of two points, by which the single seeds stand beside their mean
BARS: dict[str, Any] = {"capsize": 2.5, "elinewidth": 1.0, "fmt": "none"}


def draw(rows: pd.DataFrame, endpoints: pd.DataFrame, axis: str, settings: AblationFigureSettings) -> Figure:
    """One sweep; `axis` is the column that its points differ in."""
    lines = reference_first(rows["line"], settings.reference)
    looks = colours.architecture_style(lines, settings.reference)
    colour_of = colours.by_label(lines)
    cells = groups(rows, "scale", "sparsity")
    last = _last_endpoints(endpoints)
    figure, axes = page.panels(2 * len(cells), columns=len(cells), sharex="col")
    for place, (cell, inside) in enumerate(cells):
        above, below = axes[place], axes[place + len(cells)]
        for line, unsorted in groups(inside[inside["loss"].notna()], "line"):
            points = unsorted.sort_values(axis, kind="stable")
            look = looks[line](colour_of[line])
            shift = NUDGE * (lines.index(line) + 1) * _step(inside, axis)
            _curve(above, points, axis, "loss", look, shift, last)
            _curve(below, points, axis, "difference", look, shift, last)
        above.set(title="-".join(cell), ylabel="loss (nats per token)")
        below.set(xlabel=LABELS[axis], ylabel="loss − reference (nats per token)")
        below.axhline(0, color="0.5", linewidth=0.8, zorder=1)
        ticks = sorted(set(inside[axis].dropna()))
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


def _last_endpoints(endpoints: pd.DataFrame) -> pd.DataFrame:
    """The last endpoint of each run."""
    by_step = endpoints.sort_values("branch_step", kind="stable")
    return by_step.drop_duplicates(["architecture", "scale", "sparsity", "seed"], keep="last")


def _step(rows: pd.DataFrame, axis: str) -> float:
    """The smallest distance of two points along the axis."""
    steps = np.diff(np.unique(numbers(rows[rows[axis].notna()], axis)))
    return float(steps.min()) if steps.size else 1.0


def _curve(
    panel: Axes,
    points: pd.DataFrame,
    axis: str,
    column: str,
    look: Mapping[str, Any],
    shift: float,
    last: pd.DataFrame,
) -> None:
    """Means joined by a line, their errors, the single seeds beside them, and a ring where a difference is resolved."""
    shown = points[points[column].notna()]
    panel.plot(numbers(shown, axis), numbers(shown, column), marker="o", **look)
    barred = shown[shown[f"{column}_se"] > 0]
    errors = numbers(barred, f"{column}_se")
    panel.errorbar(numbers(barred, axis), numbers(barred, column), errors, color=look["color"], **BARS)
    for row in tables.rows(shown):
        values = _single(row, column, last)
        if len(values) > 1:
            panel.plot([row[axis] + shift] * len(values), values, "o", ms=2.5, color=look["color"], alpha=0.5, mew=0)
        if column == "difference" and row["resolved"]:
            panel.plot(row[axis], row[column], "o", ms=9, mfc="none", mec=look["color"])


def _single(row: Row, column: str, last: pd.DataFrame) -> list[float]:
    """The values of single seeds behind a mean; none of the reference's difference to itself."""
    cell = last[(last["scale"] == row["scale"]) & (last["sparsity"] == row["sparsity"])]
    losses = cell.pivot(index="seed", columns="architecture", values="loss")
    if column == "loss":
        return losses[row["architecture"]].dropna().tolist()
    if row["architecture"] == row["reference"]:
        return []
    return (losses[row["architecture"]] - losses[row["reference"]]).dropna().tolist()


def _footer(rows: pd.DataFrame) -> list[str]:
    shown = rows[rows["loss"].notna()]
    tokens = " and ".join(f"{count:,}" for count in sorted(set(shown["tokens"])))
    seeds = ", ".join(str(count) for count in sorted(set(shown["seeds"])))
    named = zip(rows["reference"], rows["line"], strict=True)
    references = dict.fromkeys(f"{reference} ({line.replace('_', ' ')})" for reference, line in named)
    ratios = np.concatenate([numbers(shown, name) for name in ("flops_ratio", "params_ratio", "kv_ratio")])
    worst = float(np.abs(ratios[np.isfinite(ratios)] - 1).max(initial=0.0))
    return [
        f"endpoints of {tokens} tokens" if tokens else "no endpoint",
        f"seeds per point: {seeds}",
        f"reference: {', '.join(references)}",
        f"budgets within {100 * worst:.1f} % of the reference's",
        "bars: one standard error over seeds; resolved: beyond the 95 % interval of the paired difference",
    ]


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, AblationFigureSettings, ["endpoints", "sweeps*"], ["out*"])
    axes = job.settings.axes
    endpoints = tables.read(job.path("endpoints"))
    known = {path.stem: path for path in job.paths("sweeps")}
    wanted = page.by_figure(job.paths("out"), [name for name in axes if name in known])
    for name, paths in wanted.items():
        page.save(draw(tables.read(known[name]), endpoints, axes[name], job.settings), paths)


if __name__ == "__main__":
    command(main)
