"""Scores of an endpoint over tasks and evaluation seeds: the rows at each task's own number of shots, by seed.

A task without drawn demonstrations is scored once, and its row stands in every seed.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smelt import tables
from smelt.errors import UserError
from smelt.evaluation.metrics import item_metrics
from smelt.evaluation.metrics.task_scores import ENDPOINT
from smelt.evaluation.tasks.registry import Task
from smelt.statistics import FEW_SEEDS, centred, standard_error

Row = Mapping[str, Any]
KEYS = tuple(field.name for field in ENDPOINT)
SCORED = ("task", "shots", "evaluation_seed", "items")  # what the endpoints of an evaluation set have in common


class Estimate(NamedTuple):
    """A mean over evaluation seeds; `seeds` is 0 where none of the tasks draws demonstrations."""

    value: float
    error: float | None  # standard error; none for fewer than two seeds
    seeds: int


class Prompts(NamedTuple):
    """What prompts hold: files may have fewer rows than demonstrations are asked for, and long contexts are cut."""

    truncated_share: float  # of items whose context was cut
    mean_demonstrations: float  # uncut ones


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """One part of an endpoint's scores; `tasks` maps a task to its rows at its own shots, by evaluation seed."""

    keys: dict[str, Any]  # of KEYS
    tasks: dict[str, dict[int | None, Row]]
    others: tuple[str, ...]  # tasks that were scored, but with other numbers of shots

    @property
    def seeds(self) -> int:
        """Evaluation seeds of the tasks that draw demonstrations."""
        return len({seed for rows in self.tasks.values() for seed in rows} - {None})

    def runs(self, names: Iterable[str]) -> list[dict[str, Row]]:
        """The rows of some tasks, all scored, once for each evaluation seed, those without one in each."""
        chosen = {name: self.tasks[name] for name in names}
        drawn = sorted({seed for rows in chosen.values() for seed in rows if seed is not None})
        seeds: list[int | None] = [*drawn] or [None]
        return [{name: rows[seed] if seed in rows else rows[None] for name, rows in chosen.items()} for seed in seeds]

    def estimate(self, names: Sequence[str], value: Callable[[Mapping[str, Row]], float]) -> Estimate:
        """`value` of the rows of each seed, averaged over seeds."""
        runs = self.runs(names)
        values = np.array([value(rows) for rows in runs], dtype=np.float64)
        drawn = any(seed is not None for name in names for seed in self.tasks[name])
        return Estimate(float(values.mean()), standard_error(values), len(runs) if drawn else 0)


def mean_of(column: str) -> Callable[[Mapping[str, Row]], float]:
    """The unweighted mean of a column over tasks."""
    return lambda rows: float(np.mean([row[column] for row in rows.values()]))


def centred_mean(tasks: Mapping[str, Task], baselines: str) -> Callable[[Mapping[str, Row]], float]:
    """The unweighted mean of the tasks' centred scores, under the chance levels "v1" or "v2"."""
    return lambda rows: mean_centred({name: row["score"] for name, row in rows.items()}, tasks, baselines)


def mean_centred(scores: Mapping[str, float], tasks: Mapping[str, Task], baselines: str) -> float:
    """Unweighted mean over the given scores, fractions by task, after centring (Eq. 11)."""
    chances = {name: item_metrics.chance(tasks[name], baselines) for name in scores}
    return float(np.mean([centred(score, chances[name]) for name, score in scores.items()]))


def items(endpoint: Endpoint, names: Iterable[str]) -> int:
    """Items of some tasks together, each counted once."""
    return sum(next(iter(endpoint.tasks[name].values()))["items"] for name in names)


def partial(endpoint: Endpoint, tasks: Mapping[str, Task], names: Iterable[str]) -> list[str]:
    """Of a full evaluation, the tasks whose file holds only a part of the published one."""
    if endpoint.keys["preset"] != "full":
        return []
    scored = {name: items(endpoint, [name]) for name in names}
    return [f"{name} over {n} of {tasks[name].items} items" for name, n in scored.items() if n < tasks[name].items]


def cut(endpoint: Endpoint, names: Iterable[str]) -> list[str]:
    """Those of some tasks whose prompts lack demonstrations or were cut, and by how much."""
    rows = {name: list(endpoint.tasks[name].values()) for name in names}
    means = {name: prompts({key: [row[key] for row in own] for key in Prompts._fields}) for name, own in rows.items()}
    return [f"{name} {note}" for name, own in rows.items() for note in prompt_note(own[0]["shots"], means[name])]


def prompts(columns: Mapping[str, Sequence[float] | NDArray[np.float64]]) -> Prompts:
    """Mean over rows of one number of shots, from the columns named as the fields of Prompts, each (rows,)."""
    return Prompts(*(float(np.mean(columns[name])) for name in Prompts._fields))


def prompt_note(shots: int, found: Prompts) -> list[str]:
    """What prompts lack of the demonstrations asked for, in words; nothing where they hold all and were not cut."""
    if not found.truncated_share and found.mean_demonstrations > shots - item_metrics.TIE:
        return []
    after = f", {found.mean_demonstrations:.4g} demonstrations on average" if shots else ""
    return [f"at {shots} shots {100 * found.truncated_share:.3g} % of items cut{after}"]


def error_note(seeds: int) -> list[str]:
    """What the number of evaluation seeds says of a standard error, in words; nothing where they are enough."""
    if seeds >= FEW_SEEDS:
        return []
    if seeds > 1:
        return [f"the standard error rests on {seeds} evaluation seeds"]
    return [f"no standard error: {'one evaluation seed' if seeds else 'no task draws demonstrations'}"]


def collect(scores: pd.DataFrame, tasks: Mapping[str, Task]) -> list[Endpoint]:
    """The endpoints of a table of task scores (TASK_SCORES), in its order.

    Raises UserError where endpoints of one evaluation set differ in tasks, shots, seeds or items, since means over
    different things cannot be compared, and where tasks of an endpoint have different seeds.
    """
    check_alike(scores)
    endpoint = scores.groupby(list(KEYS), sort=False).ngroup()
    listed = scores["task"].isin(list(tasks))
    own = listed & (scores["shots"] == scores["task"].map({name: task.shots for name, task in tasks.items()}))
    rows = np.array(tables.rows(scores[own]), dtype=object)  # all in one go: a call for each endpoint takes far longer
    by_task = [dict[str, dict[int | None, Row]]() for _ in range(endpoint.nunique())]
    groups: Mapping[Any, Any] = scores[own].groupby([endpoint[own], "task"], sort=False).indices
    for (number, name), positions in groups.items():
        by_task[number][name] = {row["evaluation_seed"]: row for row in rows[positions]}
    scored = scores.loc[listed, "task"].groupby(endpoint[listed]).unique()
    return [
        Endpoint(
            keys,
            {name: by_task[number][name] for name in tasks if name in by_task[number]},
            tuple(name for name in scored.get(number, ()) if name not in by_task[number]),
        )
        for number, keys in enumerate(tables.rows(scores[list(KEYS)].drop_duplicates()))
    ]


def check_alike(scores: pd.DataFrame) -> None:
    """Raise UserError unless the endpoints of each evaluation set have the same tasks, shots, seeds and items."""
    if not _are_alike(scores):
        raise UserError(_first_difference(scores))
    _check_seeds(scores[scores["evaluation_seed"].notna()])


def _are_alike(scores: pd.DataFrame) -> bool:
    """Whether all that is scored at one endpoint of an evaluation set is scored at each of them."""
    endpoint = scores.groupby(list(KEYS), sort=False).ngroup()
    scored = scores.groupby(["part", *SCORED], sort=False, dropna=False).ngroup()
    pairs = pd.DataFrame({"part": scores["part"], "endpoint": endpoint, "scored": scored}).drop_duplicates()
    of_part = pairs.groupby("part")["endpoint"].transform("nunique")
    return bool((pairs.groupby("scored")["endpoint"].transform("nunique") == of_part).all())


def _first_difference(scores: pd.DataFrame) -> str:
    """The message about the first endpoint that is scored on other things than the first of its evaluation set."""
    first: dict[str, tuple[Sequence[Any], set[tuple[Any, ...]]]] = {}
    for keys, rows in scores.groupby(list(KEYS), sort=False):
        scored = set(_plain(rows, SCORED).itertuples(index=False, name=None))
        other, expected = first.setdefault(rows["part"].iloc[0], (keys, scored))
        if scored != expected:
            task, shots, seed, count = min(scored ^ expected, key=str)
            return (
                f"task scores, part {rows['part'].iloc[0]}: {task} with {shots} shots, evaluation seed {seed} and "
                f"{count} items is scored at only one of {_named(other)} and {_named(keys)}; run the evaluation of "
                "both again"
            )
    raise ValueError("all endpoints are scored alike")


def _check_seeds(drawn: pd.DataFrame) -> None:
    """Raise UserError unless all tasks and shots of an evaluation set that draw demonstrations have the same seeds."""
    distinct = drawn[["part", "task", "shots", "evaluation_seed"]].drop_duplicates()
    grouped = distinct.groupby(["part", "task", "shots"], sort=False)["evaluation_seed"]
    seeds_of: Mapping[Any, list[int]] = grouped.agg(sorted).to_dict()
    first: dict[str, tuple[str, list[int]]] = {}
    for (part, task, _), seeds in seeds_of.items():
        other, expected = first.setdefault(part, (task, seeds))
        if seeds != expected:
            raise UserError(
                f"task scores, part {part}: {other} has the evaluation seeds {expected} and {task} {seeds}; score all "
                "tasks with the same seeds"
            )


def _plain(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Columns as plain Python values, missing ones as None."""
    chosen = scores[list(columns)].astype(object)
    return chosen.where(chosen.notna(), None)


def _named(keys: Sequence[Any]) -> str:
    about = dict(zip(KEYS, keys, strict=True))
    return f"{about['architecture']}-{about['scale']}-{about['sparsity']}-{about['seed']} branch {about['branch']}"
