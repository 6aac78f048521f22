"""Completion: a micro average within each seed, then the mean of the seeds."""

import math

import numpy as np
import pytest

from smelt import tables
from smelt.evaluation.metrics import aggregation
from smelt.evaluation.metrics.completion import completion_rows
from smelt.evaluation.metrics.task_scores import TASK_SCORES
from smelt.evaluation.tasks.registry import read_tasks
from tests.evaluation.scored_rows import score_row, task

TASKS = {
    "long": task("long", "language_modeling", completion=True),
    "short": task("short", "language_modeling", completion=True, shots=0),
    "choice": task("choice", shots=4),
}


def rows_of(long_nats, short_nats=3.0):
    """`long`: 90 tokens in each of the seeds; `short`: 10 tokens, zero-shot."""
    rows = [
        score_row({"task": "long", "evaluation_seed": seed}, nll=nats, tokens=90, bytes=360, completion=True)
        for seed, nats in enumerate(long_nats)
    ]
    rows.append(score_row({"task": "short", "shots": 0, "evaluation_seed": None}, nll=short_nats, tokens=10, bytes=20))
    return rows


def desk(rows, tasks=TASKS):
    (endpoint,) = aggregation.collect(tables.from_rows(rows, TASK_SCORES), tasks)
    return completion_rows(endpoint, tasks)[1]


def test_pooling_the_rows_of_all_seeds_is_something_else():
    nats = [90.0, 180.0, 270.0]
    found = desk(rows_of(nats))
    by_seed = [(one + 3) / 100 for one in nats]
    pooled = (sum(nats) + 3) / (3 * 90 + 10)
    assert found["nats_per_token"] == pytest.approx(np.mean(by_seed), abs=1e-15)
    assert abs(found["nats_per_token"] - pooled) > 0.05
    assert found["nats_se"] == pytest.approx(np.std(by_seed, ddof=1) / math.sqrt(3))
    assert found["macro_nats"] == pytest.approx(np.mean([(one / 90 + 0.3) / 2 for one in nats]))
    assert found["bits_per_byte"] == pytest.approx(np.mean([(one + 3) / math.log(2) / 380 for one in nats]))
    assert (found["tokens"], found["tasks"], found["of"], found["evaluation_seeds"]) == (100, 2, 2, 3)
    assert found["reason"] == "the standard error rests on 3 evaluation seeds"


def test_bits_a_byte_do_not_depend_on_the_number_of_tokens():
    rows = rows_of([90.0, 180.0])
    other = [row | {"tokens": 2 * row["tokens"]} for row in rows]
    assert desk(other)["bits_per_byte"] == desk(rows)["bits_per_byte"]
    assert desk(other)["nats_per_token"] == pytest.approx(desk(rows)["nats_per_token"] / 2)


def test_what_is_missing_is_said():
    found = desk(rows_of([90.0])[:1])
    assert (found["nats_per_token"], found["nats_se"]) == (1.0, None)
    assert found["reason"] == "Completion over 1 of 2 tasks; no standard error: one evaluation seed"
    found = desk([score_row({"task": "choice"})])
    assert found["nats_per_token"] is found["macro_nats"] is found["bits_per_byte"] is None
    assert found["reason"] == "no completion task of the suite desk was scored with its own shots"
    found = desk(rows_of([90.0]), {"choice": TASKS["choice"]} | {"long": task("long")})
    assert found["reason"] == "no completion task of the suite desk is among the study's"


def test_the_suites_are_kept_apart():
    listed = read_tasks()
    names = ["squad", "coqa", "dyck_languages"]
    rows = [
        score_row(
            {"task": name, "shots": listed[name].shots, "evaluation_seed": 0 if listed[name].shots else None},
            nll=nats,
        )
        for name, nats in zip(names, (10.0, 20.0, 70.0), strict=True)
    ]
    (endpoint,) = aggregation.collect(tables.from_rows(rows, TASK_SCORES), listed)
    core, own = completion_rows(endpoint, listed)
    assert (core["suite"], core["nats_per_token"], core["tasks"], core["of"]) == ("core", 1.5, 2, 9)
    assert "Completion over 2 of 9 tasks" in core["reason"]
    assert (own["suite"], own["nats_per_token"], own["tasks"], own["of"]) == ("desk", 7.0, 1, 5)


@pytest.mark.parametrize(("preset", "said"), [("full", True), ("lite", False)])
def test_a_part_of_a_file_does_not_pass_for_the_whole(preset, said):
    listed = read_tasks()
    rows = [
        score_row({"task": "squad", "shots": 10, "evaluation_seed": seed}, items=1000, preset=preset) for seed in (0, 1)
    ]
    (endpoint,) = aggregation.collect(tables.from_rows(rows, TASK_SCORES), listed)
    assert ("squad over 1000 of 10570 items" in completion_rows(endpoint, listed)[0]["reason"]) == said


def test_nine_tasks_of_core_count():
    assert sum(one.completion and one.suite == "core" for one in read_tasks().values()) == 9
