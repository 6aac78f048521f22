"""The scores of all endpoints in the columns that the calibration against the loss reads.

An aggregate stands in a row without a task, above the tasks that it averages. Core is given only where all of its 22
tasks were scored, and Completion only where all of its nine were: of fewer tasks it would be another score under the
same name. The study's own suite is never called either.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.evaluation.metrics import completion, item_metrics
from smelt.evaluation.metrics.aggregation import Endpoint, Estimate, centred_mean, items, mean_of
from smelt.evaluation.tasks.registry import CORE, Task
from smelt.labels import KEYS

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
        **{name: endpoint.keys[name] for name in KEYS},
        "metric": metric,
        "task": "",
        "category": "",
        "score": found.value,
        "chance": chance,
        "higher_is_better": chance is not None,
        "standard_error": found.error,
        "items": items(endpoint, names),
    }
