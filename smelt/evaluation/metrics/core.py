"""DCLM Core, Completion and MMLU of each endpoint, and the study's own suite beside them.

Reads results/evaluation/task_scores.parquet; writes core, completion, mmlu and calibration_scores.parquet. Each uses a
task's rows at its own number of shots. Core is the unweighted mean of 22 centred scores: in each evaluation seed, with
the zero-shot tasks in all of them, then over seeds. Its standard error is over evaluation seeds alone, and so knows
nothing of the items or of the seed of the training.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from smelt.artifacts import field, table
from smelt.errors import command
from smelt.evaluation.metrics import aggregation, completion, item_metrics
from smelt.evaluation.metrics.aggregation import Endpoint, mean_of
from smelt.evaluation.metrics.calibration_scores import calibration_rows
from smelt.evaluation.metrics.settings import BASELINES, Settings
from smelt.evaluation.metrics.task_scores import ENDPOINT, read_scores
from smelt.evaluation.tasks.registry import CORE, Task
from smelt.job import read_job
from smelt.labels import SCORES
from smelt.statistics import centred

MODULE = "smelt.evaluation.metrics.core"
# The five categories of Core and the number of their tasks.
CATEGORIES = {
    "language understanding": 6,
    "world knowledge": 4,
    "commonsense reasoning": 4,
    "symbolic problem solving": 5,
    "reading comprehension": 3,
}
UNSCORED = "not scored at all: a file is not there, or it takes none of the shots asked for"
CORE_TABLE = pa.schema(
    [
        *ENDPOINT,
        field("baselines", pa.string(), "chance levels of core_se, the categories and other_score: v1 or v2"),
        field("tasks", pa.int32(), "Core tasks scored with their own shots"),
        field("of", pa.int32(), "tasks of Core"),
        field("core_v1", pa.float64(), "mean centred score of the Core tasks scored, first set of chance levels"),
        field("core_v2", pa.float64(), "mean centred score of the Core tasks scored, second set of chance levels"),
        field("core_se", pa.float64(), "standard error of Core over evaluation seeds"),
        *(
            field(name.replace(" ", "_"), pa.float64(), f"mean centred score of the scored tasks of {name}")
            for name in CATEGORIES
        ),
        field("other_tasks", pa.int32(), "tasks scored of the study's own suite, outside Core and MMLU"),
        field("other_of", pa.int32(), "tasks of the study's own suite"),
        field("other_score", pa.float64(), "their mean centred score; no part of Core"),
        field("other_se", pa.float64(), "its standard error over evaluation seeds"),
        field("evaluation_seeds", pa.int32(), "seeds of the demonstrations; 0 where no task draws any"),
        field("items", pa.int64(), "items of Core and of the study's own suite, each counted once"),
        field("reason", pa.string(), "why a value is missing, and what it rests on"),
    ]
)
MMLU = pa.schema(
    [
        *ENDPOINT,
        field("task", pa.string(), "mmlu: DCLM's form; mmlu_standard: header and fixed demonstrations"),
        field("accuracy", pa.float64(), "mean over subjects, then over evaluation seeds"),
        field("accuracy_se", pa.float64(), "its standard error over evaluation seeds"),
        field("centred", pa.float64(), "(accuracy - chance) / (1 - chance)"),
        field("subjects", pa.int32(), "subjects averaged"),
        field("items", pa.int32(), "items scored"),
        field("evaluation_seeds", pa.int32(), "seeds averaged; 0 where demonstrations are fixed"),
        field("reason", pa.string(), "why a value is missing, and what it rests on"),
    ]
)


def core_row(endpoint: Endpoint, tasks: Mapping[str, Task], baselines: str) -> dict[str, Any]:
    """The row of an endpoint in the table of Core."""
    core = [name for name in endpoint.tasks if tasks[name].suite == "core"]
    named = [task.name for task in tasks.values() if task.suite == "desk"]
    other = [name for name in named if name in endpoint.tasks]
    row: dict[str, Any] = dict.fromkeys(CORE_TABLE.names)
    row |= {**endpoint.keys, "baselines": baselines, "tasks": len(core), "of": CORE}
    row |= {"other_tasks": len(other), "other_of": len(named), "evaluation_seeds": endpoint.seeds}
    row["items"] = aggregation.items(endpoint, [*core, *other])
    notes = []
    if core:
        for version in BASELINES:
            row[f"core_{version}"] = endpoint.estimate(core, aggregation.centred_mean(tasks, version)).value
        found = endpoint.estimate(core, aggregation.centred_mean(tasks, baselines))
        row["core_se"] = found.error
        notes += _categories(row, endpoint, tasks, core, baselines)
        notes += [f"Core: {note}" for note in aggregation.error_note(found.seeds)]
        notes += aggregation.partial(endpoint, tasks, core) + aggregation.cut(endpoint, core)
    else:
        notes.append("no Core task was scored with its own shots")
    if other:
        found = endpoint.estimate(other, aggregation.centred_mean(tasks, baselines))
        row |= {"other_score": found.value, "other_se": found.error}
        notes += [f"the study's own suite over {len(other)} of {len(named)} tasks"] if len(other) < len(named) else []
        notes += [f"the study's own suite: {note}" for note in aggregation.error_note(found.seeds)]
        notes += aggregation.cut(endpoint, other)
    else:
        notes.append("no task of the study's own suite was scored with its own shots")
    if endpoint.others:
        scored = ", ".join(f"{name} ({tasks[name].shots})" for name in endpoint.others)
        notes.append(f"not scored with their own number of shots: {scored}")
    return row | {"reason": "; ".join(notes) or None}


def _categories(
    row: dict[str, Any], endpoint: Endpoint, tasks: Mapping[str, Task], core: Sequence[str], baselines: str
) -> list[str]:
    """Fill the means of the categories; the notes say what Core and they lack."""
    partial = []
    for category, count in CATEGORIES.items():
        mine = [name for name in core if tasks[name].category == category]
        if mine:
            row[category.replace(" ", "_")] = endpoint.estimate(mine, aggregation.centred_mean(tasks, baselines)).value
        partial += [f"{category} {len(mine)} of {count}"] if len(mine) < count else []
    return [f"Core over {len(core)} of {CORE} tasks ({', '.join(partial)})"] if partial else []


def mmlu_rows(endpoint: Endpoint, tasks: Mapping[str, Task], baselines: str) -> list[dict[str, Any]]:
    """One row for each form of MMLU that the study names; one that says so where it names none."""
    named = [task.name for task in tasks.values() if task.suite == "mmlu"]
    rows = []
    for name in named or ["mmlu"]:
        row: dict[str, Any] = dict.fromkeys(MMLU.names) | endpoint.keys | {"task": name}
        if name in endpoint.tasks:
            found = endpoint.estimate([name], mean_of("score"))
            first = next(iter(endpoint.tasks[name].values()))
            row |= {"accuracy": found.value, "accuracy_se": found.error, "evaluation_seeds": found.seeds}
            row["centred"] = centred(found.value, item_metrics.chance(tasks[name], baselines))
            row |= {"subjects": first["categories"], "items": first["items"]}
            notes = aggregation.partial(endpoint, tasks, [name]) + aggregation.cut(endpoint, [name])
            row["reason"] = "; ".join(notes + aggregation.error_note(found.seeds)) or None
        elif name in endpoint.others:
            row["reason"] = f"not scored with its own {tasks[name].shots} shots, but with others"
        else:
            row["reason"] = UNSCORED if named else "MMLU is not among the study's tasks"
        rows.append(row)
    return rows


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["task_scores"], ["core", "completion", "mmlu", "scores"])
    settings = job.settings
    tasks = settings.by_name
    endpoints = aggregation.collect(read_scores(job.path("task_scores")), tasks)
    of_completion = [row for endpoint in endpoints for row in completion.completion_rows(endpoint, tasks)]
    of_mmlu = [row for endpoint in endpoints for row in mmlu_rows(endpoint, tasks, settings.baselines)]
    job.write("core", table([core_row(endpoint, tasks, settings.baselines) for endpoint in endpoints], CORE_TABLE))
    job.write("completion", table(of_completion, completion.COMPLETION))
    job.write("mmlu", table(of_mmlu, MMLU))
    job.write("scores", table(calibration_rows(endpoints, tasks, settings.baselines), SCORES))


if __name__ == "__main__":
    command(main)
