"""The in-context sweep: does an architecture gain more from demonstrations than the reference?

Reads results/evaluation/task_scores.parquet and the scores of each run; writes icl.parquet and sweep.parquet. For each
task the difference at its largest number of shots is averaged over the cells in which both beat chance, and tested
over evaluation seeds by an exact sign flip: the demonstrations of a seed are the same for both, so the differences are
paired. That test knows of no other noise than that of the demonstrations, and one item may decide it; beside it stands
one over items, and a difference is resolved where both agree. What is resolved is two-sided: a loss as well as a
gain. Neither knows of the seed of the training.
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field, table
from smelt.errors import UserError, command
from smelt.evaluation.icl import sweep
from smelt.evaluation.icl.sweep import PART, SWEEP, Array, Cell, Curve, Member, Run
from smelt.evaluation.metrics import aggregation, item_metrics
from smelt.evaluation.metrics.settings import Run as ScoredRun
from smelt.evaluation.metrics.settings import Settings
from smelt.evaluation.metrics.task_scores import check_files, read_scores
from smelt.evaluation.tasks.registry import Task
from smelt.job import read_job
from smelt.statistics import holm, sign_flips, standard_error

MODULE = "smelt.evaluation.icl.comparison"
LEVEL = 0.05
EXACT_ITEMS = 12  # most items that differ of which all patterns of signs are counted
ICL = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("task", pa.string(), "task, or an average over the tasks of the sweep"),
        field("shots", pa.int32(), "the largest number of demonstrations; of an average, the largest that all have"),
        field("cells", pa.int32(), "cells (scale x sparsity) in which both beat chance, which are averaged"),
        field("evaluation_seeds", pa.int32(), "seeds of the demonstrations"),
        field("score", pa.float64(), "the architecture's share of right items: mean over training seeds, cells, seeds"),
        field("reference_score", pa.float64(), "the reference's"),
        field("difference", pa.float64(), "score minus the reference's"),
        field("difference_se", pa.float64(), "its standard error over evaluation seeds"),
        field("p_value", pa.float64(), "one-sided sign flip over evaluation seeds: the difference is positive"),
        field("p_two_sided", pa.float64(), "the same, two-sided"),
        field("patterns", pa.int32(), "patterns of signs counted"),
        field("p_holm", pa.float64(), "p_two_sided after Holm's correction over the tasks of an architecture"),
        field("item_p", pa.float64(), "two-sided sign flip over items, all their seeds and cells together"),
        field("item_p_holm", pa.float64(), "item_p after Holm's correction over the same tasks"),
        field("items", pa.int32(), "items of the task or of the tasks averaged"),
        field("training_seeds", pa.int32(), "seeds of the training that both have, the fewest of its cells"),
        field("resolved", pa.bool_(), f"whether both p_holm and item_p_holm are below {LEVEL}"),
        field("reason", pa.string(), "why a value is missing, and what it rests on"),
    ]
)
Sides = tuple[str, str]  # architecture, reference
# By run, task and shots: each item's category, and the share of the evaluation seeds in which it is right.
ItemMeans = Mapping[tuple[Run, str, int], "ItemMean"]


@dataclasses.dataclass(frozen=True)
class ItemMean:
    """Items of a task in the order of its file, all (items,)."""

    item: item_metrics.Integers
    weight: Array  # in the task's score; they sum to 1
    right: Array  # share of the evaluation seeds


def item_means(
    path: Path, run: ScoredRun, tasks: Mapping[str, Task], wanted: Collection[tuple[str, int]]
) -> dict[Any, ItemMean]:
    """Items of one run's file for each of the wanted pairs of task and number of shots."""
    means = {}
    groups = item_metrics.groups(path, run.run, PART, frozenset(name for name, _ in wanted))
    for (name, shots), of_seeds in itertools.groupby(groups, key=lambda group: (group.task, group.shots)):
        if (name, shots) not in wanted:
            continue
        by_seed = [item_metrics.items_of(group, tasks[name]) for group in of_seeds]
        if any(not np.array_equal(items.item, by_seed[0].item) for items in by_seed):
            raise UserError(f"{path}: {name} with {shots} shots has other items in other seeds; run it again")
        weight = item_metrics.weights(by_seed[0].category, tasks[name].partition)
        means[run.key, name, shots] = ItemMean(
            by_seed[0].item, weight, np.mean([items.correct for items in by_seed], axis=0)
        )
    return means


def most_shots(curve: Curve) -> int:
    """The largest number of shots of a curve."""
    return max(curve.scores)


def icl_rows(
    by_run: Mapping[Run, Mapping[str, Curve]],
    members: Sequence[Member],
    items: ItemMeans,
    architectures: Sequence[str],
    settings: Settings,
) -> list[dict[str, Any]]:
    """The rows of all architectures but the reference, by architecture, the averages before the tasks."""
    rows = []
    for name in architectures:
        if name != settings.reference:
            compared = [_row(by_run, member, items, (name, settings.reference), settings) for member in members]
            _correct(compared, members)
            rows += compared
    return rows


def _row(
    by_run: Mapping[Run, Mapping[str, Curve]], member: Member, items: ItemMeans, sides: Sides, settings: Settings
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(ICL.names)
    row |= {"architecture": sides[0], "reference": sides[1], "task": member.name, "cells": 0}
    if not member.tasks:
        return row | {"reason": sweep.missing(member)}
    runs = matched(by_run, sides)
    if not runs:
        return row | {"reason": f"no cell and training seed has both {sides[0]} and {sides[1]}"}
    curve = by_run[runs[0]][member.name]
    if not curve.scores:
        return row | {"reason": "there is no number of demonstrations that all of its tasks have"}
    shots = most_shots(curve)
    row |= {"shots": shots, "evaluation_seeds": curve.seeds[shots]}
    if not row["evaluation_seeds"]:
        return row | {"reason": f"no demonstrations are drawn with {shots} shots, so there is nothing to pair"}
    scores = {run: by_run[run][member.name].scores[shots] for run in runs}
    cells = sweep.cells_of(scores, sides[0])
    both = [cell for cell in cells if all(_beats(scores, side, cell, member.chance) for side in sides)]
    if not both:
        return row | {"reason": f"in no cell of {len(cells)} do both beat chance ({member.chance:.3g})"}
    target, reference = (sweep.cell_mean(scores, side, both) for side in sides)
    test = sign_flips(target - reference, flips=settings.flips, seed=settings.seed)
    row |= {"cells": len(both), "score": float(target.mean()), "reference_score": float(reference.mean())}
    row |= {"difference": float((target - reference).mean()), "difference_se": standard_error(target - reference)}
    row |= {"p_value": test.p, "p_two_sided": test.p_two_sided, "patterns": test.patterns}
    differences = item_differences(items, member, shots, sides, [run for run in runs if run[1:3] in both])
    by_item = sign_flips(differences, EXACT_ITEMS, settings.flips, settings.seed)
    row |= {
        "item_p": by_item.p_two_sided,
        "items": len(differences),
        "training_seeds": _training_seeds(runs, sides[0], both),
    }
    left = len(cells) - len(both)
    notes = sweep.partly(member) + aggregation.error_note(row["evaluation_seeds"])
    notes += curve.note(shots)
    notes += [f"{left} of {len(cells)} cells left out: not both beat chance ({member.chance:.3g})"] if left else []
    return row | {"reason": "; ".join(notes) or None}


def matched(by_run: Mapping[Run, Any], sides: Sides) -> list[Run]:
    """The runs of both architectures that have a partner of the same cell and training seed."""
    return [run for run in by_run if run[0] in sides and all((side, *run[1:]) in by_run for side in sides)]


def _training_seeds(runs: Sequence[Run], architecture: str, cells: Sequence[Cell]) -> int:
    """Seeds of the training behind an architecture's score, the fewest of the cells."""
    return min(sum(run[:3] == (architecture, *cell) for run in runs) for cell in cells)


def _beats(scores: Mapping[Run, Array], architecture: str, cell: Cell, chance: float) -> bool:
    """Whether the mean over seeds is above chance, by more than rounding."""
    return float(sweep.cell_scores(scores, architecture, cell).mean()) > chance + item_metrics.TIE


def item_differences(items: ItemMeans, member: Member, shots: int, sides: Sides, runs: Sequence[Run]) -> Array:
    """What each item adds to the difference of the scores, over all tasks of the member, (items,).

    Averaged over training seeds of a cell, cells and evaluation seeds, and weighted as in the score, so that the sum
    over items is the difference itself.
    """
    parts = []
    for name in member.tasks:
        first = items[runs[0], name, shots]
        if any(not np.array_equal(items[run, name, shots].item, first.item) for run in runs):
            raise UserError(f"{name}: the runs were scored on different items; run the evaluation of all again")
        right = {run: items[run, name, shots].right for run in runs}
        cells = sweep.cells_of(right, sides[0])
        target, reference = (sweep.cell_mean(right, side, cells) for side in sides)
        parts.append(first.weight * (target - reference) / len(member.tasks))
    return np.concatenate(parts)


def _correct(rows: Sequence[dict[str, Any]], members: Sequence[Member]) -> None:
    """Fill in Holm's correction over the tasks that have p-values, and say what it and the tests cannot give."""
    family = [
        row for row, member in zip(rows, members, strict=True) if not member.averages and row["p_value"] is not None
    ]
    adjusted = [holm([row[name] for row in family]) for name in ("p_two_sided", "item_p")]
    for row, seeds, items in zip(family, *adjusted, strict=True):
        row |= {"p_holm": seeds, "item_p_holm": items, "resolved": seeds < LEVEL and items < LEVEL}
    for row, member in zip(rows, members, strict=True):
        if row["p_value"] is None:
            continue
        notes = [row["reason"]] if row["reason"] else []
        notes += ["averages are not among the tests that Holm's correction is over"] if member.averages else []
        notes += _limit(row["evaluation_seeds"], 1 if member.averages else len(family)) + _disagreement(row)
        notes += ["one training seed a cell: no test knows what another would give"] * (row["training_seeds"] == 1)
        row["reason"] = "; ".join(notes) or None


def _disagreement(row: Mapping[str, Any]) -> list[str]:
    """Says so where one of the tests alone is below the level."""
    seeds, items = row["p_holm"], row["item_p_holm"]
    if seeds is None or (seeds < LEVEL) == (items < LEVEL):
        return []
    if seeds < LEVEL:
        return [f"not resolved: p_holm is below {LEVEL}, but over items it is {items:.2g}: few items decide it"]
    return [f"not resolved: item_p_holm is below {LEVEL}, but over evaluation seeds p_holm is {seeds:.2g}"]


def _limit(seeds: int, tests: int) -> list[str]:
    """Says so where even the same sign in all seeds would not be significant."""
    least = 2.0 ** (1 - seeds)
    if least * tests < LEVEL:
        return []
    has = "seed has" if seeds == 1 else "seeds have"
    text = f"{seeds} evaluation {has} {2**seeds} sign patterns: a two-sided p cannot fall below {least:g}"
    return [text + (f", nor p_holm over {tests} tasks below {min(1.0, least * tests):g}" if tests > 1 else "")]


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["task_scores", "scores*"], ["out", "sweep"])
    settings, paths = job.settings, job.paths("scores")
    check_files(settings, paths)
    tasks = settings.by_name
    last = sweep.last_scores(read_scores(job.path("task_scores")), tasks, settings.shots)
    members = sweep.members(tasks, last)
    by_run = sweep.curves(last, members)
    architectures = list(dict.fromkeys(run.architecture for run in settings.runs))
    if settings.reference not in architectures:
        raise UserError(f"the reference {settings.reference!r} has no run; known are {', '.join(architectures)}")
    items: dict[Any, ItemMean] = {}
    compared = _compared(by_run, members)
    for run, path in zip(settings.runs, paths, strict=True):
        items |= item_means(path, run, tasks, compared) if compared else {}
    job.write("out", table(icl_rows(by_run, members, items, architectures, settings), ICL))
    job.write("sweep", table(sweep.sweep_rows(by_run, members, architectures), SWEEP))


def _compared(by_run: Mapping[Run, Mapping[str, Curve]], members: Sequence[Member]) -> set[tuple[str, int]]:
    """Tasks and the numbers of shots at which their items are compared: the most of a task, and of the averages."""
    curves = next(iter(by_run.values()), {})
    return {
        (name, most_shots(curves[member.name]))
        for member in members
        for name in member.tasks
        if member.name in curves and curves[member.name].scores
    }


if __name__ == "__main__":
    command(main)
