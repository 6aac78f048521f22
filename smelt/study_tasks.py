"""The downstream tasks of a study: which it asks for, where their items lie, and what the jobs are told.

Only the study, `smelt.jobs` and the Snakefile use it. Of a run, *every* endpoint is scored on one choice of items and
demonstrations, and the *final* one, if asked for, on another, as a rule larger one.
"""

from pathlib import Path
from typing import Any

from smelt.errors import UserError
from smelt.evaluation.items import find_named
from smelt.evaluation.tasks import Task, chosen, presets, read_tasks
from smelt.spec import plain
from smelt.study_file import Study

PARTS = ("every", "final")
MADE = "desk"  # the suite whose items the pipeline makes itself


def check(study: Study) -> None:
    """Raise UserError where the study's choice of tasks cannot be met."""
    evaluation = study.config["evaluation"]
    if not evaluation["tasks"]:
        if asked := [part for part in PARTS if part in evaluation]:
            raise UserError(f"evaluation.{asked[0]}: there are no tasks to score; name some under evaluation.tasks")
        return
    if not parts(study):
        raise UserError("evaluation.tasks: say what is scored on them: give evaluation.every, evaluation.final or both")
    if "every" in evaluation and "scores" in study.config:
        raise UserError("scores: the study scores its endpoints itself (evaluation.every); take one of the two out")
    given = [task for task in wanted(study) if task.suite != MADE]
    if given and not evaluation["data"]:
        raise UserError(
            f"evaluation.data: empty, but {len(given)} tasks, {given[0].name} first, read files; name their folder"
        )
    if given and not Path(data(study)).is_dir():
        raise UserError(
            f"evaluation.data: no folder {data(study)}; the path is taken from the folder of the study file, and"
            " docs/downstream.md says what fills it"
        )


def wanted(study: Study) -> list[Task]:
    """The tasks that the study asks for."""
    try:
        return chosen(study.config["evaluation"]["tasks"], read_tasks())
    except UserError as error:
        raise UserError(f"evaluation.tasks: {error}") from None


def parts(study: Study) -> list[str]:
    """Of every and final, those that the study scores."""
    return [part for part in PARTS if part in study.config["evaluation"]]


def made(study: Study, name: str) -> str:
    """Where a file of the suite that is made here lies."""
    return f"{study.root}/evaluation/items/{name}"


def files(study: Study) -> dict[str, str]:
    """Where the files of the tasks lie, by their names in the list of tasks.

    A file that is nowhere is left out, and with it its tasks.
    """
    found: dict[str, str] = {}
    for task in wanted(study):
        names = [name for name in (task.file, task.demonstrations) if name]
        paths = [made(study, name) if task.suite == MADE else _given(study, name) for name in names]
        if all(paths):
            found |= dict(zip(names, paths, strict=True))
    return found


def data(study: Study) -> str:
    """The folder of the files that the user brings."""
    return study.beside(study.config["evaluation"]["data"])


def _given(study: Study, name: str) -> str:
    path = find_named(data(study), name)
    return str(path) if path else ""


def scored(study: Study) -> list[Task]:
    """The tasks whose files are there."""
    there = files(study)
    return [task for task in wanted(study) if task.file in there and (task.demonstrations or task.file) in there]


def missing(study: Study) -> list[str]:
    """One line for each task without its file: what is missing and where it can be had."""
    there = scored(study)
    return [
        f"evaluation.data: no file {task.file} in {data(study)}, so {task.name} is not scored; it is {task.source}"
        for task in wanted(study)
        if task not in there
    ]


def requests(study: Study, part: str) -> dict[str, Any]:
    """What the job that builds the requests of one part is told; its files are those of `files`, in that order."""
    choice = dict(study.config["evaluation"][part])
    return {
        "tasks": [plain(task) for task in scored(study)],
        "files": list(files(study)),
        "preset_items": presets()[choice.pop("preset")],
        "truncation": study.config["evaluation"]["truncation"],
        "context": study.config["corpus"]["context"],
        **choice,
    }


def scores(study: Study) -> dict[str, Any]:
    """What the jobs that average the scores are told of tasks and choices."""
    chosen_parts = {part: study.config["evaluation"][part] for part in parts(study)}
    return {
        "tasks": [plain(task) for task in wanted(study)],  # those without a file are counted as missing
        "presets": {part: choice["preset"] for part, choice in chosen_parts.items()},
        "sampler": {part: choice["sampler"] for part, choice in chosen_parts.items()},
        "baselines": study.config["evaluation"]["baselines"],
    }
