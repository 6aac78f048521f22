"""The scores of all endpoints in the columns that the calibration against the loss reads.

An aggregate stands in a row without a task, above the tasks that it averages. Core is given only where all of its 22
tasks were scored, and Completion only where all of its nine were: of fewer tasks it would be another score under the
same name. The study's own suite is never called either.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from smelt.artifacts import field
from smelt.evaluation.metrics import completion, item_metrics
from smelt.evaluation.metrics.standard import Endpoint, Estimate, centred_mean, items, mean_of
from smelt.evaluation.metrics.task_scores import ENDPOINT
from smelt.evaluation.tasks.registry import CORE, Task

NAMES = ("architecture", "scale", "sparsity", "seed", "branch_step")  # of an endpoint
CALIBRATION_SCORES = pa.schema(
    [
        *(one for name in NAMES for one in ENDPOINT if one.name == name),
        field("metric", pa.string(), "core, completion, mmlu, mmlu_standard, desk, or desk completion"),
        field("task", pa.string(), "task of the metric; empty for the metric itself"),
        field("category", pa.string(), "category of the task; empty where it has none"),
        field("score", pa.float64(), "the score: a fraction for an accuracy, nats for a cross-entropy"),
        field("chance", pa.float64(), "score of a random answer, a fraction below 1; empty where there is none"),
        field("higher_is_better", pa.bool_(), "whether a higher score is the better one"),
        field("standard_error", pa.float64(), "standard error of the score over evaluation seeds; empty where unknown"),
        field("items", pa.int64(), "items that the score is a mean over; empty where unknown"),
    ]
)
CROSS_ENTROPIES = {"core": "completion", "desk": "desk completion"}  # by suite


def calibration_rows(endpoints: Sequence[Endpoint], tasks: Mapping[str, Task], baselines: str) -> list[dict[str, Any]]:
    """The rows of all endpoints of the part "all_endpoints", by endpoint and metric, the aggregate before its tasks."""
    chosen = [endpoint for endpoint in endpoints if endpoint.keys["part"] == "all_endpoints"]
    return [row for endpoint in chosen for row in _endpoint_rows(endpoint, tasks, baselines)]


def _endpoint_rows(endpoint: Endpoint, tasks: Mapping[str, Task], baselines: str) -> list[dict[str, Any]]:
    def accuracies(metric: str, suite: str) -> list[dict[str, Any]]:
        names = [name for name in endpoint.tasks if tasks[name].suite == suite]
        if not names:
            return []
        whole = endpoint.estimate(names, centred_mean(tasks, baselines))
        rows = [_row(endpoint, metric, whole, names, 0.0)]
        return rows + [accuracy(metric, name, name) for name in names]

    def accuracy(metric: str, name: str, task: str) -> dict[str, Any]:
        found = endpoint.estimate([name], mean_of("score"))
        row = _row(endpoint, metric, found, [name], item_metrics.chance(tasks[name], baselines))
        return row | ({"task": task, "category": tasks[name].category} if task else {})

    core = [name for name in endpoint.tasks if tasks[name].suite == "core"]
    rows = accuracies("core", "core") if len(core) == CORE else []
    rows += [accuracy(name, name, "") for name in endpoint.tasks if tasks[name].suite == "mmlu"]
    rows += accuracies("desk", "desk")
    for suite, metric in CROSS_ENTROPIES.items():
        names = [name for name in completion.members(suite, tasks) if name in endpoint.tasks]
        if not names or len(names) < completion.SUITES[suite]:
            continue
        rows.append(_row(endpoint, metric, endpoint.estimate(names, completion.nats), names, None))
        for name in names:
            row = _row(endpoint, metric, endpoint.estimate([name], completion.nats), [name], None)
            rows.append(row | {"task": name, "category": tasks[name].category})
    return rows


def _row(
    endpoint: Endpoint, metric: str, found: Estimate, names: Sequence[str], chance: float | None
) -> dict[str, Any]:
    """A row without a task; a score without a chance level is a cross-entropy."""
    return {
        **{name: endpoint.keys[name] for name in NAMES},
        "metric": metric,
        "task": "",
        "category": "",
        "score": found.value,
        "chance": chance,
        "higher_is_better": chance is not None,
        "standard_error": found.error,
        "items": items(endpoint, names),
    }
