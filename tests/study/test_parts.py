"""What a study's choice of tasks, files and demonstrations says before anything is trained, and what its jobs get."""

import json

import pytest

from smelt.errors import UserError
from smelt.evaluation.tasks.registry import read_tasks
from smelt.study import tasks
from smelt.workflow import specs

PART = {"preset": "smoke", "seeds": [0, 1]}
DESK = {"evaluation/tasks": ["desk"], "evaluation/all_endpoints": PART}


@pytest.fixture
def files(tmp_path):
    """`files("piqa")` writes one item where the study looks for that task's file, `files("mmlu_dev")` likewise."""

    def write(*names):
        for name in names:
            task = read_tasks()[name]
            path = tmp_path / "data" / task.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"query": "a", "choices": ["b", "c"], "gold": 0}))
        return {"evaluation/data": "data", "evaluation/all_endpoints": PART}

    (tmp_path / "data").mkdir()
    return write


@pytest.mark.parametrize(
    ("final", "expected"),
    [({"shots": [0, 3, 6]}, (0, 3, 6)), ({}, ()), (None, ())],
    ids=["named", "own", "no part"],
)
def test_the_sweep_is_told_the_shots_of_the_study(read, final, expected):
    """A sweep over numbers of its own, in which those of the study were missing."""
    changes = {} if final is None else {"evaluation/last_endpoint": {**PART, **final}}
    assert specs.task_scores(read({**DESK, **changes})).shots == expected


def test_a_folder_without_any_of_the_files_is_one_clear_error(read, files):
    with pytest.raises(
        UserError, match=r"study\.yaml: evaluation\.data: no task can be scored: no file .*arc_easy"
    ) as caught:
        read({**files(), "evaluation/tasks": ["arc_easy", "piqa"]})
    assert "commonsense_reasoning/piqa.jsonl in " in str(caught.value)
    assert "it is mosaicml/llm-foundry" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(tasks.scored(read({**files(), "evaluation/tasks": ["arc_easy", "desk"]}))) == 5


def test_the_file_that_is_missing_is_named_and_no_other(read, files):
    """MMLU's own file, which was there, in place of that of its demonstrations."""
    study = read({**files("mmlu"), "evaluation/tasks": ["mmlu", "mmlu_standard"]})
    (line,) = tasks.missing(study)
    fixed = read_tasks()["mmlu_standard"]
    assert f"no file {fixed.demonstrations} in " in line
    assert fixed.file not in line


def test_shots_that_no_task_takes_are_an_error_before_training(read, files):
    data = {**files("copa", "piqa"), "evaluation/tasks": ["copa"]}
    with pytest.raises(
        UserError, match=r"evaluation\.last_endpoint\.shots: \[4, 8\], but none of the tasks takes more than 0"
    ):
        read({**data, "evaluation/last_endpoint": {**PART, "shots": [4, 8]}})
    study = read({**data, "evaluation/tasks": ["copa", "piqa"], "evaluation/all_endpoints": {**PART, "shots": [4, 8]}})
    (line,) = tasks.missing(study)
    assert (
        line
        == "evaluation.all_endpoints.shots: [4, 8], but copa takes 0 at the most, so all_endpoints does not score it"
    )


def test_what_is_calibrated_is_known_before_anything_is_scored(read, files):
    """A job at the end of a study that finds nothing to do, and stops it."""
    nine = [name for name, task in read_tasks().items() if task.suite == "core" and task.completion]
    for names, expected in ((nine, True), (nine[1:], False), (["piqa"], False), (["piqa", "mmlu"], True)):
        study = read({**files(*nine, "piqa", "mmlu"), "evaluation/tasks": names})
        assert tasks.calibrated(study) == expected
    study = read({**files(*nine), "evaluation/tasks": nine, "evaluation/all_endpoints": {**PART, "shots": [0, 4]}})
    assert not tasks.calibrated(study)  # not with their own numbers of demonstrations
    assert tasks.calibrated(read(DESK))
    assert not tasks.calibrated(read({"evaluation/tasks": ["desk"], "evaluation/last_endpoint": PART}))


@pytest.mark.parametrize("part", ["all_endpoints", "last_endpoint"])
def test_a_seed_that_no_column_holds_is_refused(read, part):
    read({**DESK, f"evaluation/{part}": {**PART, "seeds": [2**31 - 1]}})
    with pytest.raises(UserError, match=rf"evaluation\.{part}\.seeds\.0: 2147483648 is greater than"):
        read({**DESK, f"evaluation/{part}": {**PART, "seeds": [2**31]}})
