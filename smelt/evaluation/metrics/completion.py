"""DCLM Completion: cross-entropy of the right answer's tokens over the completion tasks of a suite.

A micro average: in each evaluation seed the summed cross-entropy of all answers over the number of their tokens,
the tasks without demonstrations standing in every seed, and then the mean over seeds. Pooling the rows of all seeds
instead would count a task once for each seed that it has, and so give the zero-shot tasks a fraction of their weight.
It depends on the tokenizer; bits per byte do not, and the mean over tasks (macro) does not lean on the long ones.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.evaluation.metrics import aggregation
from smelt.evaluation.metrics.aggregation import Endpoint, Row
from smelt.evaluation.metrics.task_scores import ENDPOINT
from smelt.evaluation.tasks.registry import Task

SUITES = {"core": 9, "desk": 0}  # completion tasks of each suite, 0 = as many as the study names
COMPLETION = pa.schema(
    [
        *ENDPOINT,
        field("suite", pa.string(), "core, or desk: whose completion tasks they are"),
        field("tasks", pa.int32(), "completion tasks averaged"),
        field("of", pa.int32(), "completion tasks of the suite; of the desk suite, those that the study names"),
        field("nats_per_token", pa.float64(), "cross-entropy of the answers a token, over all tasks together"),
        field("nats_se", pa.float64(), "its standard error over evaluation seeds"),
        field("macro_nats", pa.float64(), "cross-entropy of the answers a token, mean over tasks"),
        field("bits_per_byte", pa.float64(), "bits a byte of the answers without their leading space, over all tasks"),
        field("tokens", pa.int64(), "tokens of the answers, each counted once"),
        field("evaluation_seeds", pa.int32(), "seeds averaged; 0 where no task draws demonstrations"),
        field("reason", pa.string(), "why a value is missing, and what it rests on"),
    ]
)


def nats(rows: Mapping[str, Row]) -> float:
    """Micro average over the tasks, nats a token."""
    return math.fsum(row["nll"] for row in rows.values()) / sum(row["tokens"] for row in rows.values())


def macro(rows: Mapping[str, Row]) -> float:
    """Mean over the tasks, nats a token."""
    return float(np.mean([row["nll"] / row["tokens"] for row in rows.values()]))


def bits(rows: Mapping[str, Row]) -> float:
    """Micro average over the tasks, bits a byte."""
    total = math.fsum(row["nll"] for row in rows.values()) / math.log(2)
    return total / sum(row["bytes"] for row in rows.values())


def members(suite: str, tasks: Mapping[str, Task]) -> list[str]:
    """Names of a suite's completion tasks."""
    return [task.name for task in tasks.values() if task.suite == suite and task.completion]


def completion_rows(endpoint: Endpoint, tasks: Mapping[str, Task]) -> list[dict[str, Any]]:
    """One row for each suite, missing values with their reason."""
    return [_row(endpoint, suite, tasks) for suite in SUITES]


def _row(endpoint: Endpoint, suite: str, tasks: Mapping[str, Task]) -> dict[str, Any]:
    named = members(suite, tasks)
    scored = [name for name in named if name in endpoint.tasks]
    row: dict[str, Any] = dict.fromkeys(COMPLETION.names)
    row |= {**endpoint.keys, "suite": suite, "tasks": len(scored), "of": SUITES[suite] or len(named)}
    if not scored:
        what = "was scored with its own shots" if named else "is among the study's"
        return row | {"reason": f"no completion task of the suite {suite} {what}"}
    found = endpoint.estimate(scored, nats)
    notes = [f"Completion over {row['tasks']} of {row['of']} tasks"] if row["tasks"] < row["of"] else []
    notes += aggregation.partial(endpoint, tasks, scored) + aggregation.cut(endpoint, scored)
    return row | {
        "nats_per_token": found.value,
        "nats_se": found.error,
        "macro_nats": endpoint.estimate(scored, macro).value,
        "bits_per_byte": endpoint.estimate(scored, bits).value,
        "tokens": sum(one["tokens"] for one in endpoint.runs(scored)[0].values()),
        "evaluation_seeds": found.seeds,
        "reason": "; ".join([*notes, *aggregation.error_note(found.seeds)]) or None,
    }
