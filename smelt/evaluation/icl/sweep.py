"""Scores against the number of demonstrations, at the last branch of each run, and their averages over tasks.

The averages are over all tasks of the sweep that were scored, and only at numbers of shots that all of them have: an
average over other tasks at each number would not be a curve.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt import tables
from smelt.artifacts import field
from smelt.errors import UserError
from smelt.evaluation.metrics import aggregation, item_metrics
from smelt.evaluation.tasks.registry import Task
from smelt.labels import RUN_KEYS
from smelt.statistics import standard_error

AVERAGE, WITHOUT_DYCK = "average", "average without Dyck"
PART = "last_endpoint"
Array = NDArray[np.float64]
Cell = tuple[str, str]  # scale, sparsity
Run = tuple[str, str, str, int]  # architecture, scale, sparsity, seed of the training
Columns = Mapping[str, Array]  # CURVE_COLUMNS of one run, task and number of shots, each (evaluation seeds,)
CURVE_COLUMNS = ("evaluation_seed", "score", *aggregation.Prompts._fields)
SWEEP = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("task", pa.string(), "task, or an average over the tasks of the sweep"),
        field("shots", pa.int32(), "demonstrations asked for"),
        field("score", pa.float64(), "share of right items: mean over training seeds, cells and evaluation seeds"),
        field("score_se", pa.float64(), "its standard error over evaluation seeds"),
        field("chance", pa.float64(), "score of a random answer (second set of chance levels)"),
        field("tasks", pa.int32(), "tasks averaged; 1 for a task"),
        field("cells", pa.int32(), "cells (scale x sparsity) averaged: those that every architecture has"),
        field("evaluation_seeds", pa.int32(), "seeds of the demonstrations; 0 without any"),
        field("truncated_share", pa.float64(), "share of the items whose context was cut, mean over tasks"),
        field(
            "mean_demonstrations", pa.float64(), "demonstrations that a prompt holds uncut, mean over items and tasks"
        ),
        field("reason", pa.string(), "why a value is missing, and what it rests on"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Curve:
    """One run's scores of a task or an average, by shots: over evaluation seeds in rising order, (seeds,)."""

    scores: dict[int, Array]  # (1,) where no demonstrations are drawn
    seeds: dict[int, int]  # evaluation seeds; 0 where none are drawn
    prompts: dict[int, aggregation.Prompts]

    def note(self, shots: int) -> list[str]:
        """What the prompts lack of the demonstrations, in words."""
        return aggregation.prompt_note(shots, self.prompts[shots])


@dataclasses.dataclass(frozen=True)
class Member:
    """A task of the sweep, or the average of several."""

    name: str
    tasks: tuple[str, ...]  # scored ones
    named: int  # tasks of the study that belong to it
    chance: float  # mean over the tasks, second set

    @property
    def averages(self) -> bool:
        return self.name in (AVERAGE, WITHOUT_DYCK)


def members(tasks: Mapping[str, Task], scores: pd.DataFrame) -> list[Member]:
    """The two averages and the tasks of the sweep, in the order of the study."""
    named = [name for name, task in tasks.items() if task.sweep_shots > 0]
    scored = set(scores["task"])
    groups = {AVERAGE: named, WITHOUT_DYCK: [name for name in named if "dyck" not in name]}
    groups |= {name: [name] for name in named}
    listed = []
    for name, group in groups.items():
        with_scores = tuple(task_name for task_name in group if task_name in scored)
        chance = float(np.mean([tasks[task_name].chance_v2 for task_name in with_scores])) if with_scores else 0.0
        listed.append(Member(name, with_scores, len(group), chance))
    return listed


def last_scores(scores: pd.DataFrame, tasks: Mapping[str, Task], shots: Sequence[int]) -> pd.DataFrame:
    """Scores of the last endpoints at the given shots (none = any), up to each task's most in the sweep.

    Raises UserError where a run has several endpoints in it, or where endpoints were not scored alike.
    """
    last = scores[scores["part"] == PART]
    aggregation.check_alike(last)
    branches = last.groupby(list(RUN_KEYS), sort=False)["branch"].unique()
    if len(several := branches[branches.map(len) > 1]):
        first, second, *_ = several.iloc[0]
        raise UserError(
            f"task scores: the part {PART} of {'-'.join(map(str, several.index[0]))} has the branches {first} and "
            f"{second}; it is for the last one only"
        )
    most = {name: task.sweep_shots for name, task in tasks.items() if task.sweep_shots > 0}
    swept = last[last["task"].isin(list(most)) & (last["shots"].isin(list(shots)) if shots else True)]
    return swept[swept["shots"] <= np.array([most[name] for name in swept["task"]], dtype=np.int64)]


def curves(scores: pd.DataFrame, members: Sequence[Member]) -> dict[Run, dict[str, Curve]]:
    """The curves of each run, of tasks and averages, by name."""
    seeds = scores["evaluation_seed"].fillna(item_metrics.ZERO_SHOT)
    ordered = scores.assign(evaluation_seed=seeds).sort_values("evaluation_seed", kind="stable")
    columns = {name: tables.numbers(ordered, name) for name in CURVE_COLUMNS}
    by_run: dict[Run, dict[str, dict[int, Columns]]] = {
        run: {} for run in scores[list(RUN_KEYS)].drop_duplicates().itertuples(index=False, name=None)
    }
    groups: Mapping[Any, Any] = ordered.groupby([*RUN_KEYS, "task", "shots"], sort=False).indices
    for (*run, task, shots), positions in groups.items():
        part = {name: values[positions] for name, values in columns.items()}
        by_run[run[0], run[1], run[2], run[3]].setdefault(task, {})[int(shots)] = part
    return {
        run: {member.name: _curve([by_task[name] for name in member.tasks]) for member in members if member.tasks}
        for run, by_task in by_run.items()
    }


def _curve(tasks: Sequence[Mapping[int, Columns]]) -> Curve:
    """Mean over tasks at the shots that all of them have, seed by seed; the rows are sorted by evaluation seed."""
    shared = sorted(set.intersection(*(set(by_shots) for by_shots in tasks)))
    scores, seeds, prompts = {}, {}, {}
    for shots in shared:
        parts = [by_shots[shots] for by_shots in tasks]
        # Where some tasks draw demonstrations and others do not, the one value of the latter stands in each seed.
        scores[shots] = np.mean(np.stack(np.broadcast_arrays(*(part["score"] for part in parts))), axis=0)
        drawn = {seed for part in parts for seed in part["evaluation_seed"].tolist()} - {item_metrics.ZERO_SHOT}
        seeds[shots] = len(drawn)
        fields = aggregation.Prompts._fields
        prompts[shots] = aggregation.prompts({name: np.concatenate([part[name] for part in parts]) for name in fields})
    return Curve(scores, seeds, prompts)


def cell_mean(by_run: Mapping[Run, Array], architecture: str, cells: Sequence[Cell]) -> Array:
    """Mean over the training seeds of a cell, then over cells, by evaluation seed, (seeds,)."""
    return np.mean([cell_scores(by_run, architecture, cell) for cell in cells], axis=0)


def cell_scores(by_run: Mapping[Run, Array], architecture: str, cell: Cell) -> Array:
    """Mean over the training seeds of a cell, by evaluation seed, (seeds,)."""
    return np.mean([values for run, values in by_run.items() if run[:3] == (architecture, *cell)], axis=0)


def cells_of(by_run: Mapping[Run, Any], architecture: str) -> list[Cell]:
    """The cells that an architecture has, in the order of the runs."""
    return list(dict.fromkeys((run[1], run[2]) for run in by_run if run[0] == architecture))


def sweep_rows(
    by_run: Mapping[Run, Mapping[str, Curve]], members: Sequence[Member], architectures: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows by architecture, member and shots."""
    shared = set.intersection(*(set(cells_of(by_run, name)) for name in architectures))
    cells = [cell for cell in cells_of(by_run, architectures[0]) if cell in shared]
    shots = {member.name: _all_shots(by_run, member) for member in members}
    return [
        _row(by_run, member, architecture, cells, count)
        for architecture in architectures
        for member in members
        for count in shots[member.name]
    ]


def _all_shots(by_run: Mapping[Run, Mapping[str, Curve]], member: Member) -> list[int | None]:
    """Shots that any of a member's tasks has; a single None where there is no such task."""
    curves = next(iter(by_run.values())) if member.tasks else {}
    shots: list[int | None] = [*sorted({count for name in member.tasks for count in curves[name].scores})]
    return shots or [None]


def _row(
    by_run: Mapping[Run, Mapping[str, Curve]],
    member: Member,
    architecture: str,
    cells: Sequence[Cell],
    shots: int | None,
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SWEEP.names)
    row |= {"architecture": architecture, "task": member.name, "shots": shots, "tasks": len(member.tasks), "cells": 0}
    if shots is None:
        return row | {"reason": missing(member)}
    row["chance"] = member.chance
    curves = next(iter(by_run.values()))
    having = [name for name in member.tasks if shots in curves[name].scores]
    if len(having) < len(member.tasks):
        return row | {"reason": f"only {len(having)} of {len(member.tasks)} tasks have {shots} shots"}
    if not cells:
        return row | {"reason": "no cell has an endpoint of every architecture"}
    values = cell_mean({run: known[member.name].scores[shots] for run, known in by_run.items()}, architecture, cells)
    seeds = curves[member.name].seeds[shots]
    notes = partly(member) + aggregation.error_note(seeds) + curves[member.name].note(shots)
    row |= curves[member.name].prompts[shots]._asdict()
    row |= {"score": float(values.mean()), "score_se": standard_error(values), "cells": len(cells)}
    return row | {"evaluation_seeds": seeds, "reason": "; ".join(notes) or None}


def missing(member: Member) -> str:
    """Why a member without a scored task has none."""
    if member.averages:
        return f"none of {member.named} tasks was scored in the sweep" if member.named else "the sweep has no such task"
    return "not scored in the sweep"


def partly(member: Member) -> list[str]:
    """A note on an average that lacks tasks."""
    return [f"average over {len(member.tasks)} of {member.named} tasks"] if len(member.tasks) < member.named else []
