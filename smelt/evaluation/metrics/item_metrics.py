"""What scored continuations say of each item of a task: the right choice or not, and the likelihood of the answer.

Everything is a group-by of the rows that `smelt.evaluation.scoring.score` writes. A multiple choice is the continuation
of the highest mean log-likelihood a token (so the lowest perplexity, as DCLM's harness chooses), a schema the context
under which the same continuation is likeliest, and a text is right where each of its tokens was the most likely one.
Where several choices are equally good the first of them is taken, and the tie is counted. Needs no torch.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from smelt.artifacts import read_table
from smelt.errors import UserError
from smelt.evaluation.tasks.registry import Task
from smelt.labels import check_run

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NUMBERS = ("branch_step", "shots", "item", "choice", "tokens", "characters", "bytes", "truncated", "dropped")
FLAGS = ("gold", "log_probability", "greedy")
COLUMNS = ("part", "branch", "task", "seed", "category", "demonstrations", *FLAGS, *NUMBERS)
RULES = ("tokens", "characters", "bytes")  # lengths by which a log-likelihood is divided; the first one counts
TIE = 1e-9  # relative; log-likelihoods nearer than that are equal: it is the rounding of a sum over tokens
ZERO_SHOT = -1  # stands for the seed of prompts without demonstrations


@dataclasses.dataclass(frozen=True)
class Group:
    """Scored continuations of one task at one endpoint, number of shots and evaluation seed, by item and choice."""

    place: str  # file, task, shots and seed, for messages
    part: str
    branch: int
    branch_step: int
    task: str
    shots: int
    seed: int | None
    columns: dict[str, NDArray[Any]]  # each (continuations,)


@dataclasses.dataclass(frozen=True)
class Items:
    """What a group says of each of its items, all (items,)."""

    item: Integers  # row in the task's file
    category: NDArray[np.str_]
    correct: Flags
    tied: Flags  # several choices were equally good
    by_sum: Flags  # correct by the other rules; of no meaning without choices
    by_characters: Flags | None  # none where a continuation has no character
    by_bytes: Flags | None
    nll: Array  # of the right continuation, nats
    tokens: Integers  # of the right continuation
    bytes: Integers
    truncated: Integers  # tokens cut from its context, the most of its choices
    dropped: Integers  # demonstrations left out, the most of its choices
    demonstrations: Integers  # in its prompt, of which nothing was cut, the fewest of its choices


def endpoint_parts(path: str | Path, run: str) -> list[tuple[str, int]]:
    """(part, branch) of all endpoints in the file of scores of `run`, sorted.

    Raises UserError where the file holds no row, or another run.
    """
    found = read_table(path, ["run", "part", "branch"]).group_by(["run", "part", "branch"]).aggregate([]).to_pylist()
    check_run(path, (row["run"] for row in found), run)
    if not found:
        raise UserError(
            f"{path}: no scored continuation; ask for tasks with numbers of demonstrations that they take, delete the"
            " file and run again"
        )
    return sorted((row["part"], row["branch"]) for row in found)


def groups(path: str | Path, run: str, part: str | None = None, tasks: frozenset[str] | None = None) -> Iterator[Group]:
    """All groups in the file of `run`, or of one part and some tasks; one endpoint's rows are in memory at a time.

    The order is that of part, branch, task, shots and seed. Raises UserError where the file cannot be read or holds
    another run.
    """
    for name, branch in endpoint_parts(path, run):
        if part in (None, name):
            wanted = [("part", "=", name), ("branch", "=", branch)]
            wanted += [("task", "in", sorted(tasks))] if tasks is not None else []
            table = pq.read_table(path, columns=list(COLUMNS), filters=wanted)
            if missing := [column for column in COLUMNS if column not in table.column_names]:
                raise UserError(f"{path}: the column {missing[0]!r} is missing; delete the file and run again")
            yield from _split(table, path, name, branch)


def _split(table: pa.Table, path: str | Path, part: str, branch: int) -> Iterator[Group]:
    columns = {name: table[name].to_numpy() for name in (*NUMBERS, *FLAGS)}
    columns["demonstrations"] = pc.fill_null(pc.list_value_length(table["demonstrations"]), 0).to_numpy()
    seeds = pc.fill_null(table["seed"], ZERO_SHOT).to_numpy()
    tasks = table["task"].combine_chunks().dictionary_encode()
    categories = pc.fill_null(table["category"], "").combine_chunks().dictionary_encode()
    names, labels = tasks.dictionary.to_pylist(), np.array(categories.dictionary.to_pylist(), dtype=np.str_)
    ranks = np.argsort(np.argsort(np.array(names, dtype=np.str_)))
    task = tasks.indices.to_numpy(zero_copy_only=False)
    category = categories.indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((columns["choice"], columns["item"], seeds, columns["shots"], ranks[task]))
    keys = np.stack([task[order], columns["shots"][order], seeds[order]])
    edges = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    for rows in np.split(order, edges) if len(order) else []:
        own = {name: values[rows] for name, values in columns.items()} | {"category": labels[category[rows]]}
        name, shots, seed = names[task[rows[0]]], int(own["shots"][0]), int(seeds[rows[0]])
        known = None if seed == ZERO_SHOT else seed
        place = f"{path}: {name} with {shots} shots" + ("" if known is None else f", evaluation seed {known}")
        yield Group(place, part, branch, int(own["branch_step"][0]), name, shots, known, own)


def items_of(group: Group, task: Task) -> Items:
    """What each item's continuations say.

    Raises UserError, naming file, task and item, where a log-likelihood is not finite or the continuations of an
    item are incomplete: a choice that is missing would make the item easier, not wrong.
    """
    columns = group.columns
    starts = np.flatnonzero(np.diff(columns["item"], prepend=columns["item"][0] - 1))
    counts = np.diff(starts, append=len(columns["item"]))
    _check(group, task, starts, counts)
    right = columns["gold"].astype(bool)
    correct, tied = columns["greedy"][right].astype(bool), np.zeros(len(starts), dtype=bool)
    others: dict[str, Flags | None] = {"sum": correct, "characters": correct, "bytes": correct}
    if task.kind != "language_modeling":
        # A schema's options share one continuation, so that the rules agree there.
        correct, tied = _chosen(columns["log_probability"] / columns["tokens"], right, starts, counts)
        others["sum"] = _chosen(columns["log_probability"], right, starts, counts)[0]
        for rule in RULES[1:]:
            lengths = columns[rule]
            scored = (lengths > 0).all()
            others[rule] = _chosen(columns["log_probability"] / lengths, right, starts, counts)[0] if scored else None
    return Items(
        item=columns["item"][starts].astype(np.int64),
        category=columns["category"][starts],
        correct=correct,
        tied=tied,
        by_sum=others["sum"] if others["sum"] is not None else correct,
        by_characters=others["characters"],
        by_bytes=others["bytes"],
        nll=-columns["log_probability"][right],
        tokens=columns["tokens"][right].astype(np.int64),
        bytes=columns["bytes"][right].astype(np.int64),
        truncated=np.maximum.reduceat(columns["truncated"], starts).astype(np.int64),
        dropped=np.maximum.reduceat(columns["dropped"], starts).astype(np.int64),
        demonstrations=np.minimum.reduceat(columns["demonstrations"], starts).astype(np.int64),
    )


def _chosen(values: Array, right: Flags, starts: Integers, counts: Integers) -> tuple[Flags, Flags]:
    """Whether the first of the best of each item is the right one, and whether several are best."""
    item = np.repeat(np.arange(len(starts)), counts)
    highest = np.maximum.reduceat(values, starts)
    best = np.flatnonzero(values >= (highest - TIE * np.abs(highest))[item])
    _, first, times = np.unique(item[best], return_index=True, return_counts=True)
    return right[best[first]], times > 1


def _check(group: Group, task: Task, starts: Integers, counts: Integers) -> None:
    columns = group.columns
    item = np.repeat(np.arange(len(starts)), counts)
    least, most = (1, 1) if task.kind == "language_modeling" else (2, np.inf)
    faults = (
        (~np.isfinite(columns["log_probability"]), "a log-likelihood is not finite"),
        (columns["tokens"] < 1, "a continuation has no token"),
        (columns["choice"] != np.arange(len(item)) - starts[item], "a choice is missing or appears twice"),
        ((np.add.reduceat(columns["gold"].astype(int), starts) != 1)[item], "not exactly one choice is the right one"),
        (((counts < least) | (counts > most))[item], f"{task.kind} does not go with its number of choices"),
    )
    for wrong, what in faults:
        if wrong.any():
            where = int(columns["item"][int(np.argmax(wrong))])
            raise UserError(f"{group.place}: item {where}: {what}; delete the file and run again")


def weights(category: NDArray[np.str_], partition: bool) -> Array:
    """Weight of each item in its task's score, (items,); they sum to 1.

    All alike, or, where the task is partitioned, so that each category counts the same.
    """
    if not partition:
        return np.full(len(category), 1 / len(category))
    labels, which, sizes = np.unique(category, return_inverse=True, return_counts=True)
    return np.asarray(1 / (len(labels) * sizes[which]), dtype=np.float64)


def mean(values: NDArray[Any], category: NDArray[np.str_], partition: bool) -> float:
    """Mean of items' values, (items,), in a task's score: over items, or over the means of the categories."""
    if not partition:
        return float(values.mean())
    labels, which, sizes = np.unique(category, return_inverse=True, return_counts=True)
    return float((np.bincount(which, values, len(labels)) / sizes).mean())


def chance(task: Task, baselines: str) -> float:
    """The task's chance level in the set "v1" or "v2"."""
    return task.chance_v1 if baselines == "v1" else task.chance_v2
