"""Figure: score against the number of demonstrations: on average, without Dyck, Dyck alone, and a panel for each task.

Reads results/evaluation/{sweep,icl}.parquet; writes results/figures/icl.{pdf,svg,png}. Over each panel stands the
difference to the reference at most demonstrations and how likely it is by chance. Dyck languages stand apart: their
answers can be copied in part from the prompt, and a large gain on them alone would carry the average.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from smelt.artifacts import read_provenance
from smelt.errors import command
from smelt.reporting.figures.command import read_figure_job, read_frames
from smelt.reporting.figures.downstream.icl_words import AVERAGES, averages, caption, titled, verdicts
from smelt.reporting.style import colours, legend, messages, page, panels
from smelt.reporting.style.labels import groups, reference_first
from smelt.tables import numbers

MODULE = "smelt.reporting.figures.downstream.icl"

BARS: dict[str, Any] = {"capsize": 1.8, "elinewidth": 0.9, "fmt": "none"}
NUDGE = 0.07  # between architectures, in distances of 1 and 2 demonstrations, so that bars do not hide each other
ABOVE, BELOW = 1.6, 1.05  # inches: of the panels of averages, and of those of tasks
TICKS, LINE, SMALL = 0.3, 0.155, 0.118  # inches: numbers below a panel, a line of its title, and one of the tests
MANY = 9  # tasks beyond which four panels stand beside each other, and not three
LETTERS = 96  # of the tests' size across the page
LEAST = 2.0  # points: range of an axis below which it would show nothing but rounding
CLOSE = 0.6  # distance of two numbers of demonstrations below which only one is named
Head = tuple[str, list[str]]  # a panel's title, and what the tests say in lines


def draw(
    sweep: pd.DataFrame, icl: pd.DataFrame, study: str, reference: str, asked: Mapping[str, str] | None = None
) -> Figure:
    """Averages and Dyck languages above, the other tasks below.

    `asked` may hold the preset and the sampler of the scores.
    """
    names = reference_first(sweep["architecture"], reference)
    scored = sweep[sweep["score"].notna()]
    curves = dict(groups(scored, "task"))
    apart = [*averages(curves), *(task for task in curves if "dyck" in task)]
    others = [task for task in curves if task not in (*AVERAGES, *apart)]
    if not curves:
        return _nothing(sweep, study, asked or {})
    columns = 4 if len(others) > MANY or len(apart) > 3 else 3
    heads = {task: _head(task, curves[task], icl, LETTERS // columns) for task in curves}
    plan = [(part, ABOVE) for part in _wrapped(apart, columns)] + [(part, BELOW) for part in _wrapped(others, columns)]
    heights = [panels.Band(len(part), height + _above(part, heads)) for part, height in plan]
    figure, grid = panels.draw(heights, columns)
    dotted = False
    for (part, _), axes in zip(plan, grid, strict=True):
        most = max(len(heads[task][1]) for task in part)
        for axis, task in zip(axes, part, strict=True):
            _title(axis, *heads[task], most)
            dotted |= _panel(axis, curves[task], names, reference)
        axes[0].set_ylabel("score (%)")
    _demonstrations(grid, sorted(set(scored["shots"])))
    looks, colour_of = colours.architecture_style(names, reference), colours.by_label(names)
    entries = [legend.key(name, marker="o", **looks[name](colour_of[name])) for name in names]
    legend.legend(figure, [*entries, *([legend.key("chance", **panels.CHANCE)] if dotted else [])])
    legend.footer(figure, f"study {study}", *caption(sweep, icl, asked or {}))
    return figure


def _wrapped(labels: Sequence[str], length: int) -> list[Sequence[str]]:
    return [labels[start : start + length] for start in range(0, len(labels), length)]


def _nothing(sweep: pd.DataFrame, study: str, asked: Mapping[str, str]) -> Figure:
    """A figure that says why there is no curve."""
    why = sweep[sweep["reason"].notna()]
    reasons = (why["task"] + ": " + why["reason"]).unique()
    figure, axes = page.panels(1, height=1.2 + 0.18 * len(reasons))
    messages.message(axes[0], "\n".join(["no score of the in-context sweep", *reasons]), 100)
    legend.footer(figure, f"study {study}", *caption(sweep, sweep.head(0), asked))
    return figure


def _head(task: str, curve: pd.DataFrame, icl: pd.DataFrame, width: int) -> Head:
    """What stands over a panel of about `width` small letters."""
    title = messages.wrapped(titled(task, curve), int(0.8 * width), 2)
    return title, verdicts(icl[icl["task"] == task], curve, width)


def _above(tasks: Sequence[str], heads: Mapping[str, Head]) -> float:
    """Inches above and below the panels of a band."""
    titles = max(heads[task][0].count("\n") + 1 for task in tasks)
    return TICKS + LINE * titles + SMALL * max(len(heads[task][1]) for task in tasks)


def _title(axis: Axes, title: str, lines: Sequence[str], most: int) -> None:
    """A panel's name, at one height in its band, and below that what the tests say."""
    axis.set_title(title, pad=6 + 8.4 * most, fontsize=8.5)
    said = "\n".join(lines)
    look: dict[str, Any] = {"fontsize": 6.5, "color": "0.2", "ha": "center", "va": "bottom"}
    axis.annotate(said, (0.5, 1), (0, 3), xycoords="axes fraction", textcoords="offset points", **look)


def _panel(axis: Axes, rows: pd.DataFrame, names: Sequence[str], reference: str) -> bool:
    """The curves of one task. Whether the chance level shows."""
    looks, colour_of = colours.architecture_style(names, reference), colours.by_label(names)
    for place, name in enumerate(names):
        curve = rows[rows["architecture"] == name].sort_values("shots", kind="stable")
        across = [position(shots) + NUDGE * (place - (len(names) - 1) / 2) for shots in curve["shots"]]
        scores = 100 * numbers(curve, "score")
        axis.plot(across, scores, marker="o", markersize=3.5, **looks[name](colour_of[name]))
        errors = 100 * np.nan_to_num(numbers(curve, "score_se"))
        if errors.any():
            axis.errorbar(across, scores, errors, ecolor=colour_of[name], **BARS)
    ends = panels.limits([axis], LEAST)
    axis.set_ylim(*ends)
    axis.yaxis.set_major_locator(MaxNLocator(4))
    levels = {100 * level for level in rows["chance"].dropna() if level}
    shown = [level for level in levels if ends[0] <= level <= ends[1]]
    for level in shown:
        axis.axhline(level, **panels.CHANCE)
    return bool(shown)


def position(shots: int) -> float:
    """Where a number of demonstrations stands: 0, 1, 2, 4, 8 … at equal distances."""
    return math.log2(shots) + 1 if shots else 0.0


def _demonstrations(grid: Sequence[Sequence[Axes]], shots: Sequence[int]) -> None:
    """The same axis of demonstrations below all panels, named below the last of each band."""
    named: list[int] = []
    for count in shots:
        if not named or position(count) - position(named[-1]) >= CLOSE:
            named.append(count)
    below = panels.lowest(grid)
    ends = position(shots[0]) - 0.3, position(shots[-1]) + 0.3
    for axes in grid:
        for axis in axes:
            axis.set(xlim=ends, xlabel="demonstrations" if axis in below else "")
            axis.xaxis.set_major_locator(FixedLocator([position(count) for count in named]))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticklabels([str(count) for count in named])


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ["sweep", "icl"])
    read = read_frames(job)
    scoring = read_provenance(job.path("sweep"))["spec"]
    asked = {name: scoring[key]["last_endpoint"] for name, key in (("preset", "presets"), ("sampler", "sampler"))}
    page.save(draw(read["sweep"], read["icl"], job.settings.study, job.settings.reference, asked), job.paths("out"))


if __name__ == "__main__":
    command(main)
