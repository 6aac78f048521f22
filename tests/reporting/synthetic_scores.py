"""Tables of the downstream evaluation for endpoints with a known loss, averaged by the pipeline's own code."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt import tables
from smelt.evaluation.icl import comparison, sweep
from smelt.evaluation.metrics import aggregation, completion, core, task_scores
from smelt.evaluation.metrics.settings import Settings
from smelt.evaluation.metrics.task_scores import TASK_SCORES
from smelt.evaluation.tasks.registry import Task, chosen, read_tasks

Row = dict[str, Any]
PRESETS = {"all_endpoints": ("smoke", 12), "last_endpoint": ("lite", 48)}
RUN = ("architecture", "scale", "sparsity", "seed")


def tasks_of(*suites: str) -> dict[str, Task]:
    return {task.name: task for task in chosen(suites, read_tasks())}


def _noise(*of: Any) -> float:
    """A number of mean 0 and deviation 1 that belongs to its arguments."""
    seed = int.from_bytes(hashlib.sha256(repr(of).encode()).digest()[:8], "big")
    return float(np.random.default_rng(seed).normal())


def task_rows(
    endpoints: Sequence[Row], tasks: dict[str, Task], part: str, seeds: int, shots: Sequence[int] = ()
) -> list[Row]:
    """Rows of the table of task scores: the lower the loss, the better, and better with demonstrations."""
    steps = sorted({row["branch_step"] for row in endpoints})
    preset, items = PRESETS[part]
    rows = []
    for row in endpoints:
        branch = steps.index(row["branch_step"]) + 1
        if part == "last_endpoint" and branch < len(steps):
            continue
        keys = {name: row[name] for name in (*RUN, "branch_step")}
        keys |= {
            "branch": branch,
            "part": part,
            "preset": preset,
            "sampler": "smelt" if part == "all_endpoints" else "nested",
        }
        for task in tasks.values():
            limit = max(task.sweep_shots, task.shots)
            for count in sorted({count for count in shots if count <= limit} or {task.shots}):
                for seed in range(seeds) if count else [None]:
                    rows.append(keys | _score(row, task, count, seed, items))
    return rows


def _score(endpoint: Row, task: Task, shots: int, seed: int | None, items: int) -> Row:
    """One row's own columns."""
    place = [endpoint[name] for name in (*RUN, "branch_step")]
    level = 1 / (1 + math.exp(3 * (endpoint["loss"] - 2.4) - 0.25 * math.log2(shots + 1) - 0.4 * _noise(task.name)))
    level += 0.02 * _noise(task.name, seed) + 0.02 * _noise(task.name, *place, seed)
    level += 0.015 * (endpoint["architecture"] != "baseline") * math.log2(shots + 1)
    right = round(items * min(max(task.chance_v2 + (1 - task.chance_v2) * level, 0.0), 1.0))
    tokens = 3 * items
    found = dict.fromkeys(name for name in task_scores.TASK_SCORES.names if name not in (*RUN, "branch_step"))
    for name in ("branch", "part", "preset", "sampler"):
        found.pop(name)
    found |= {"task": task.name, "suite": task.suite, "category": task.category, "shots": shots}
    found |= {"evaluation_seed": seed, "items": items, "score": right / items, "ties": 0}
    found |= {"categories": 57 if task.partition else 1, "chance": task.chance_v2, "dropped": 0}
    found |= {"centred": (right / items - task.chance_v2) / (1 - task.chance_v2), "truncated_share": 0.0}
    found["mean_demonstrations"] = float(shots)
    nats = endpoint["loss"] * (1.1 - 0.03 * math.log2(shots + 1)) + 0.05 * _noise(task.name, seed)
    return found | {"nll": tokens * nats, "tokens": tokens, "bytes": 4 * tokens, "completion": task.completion}


def averages(rows: Sequence[Row], tasks: dict[str, Task], baselines: str = "v2") -> dict[str, list[Row]]:
    """The rows of core, completion and mmlu.parquet."""
    found = aggregation.collect(tables.from_rows(rows, TASK_SCORES), tasks)
    return {
        "core": [core.core_row(one, tasks, baselines) for one in found],
        "completion": [row for one in found for row in completion.completion_rows(one, tasks)],
        "mmlu": [row for one in found for row in core.mmlu_rows(one, tasks, baselines)],
    }


def in_context(rows: Sequence[Row], tasks: dict[str, Task]) -> dict[str, list[Row]]:
    """The rows of sweep and icl.parquet; single items are right at random, at the share of the task."""
    chosen_rows = sweep.last_scores(tables.from_rows(rows, TASK_SCORES), tasks, ())
    found = sweep.members(tasks, chosen_rows)
    by_run = sweep.curves(chosen_rows, found)
    names = list(dict.fromkeys(row["architecture"] for row in rows))
    settings = Settings(tasks=(), runs=(), presets={}, sampler={}, baselines="v2", reference="baseline", shots=())
    items = {}
    for row in tables.rows(chosen_rows):
        run = tuple(row[name] for name in RUN)
        right = np.array([0.5 + 0.2 * _noise(*run, row["task"], place) for place in range(row["items"])])
        right += row["score"] - right.mean()
        weight = np.full(row["items"], 1 / row["items"])
        items[run, row["task"], row["shots"]] = comparison.ItemMean(np.arange(row["items"]), weight, right)
    return {
        "sweep": sweep.sweep_rows(by_run, found, names),
        "icl": comparison.icl_rows(by_run, found, items, names, settings),
    }
