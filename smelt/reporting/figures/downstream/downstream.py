"""Figure: Core, Completion and MMLU against training FLOPs, a band of panels for each, a panel for each sparsity.

Reads results/evaluation/{core,completion,mmlu}.parquet and results/scaling/endpoints.parquet; writes
results/figures/downstream.{pdf,svg,png}. The study's own suite stands in where no task of Core was scored, under its
own name; a band without any score says why.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smelt.errors import UserError, command
from smelt.reporting.figures.command import read_figure_job, read_frames
from smelt.reporting.figures.downstream.scores import PARTS, Shown, bands_of, chance, rested, title, words
from smelt.reporting.style import colours, legend, log_axes, messages, page, panels
from smelt.reporting.style.labels import counted, groups, ordered, reference_first, simulation
from smelt.tables import numbers, rows

MODULE = "smelt.reporting.figures.downstream.downstream"

ARTIFACTS = ("endpoints", "core", "completion", "mmlu")
KEYS = ["architecture", "scale", "sparsity", "seed", "branch_step"]  # of an endpoint
# The scores of every endpoint are a line; those of the last ones, on other items, stand over it and are not joined.
DRAWN: dict[str, dict[str, Any]] = {
    "all_endpoints": {"markersize": 3.0, "linewidth": 0.9},
    "last_endpoint": {"markersize": 5.5, "linestyle": "none", "zorder": 4},
}
BARS: dict[str, dict[str, Any]] = {
    "all_endpoints": {"elinewidth": 0.5, "fmt": "none", "alpha": 0.45},
    "last_endpoint": {"elinewidth": 1.0, "fmt": "none", "zorder": 3},
}
HEIGHT, NOTHING = 1.9, 0.45  # inches: of a band of panels, and of one without a score
MOST = 4  # panels beside each other
LEAST = 0.02  # range of an axis, in fractions or nats, below which it would show nothing but rounding


@dataclasses.dataclass(frozen=True)
class Look:
    """How runs are drawn, by their labels."""

    names: Sequence[str]  # of architectures, the reference first
    scales: Sequence[str]
    sparsities: Sequence[str]
    reference: str

    def run(self, name: str, scale: str, part: str) -> dict[str, Any]:
        """Colour by scale; line style, marker and its fill by architecture."""
        look = colours.architecture_style(self.names, self.reference)[name](colours.by_label(self.scales)[scale])
        return look | {"marker": colours.markers(self.names)[name]} | DRAWN[part]


def draw(read: Mapping[str, pd.DataFrame], study: str, reference: str) -> Figure:
    """Bands one below the other. `read` holds the table of each of ARTIFACTS.

    Raises UserError where a score belongs to none of the endpoints.
    """
    shown = [one._replace(rows=_with_compute(one.rows, read["endpoints"])) for one in bands_of(read)]
    scored = pd.concat([one.rows[KEYS] for one in shown]).drop_duplicates()
    endpoints = read["endpoints"].merge(scored, on=KEYS)
    scales, sparsities = ordered(endpoints, "scale", "flops_per_token"), ordered(endpoints, "sparsity", "S")
    look = Look(reference_first(endpoints["architecture"], reference), scales, sparsities, reference)
    columns = min(len(sparsities), MOST) or 1
    plan = [(one, part) for one in shown for part in (_wrapped(sparsities, columns) if len(one.rows) else [()])]
    figure, grid = panels.draw([_band(one, part, look) for one, part in plan], columns)
    dotted = False
    for one in shown:
        own = [axis for (other, part), axes in zip(plan, grid, strict=True) if other is one for axis in axes]
        if len(one.rows):
            dotted |= _fill(own, one, look, columns)
        else:
            messages.message(own[0], messages.wrapped(f"no {one.metric.name}: {one.missing}", 105, 3), 110)
            own[0].grid(visible=False)
    if len(endpoints):
        filled = [axes for (_, part), axes in zip(plan, grid, strict=True) if part]
        _compute(filled, numbers(endpoints, "training_flops"))
    _legend(figure, shown, endpoints, look, dotted)
    _footer(figure, shown, endpoints, look, study)
    return figure


def _with_compute(scores: pd.DataFrame, endpoints: pd.DataFrame) -> pd.DataFrame:
    """Scores with the training FLOPs of their endpoints. Raises UserError where a score belongs to none."""
    compute = endpoints[[*KEYS, "training_flops"]].drop_duplicates(KEYS, keep="last")
    placed = scores.merge(compute, on=KEYS, how="left")
    for row in rows(placed[placed["training_flops"].isna()].sort_values(KEYS).head(1)):
        run = "-".join(str(row[key]) for key in KEYS[:-1])
        raise UserError(
            f"scores of {run}, step {row[KEYS[-1]]}: not in the table of endpoints; run the evaluation again"
        )
    return placed


def _wrapped(labels: Sequence[str], columns: int) -> list[tuple[str, ...]]:
    return [tuple(labels[start : start + columns]) for start in range(0, len(labels), columns)]


def _fill(axes: Sequence[Axes], one: Shown, look: Look, columns: int) -> bool:
    """The panels of a band, with one axis of scores. Whether the chance level shows."""
    for place, (axis, sparsity) in enumerate(zip(axes, look.sparsities, strict=True)):
        axis.set_title(sparsity)
        inside = one.rows[one.rows["sparsity"] == sparsity]
        runs = groups(inside, "architecture", "scale", "seed", "part")
        # The reference last, and so on top: its open markers cover little of another's.
        for (name, scale, _, part), run in sorted(runs, key=lambda run: (-look.names.index(run[0][0]), run[0])):
            _run(axis, run, one, look.run(name, scale, part), BARS[part])
        if place:
            axis.sharey(axes[0])
        if place % columns:
            axis.tick_params(labelleft=False)
        else:
            axis.set_ylabel(one.metric.unit)
    ends = panels.limits(axes, LEAST * one.metric.factor)
    axes[0].set_ylim(*ends)
    level = chance(one)
    if level is None or not ends[0] <= level <= ends[1]:
        return False
    for axis in axes:
        axis.axhline(level, **panels.CHANCE)
    return True


def _band(one: Shown, part: Sequence[str], look: Look) -> panels.Band:
    """Room for some sparsities of a band; a heading over the first."""
    if not part:
        return panels.Band(0, NOTHING)
    return panels.Band(len(part), HEIGHT, _capital(title(one)) if part[0] == look.sparsities[0] else "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _run(axis: Axes, run: pd.DataFrame, one: Shown, look: Mapping[str, Any], bars: Mapping[str, Any]) -> None:
    """The endpoints of one run in one part."""
    placed = run.sort_values("training_flops", kind="stable")
    compute, scores = numbers(placed, "training_flops"), one.metric.factor * numbers(placed, one.metric.column)
    axis.plot(compute, scores, **look)
    errors = one.metric.factor * np.nan_to_num(numbers(placed, one.metric.error))
    if errors.any():
        axis.errorbar(compute, scores, errors, ecolor=look["color"], **bars)


def _compute(grid: Sequence[Sequence[Axes]], values: NDArray[np.float64]) -> None:
    """One axis of training FLOPs, its numbers below the lowest panel of each column."""
    every = [axis for axes in grid for axis in axes]
    log_axes.compute_axis(every, values, most=3)
    for axis in every:
        if axis not in panels.lowest(grid):
            axis.tick_params(labelbottom=False)
            axis.set_xlabel("")


def _parts(shown: Sequence[Shown]) -> list[str]:
    return [part for part in PARTS if any((one.rows["part"] == part).any() for one in shown)]


def _footer(figure: Figure, shown: Sequence[Shown], endpoints: pd.DataFrame, look: Look, study: str) -> None:
    count = counted(endpoints, look.names) if len(endpoints) else "no endpoint was scored"
    said = [*(rested(shown, part) for part in _parts(shown)), *words(shown)]
    legend.footer(figure, simulation(endpoints), f"study {study}", count, *said)


def _legend(figure: Figure, shown: Sequence[Shown], endpoints: pd.DataFrame, look: Look, dotted: bool) -> None:
    colour_of, marks = colours.by_label(look.scales), colours.markers(look.names)
    styles = colours.architecture_style(look.names, look.reference)
    entries: list[legend.Entry | None] = []
    entries += legend.some_keys(look.scales, lambda scale: {"color": colour_of[scale], "linewidth": 3})
    entries.append(None)
    if len(endpoints):
        entries += [legend.key(name, marker=marks[name], **styles[name]("0.25")) for name in look.names]
    parts = _parts(shown)
    if len(parts) > 1:
        entries += [legend.key(PARTS[part], color="0.5", marker="o", **DRAWN[part]) for part in parts]
    if dotted:
        entries.append(legend.key("chance", **panels.CHANCE))
    legend.legend(figure, entries, title=simulation(endpoints))


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ARTIFACTS)
    page.save(draw(read_frames(job), job.settings.study, job.settings.reference), job.paths("out"))


if __name__ == "__main__":
    command(main)
