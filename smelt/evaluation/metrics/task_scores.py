"""Scores of each task at each endpoint, number of shots and evaluation seed.

Reads results/evaluation/<run>/scores.parquet of every run, one endpoint at a time; writes
results/evaluation/task_scores.parquet. What a task averages over seeds, tasks or endpoints is left to the tables
that are made from it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.evaluation.metrics import item_metrics
from smelt.evaluation.metrics.item_metrics import Group, Items
from smelt.evaluation.metrics.settings import Run, Settings
from smelt.evaluation.tasks.registry import Task
from smelt.job import read_job
from smelt.labels import RUN_KEYS
from smelt.statistics import centred

MODULE = "smelt.evaluation.metrics.task_scores"

ENDPOINT = (
    field("architecture", pa.string(), "execution plan"),
    field("scale", pa.string(), "label of the scale"),
    field("sparsity", pa.string(), "label of the sparsity"),
    field("seed", pa.int32(), "seed of the training"),
    field("branch", pa.int32(), "number of the decay branch, from 1"),
    field("branch_step", pa.int32(), "stable step at which the decay branches off"),
    field("part", pa.string(), "all_endpoints: scored at all of a run; last_endpoint: at its last branch only"),
    field("preset", pa.string(), "which of the items were scored: smoke, lite or full"),
    field("sampler", pa.string(), "how demonstrations were drawn: dclm, smelt or nested"),
)
TASK_SCORES = pa.schema(
    [
        *ENDPOINT,
        field("task", pa.string(), "name of the task"),
        field("suite", pa.string(), "core, mmlu or desk"),
        field("category", pa.string(), "group of tasks that it belongs to"),
        field("shots", pa.int32(), "demonstrations asked for"),
        field("evaluation_seed", pa.int32(), "seed of the demonstrations; empty without any"),
        field("items", pa.int32(), "items scored"),
        field("score", pa.float64(), "share of right items: likeliest choice a token, or each token the likeliest"),
        field("score_sum", pa.float64(), "the same by the whole log-likelihood; multiple choice only"),
        field("score_characters", pa.float64(), "the same by the log-likelihood a character; multiple choice only"),
        field("score_bytes", pa.float64(), "the same by the log-likelihood a byte; multiple choice only"),
        field("ties", pa.int32(), "items with several equally good choices, of which the first was taken"),
        field("categories", pa.int32(), "categories of items whose means are averaged; 1 where items are"),
        field("chance", pa.float64(), "score of a random answer, a fraction"),
        field("centred", pa.float64(), "(score - chance) / (1 - chance)"),
        field("nll", pa.float64(), "summed negative log-likelihood of the right continuations, nats"),
        field("tokens", pa.int64(), "tokens of the right continuations"),
        field("bytes", pa.int64(), "UTF-8 bytes of the right continuations without their leading space"),
        field("truncated_share", pa.float64(), "share of the items whose context was cut"),
        field("dropped", pa.int64(), "demonstrations left out for want of room, all items together"),
        field("mean_demonstrations", pa.float64(), "demonstrations that a prompt holds uncut, mean over items"),
        field("completion", pa.bool_(), "whether its continuations count in Completion"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)


def endpoint_rows(path: Path, run: Run, settings: Settings) -> Iterator[dict[str, Any]]:
    """The rows of one run's file. Raises UserError where it does not fit the spec or its seeds differ in items."""
    tasks = settings.by_name
    seen: dict[tuple[Any, ...], tuple[Group, list[int]]] = {}
    for group in item_metrics.groups(path, run.run):
        if group.task not in tasks:
            raise UserError(f"{path}: the task {group.task!r} is none of the study's; delete the file and run again")
        if group.part not in settings.presets or group.part not in settings.sampler:
            raise UserError(f"{path}: the part {group.part!r} has no preset or sampler; run the evaluation again")
        items = item_metrics.items_of(group, tasks[group.task])
        first, known = seen.setdefault((group.part, group.branch, group.task), (group, items.item.tolist()))
        if known != items.item.tolist():
            raise UserError(f"{group.place} has other items than {first.place}; score the same items with each")
        yield _row(group, items, tasks[group.task], run, settings)


def _row(group: Group, items: Items, task: Task, run: Run, settings: Settings) -> dict[str, Any]:
    def share(correct: Any) -> float:
        return item_metrics.mean(correct, items.category, task.partition)

    choices = task.kind == "multiple_choice"
    unscored = choices and (items.by_characters is None or items.by_bytes is None)
    score, chance = share(items.correct), item_metrics.chance(task, settings.baselines)
    return {
        **dict(zip(RUN_KEYS, run.key, strict=True)),
        "branch": group.branch,
        "branch_step": group.branch_step,
        "part": group.part,
        "preset": settings.presets[group.part],
        "sampler": settings.sampler[group.part],
        "task": task.name,
        "suite": task.suite,
        "category": task.category,
        "shots": group.shots,
        "evaluation_seed": group.seed,
        "items": len(items.item),
        "score": score,
        "score_sum": share(items.by_sum) if choices else None,
        "score_characters": share(items.by_characters) if choices and items.by_characters is not None else None,
        "score_bytes": share(items.by_bytes) if choices and items.by_bytes is not None else None,
        "ties": int(items.tied.sum()),
        "categories": len(set(items.category.tolist())) if task.partition else 1,
        "chance": chance,
        "centred": centred(score, chance),
        "nll": float(items.nll.sum()),
        "tokens": int(items.tokens.sum()),
        "bytes": int(items.bytes.sum()),
        "truncated_share": float((items.truncated > 0).mean()),
        "dropped": int(items.dropped.sum()),
        "mean_demonstrations": float(items.demonstrations.mean()),
        "completion": task.completion,
        "reason": "no score by length in characters or bytes: a choice has none" if unscored else None,
    }


def check_files(settings: Settings, paths: Sequence[Path]) -> None:
    """Raise UserError unless there is one file for each run."""
    if len(settings.runs) != len(paths):
        raise UserError(f"{len(settings.runs)} runs but {len(paths)} files of scores; give one for each")


def read_scores(path: str | Path) -> pd.DataFrame:
    """The table of task scores at `path`. Raises UserError where it lacks a column."""
    scores = tables.read(path)
    if missing := [name for name in TASK_SCORES.names if name not in scores.columns]:
        raise UserError(f"{path}: the column {missing[0]!r} is missing; delete it and run again")
    return scores


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["scores*"], ["out"])
    settings, paths = job.settings, job.paths("scores")
    check_files(settings, paths)
    order = {name: place for place, name in enumerate(settings.by_name)}
    rows = []
    for run, path in zip(settings.runs, paths, strict=True):
        of_run = endpoint_rows(path, run, settings)
        rows += sorted(of_run, key=lambda row: (row["part"], row["branch"], order[row["task"]]))
    job.write("out", artifacts.table(rows, TASK_SCORES))


if __name__ == "__main__":
    command(main)
