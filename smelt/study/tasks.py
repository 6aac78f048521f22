"""The downstream tasks of a study: which it asks for, where their items lie, and how each set is scored.

A study has up to two evaluation sets, each a choice of items and demonstrations: `all_endpoints` scores every
endpoint of a run, `last_endpoint` only the last, as a rule on more items.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import UserError
from smelt.evaluation.tasks.items import find_named
from smelt.evaluation.tasks.registry import Task, chosen, read_tasks, shots_taken
from smelt.study.base import Study

PARTS = ("all_endpoints", "last_endpoint")
MADE = "desk"  # the suite whose items the pipeline makes itself


def check(study: Study) -> None:
    """Raise UserError where the study's choice of tasks cannot be met."""
    evaluation = study.config["evaluation"]
    if not evaluation["tasks"]:
        if asked := [part for part in PARTS if part in evaluation]:
            raise UserError(f"evaluation.{asked[0]}: there are no tasks to score; name some under evaluation.tasks")
        return
    if not parts(study):
        raise UserError(
            "evaluation.tasks: say what is scored on them: give evaluation.all_endpoints, "
            "evaluation.last_endpoint or both"
        )
    if "all_endpoints" in evaluation and "scores" in study.config:
        raise UserError(
            "scores: the study scores its endpoints itself (evaluation.all_endpoints); take one of the two out"
        )
    external = [task for task in wanted(study) if task.suite != MADE]
    if external and not evaluation["data"]:
        raise UserError(
            f"evaluation.data: empty, but {len(external)} tasks, {external[0].name} first, read files; name their "
            "folder"
        )
    if external and not Path(data(study)).is_dir():
        raise UserError(
            f"evaluation.data: no folder {data(study)}; the path is taken from the folder of the study file, and"
            " docs/downstream.md says what fills it"
        )
    if not scored(study):
        absent = "; ".join(_absent(study, task).removeprefix("evaluation.data: ") for task in wanted(study))
        raise UserError(
            f"evaluation.data: no task can be scored: {absent}; docs/downstream.md says what fills the folder"
        )
    for part in parts(study):
        _check_shots(study, part)


def _check_shots(study: Study, part: str) -> None:
    """Raise UserError where no available task takes any of an evaluation set's numbers of demonstrations."""
    if not any(_asked(study, part, task) for task in scored(study)):
        most = max(max(task.shots, task.sweep_shots) for task in scored(study))
        raise UserError(
            f"evaluation.{part}.shots: {study.config['evaluation'][part]['shots']}, but none of the tasks takes more"
            f" than {most}; name a smaller number, or leave shots out for each task's own"
        )


def _asked(study: Study, part: str, task: Task) -> list[int]:
    """Numbers of demonstrations with which an evaluation set scores a task."""
    return shots_taken(task, study.config["evaluation"][part]["shots"])


def wanted(study: Study) -> list[Task]:
    """The tasks that the study asks for."""
    try:
        return chosen(study.config["evaluation"]["tasks"], read_tasks())
    except UserError as error:
        raise UserError(f"evaluation.tasks: {error}") from None


def parts(study: Study) -> list[str]:
    """The evaluation sets that the study scores."""
    return [part for part in PARTS if part in study.config["evaluation"]]


def made(study: Study, name: str) -> str:
    """Path of an items file that the pipeline generates."""
    return f"{study.root}/evaluation/items/{name}"


def files(study: Study) -> dict[str, str]:
    """Paths of the tasks' files, by their names in the list of tasks; a task with a missing file is left out."""
    paths: dict[str, str] = {}
    for task in wanted(study):
        of_task = _paths(study, task)
        if all(of_task.values()):
            paths |= of_task
    return paths


def _paths(study: Study, task: Task) -> dict[str, str]:
    """Path of each file of a task, by its name in the list of tasks; empty where there is none."""
    names = [name for name in (task.file, task.demonstrations) if name]
    return {name: made(study, name) if task.suite == MADE else _supplied(study, name) for name in names}


def data(study: Study) -> str:
    """The folder of the items that the user supplies."""
    return study.beside(study.config["evaluation"]["data"])


def _supplied(study: Study, name: str) -> str:
    path = find_named(data(study), name)
    return str(path) if path else ""


def scored(study: Study) -> list[Task]:
    """The tasks whose files exist."""
    names = files(study)
    return [task for task in wanted(study) if task.file in names and (task.demonstrations or task.file) in names]


def calibrated(study: Study) -> bool:
    """Whether the scores of all endpoints hold a metric that can be calibrated against loss.

    That is any task outside Core, or all nine tasks of Completion, each at its own number of demonstrations.
    """
    if "all_endpoints" not in parts(study):
        return False
    standard = [task for task in scored(study) if task.shots in _asked(study, "all_endpoints", task)]
    nine = {task.name for task in read_tasks().values() if task.suite == "core" and task.completion}
    return any(task.suite != "core" for task in standard) or nine <= {task.name for task in standard}


def missing(study: Study) -> list[str]:
    """One line per task that is not scored: its first missing file and the file's source, or the evaluation set that
    asks for more demonstrations than the task takes."""
    available = scored(study)
    lines = [_absent(study, task) for task in wanted(study) if task not in available]
    for part in parts(study):
        lines += [_left_out(study, part, task) for task in available if not _asked(study, part, task)]
    return lines


def _absent(study: Study, task: Task) -> str:
    file = next(name for name, path in _paths(study, task).items() if not path)
    return f"evaluation.data: no file {file} in {data(study)}, so {task.name} is not scored; it is {task.source}"


def _left_out(study: Study, part: str, task: Task) -> str:
    asked, most = study.config["evaluation"][part]["shots"], max(task.shots, task.sweep_shots)
    return f"evaluation.{part}.shots: {asked}, but {task.name} takes {most} at the most, so {part} does not score it"


def choices(study: Study) -> dict[str, Mapping[str, Any]]:
    """Items and demonstrations of each evaluation set that the study scores."""
    return {part: study.config["evaluation"][part] for part in parts(study)}
