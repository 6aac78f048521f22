"""The downstream tasks of a study: which it may ask for, and what its jobs are told."""

import json

import pytest

from smelt.errors import UserError
from smelt.evaluation.tasks.registry import read_tasks
from smelt.study import tasks
from smelt.workflow import specs

EVERY = {"preset": "smoke", "seeds": [0, 1], "shots": [0, 4]}
DESK = {"evaluation/tasks": ["desk"], "evaluation/all_endpoints": EVERY}


def test_the_desk_suite_needs_no_data(read):
    study = read(DESK)
    assert [task.name for task in tasks.scored(study)] == [
        task.name for task in read_tasks().values() if task.suite == "desk"
    ]
    assert set(tasks.files(study).values()) == {tasks.made(study, task.file) for task in tasks.scored(study)}
    assert tasks.missing(study) == []


def test_requests_are_told_what_the_study_says(read):
    study = read({**DESK, "evaluation/last_endpoint": {"preset": "full", "seeds": [3], "sampler": "nested"}})
    every, final = (specs.requests(study, part) for part in tasks.parts(study))
    assert (every.preset_items, every.shots, every.seeds, every.sampler) == (12, (0, 4), (0, 1), "smelt")
    assert (final.preset_items, final.shots, final.seeds, final.sampler) == (0, (), (3,), "nested")
    assert every.context == study.config["corpus"]["context"]
    short = read({**DESK, "corpus/segment_tokens": 64})
    assert specs.requests(short, "all_endpoints").context == 64
    assert list(every.files) == list(tasks.files(study))


def test_its_own_scores_are_the_ones_that_are_calibrated(read):
    assert read(DESK).scores == f"{read(DESK).root}/evaluation/calibration_scores.parquet"
    assert read().scores == ""
    assert read({"evaluation/tasks": ["desk"], "evaluation/last_endpoint": EVERY}).scores == ""


def test_a_missing_file_leaves_its_task_out_and_says_where_it_is(read, tmp_path):
    (tmp_path / "data" / "world_knowledge").mkdir(parents=True)
    row = {"query": "a", "choices": ["b", "c"], "gold": 0}
    (tmp_path / "data" / "world_knowledge" / "arc_easy.jsonl").write_text(json.dumps(row))
    study = read({**DESK, "evaluation/tasks": ["arc_easy", "piqa"], "evaluation/data": "data"})
    assert [task.name for task in tasks.scored(study)] == ["arc_easy"]
    (line,) = tasks.missing(study)
    assert "no file commonsense_reasoning/piqa.jsonl" in line
    assert "piqa is not scored; it is mosaicml/llm-foundry" in line
    told = specs.task_scores(study)
    assert [task.name for task in told.tasks] == ["arc_easy", "piqa"]  # so that what is missing is counted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluation/all_endpoints": EVERY}, "evaluation.all_endpoints: there are no tasks to score"),
        ({"evaluation/tasks": ["desk"]}, "give evaluation.all_endpoints, evaluation.last_endpoint or both"),
        ({**DESK, "evaluation/tasks": ["dyck"]}, "evaluation.tasks: no task or suite 'dyck'; known are core"),
        ({**DESK, "evaluation/tasks": ["core"]}, "evaluation.data: empty, but 22 tasks, hellaswag_zeroshot first"),
        ({**DESK, "evaluation/tasks": ["core"], "evaluation/data": "nowhere"}, "evaluation.data: no folder .*nowhere"),
        ({**DESK, "scores": "scores.csv"}, "scores: the study scores its endpoints itself"),
        ({**DESK, "evaluation/all_endpoints": {**EVERY, "seeds": []}}, r"evaluation\.all_endpoints\.seeds: .*"),
        (
            {**DESK, "evaluation/all_endpoints": {**EVERY, "preset": "tiny"}},
            r"evaluation\.all_endpoints\.preset: 'tiny' is not one of",
        ),
        (
            {**DESK, "evaluation/all_endpoints": {**EVERY, "shots": [33]}},
            r"evaluation\.all_endpoints\.shots\.0: 33 is greater than",
        ),
    ],
)
def test_mistakes(read, changes, message):
    with pytest.raises(UserError, match=message):
        read(changes)
