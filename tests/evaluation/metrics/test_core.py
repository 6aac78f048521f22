"""Core against published values and arithmetic, what is missing and why, and the calibration's columns."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from smelt.artifacts import read_table, write_table
from smelt.errors import UserError
from smelt.evaluation.metrics import aggregation, core
from smelt.evaluation.metrics.task_scores import TASK_SCORES
from smelt.evaluation.tasks.registry import chosen, read_tasks
from smelt.scaling.calibration.scores import read_scores
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.tables import from_rows
from smelt.tables import rows as rows_of
from tests.evaluation.scored_rows import score_row, scores_spec, task

FIXTURE = Path(__file__).parents[2] / "data" / "evals" / "dclm_core_scores.json"
TASKS = read_tasks()
DESK = [name for name, one in TASKS.items() if one.suite == "desk"]


def own_rows(names, seeds=(0, 1), score=lambda name, seed: 0.5, **values):
    """Rows of tasks at their own shots, once for a task without demonstrations."""
    return [
        score_row(
            {"task": name, "suite": TASKS[name].suite, "shots": TASKS[name].shots, "evaluation_seed": seed},
            score(name, seed),
            completion=TASKS[name].completion,
            **values,
        )
        for name in names
        for seed in (seeds if TASKS[name].shots else (None,))
    ]


def tables(rows, tmp_path, names=tuple(TASKS), **spec):
    """The four tables of the command."""
    write_table(pa.Table.from_pylist(rows, schema=TASK_SCORES), tmp_path / "task_scores.parquet", {})
    outputs = {name: tmp_path / f"{name}.parquet" for name in ("core", "completion", "mmlu", "scores")}
    text = scores_spec([TASKS[name] for name in names], **spec)
    arguments = ["--spec", text, "--task-scores", str(tmp_path / "task_scores.parquet")]
    core.main(arguments + [one for name, path in outputs.items() for one in (f"--{name}", str(path))])
    return {name: read_table(path).to_pylist() for name, path in outputs.items()}


def test_all_published_values_of_core_are_reproduced():
    models = json.loads(FIXTURE.read_text())
    published = [model[f"Core_{version}"] for model in models for version in ("v1", "v2")]
    names = [task.name for task in chosen(["core"], TASKS)]
    ours = [
        aggregation.centred_mean(TASKS, version)({name: {"score": model["icl"][name]} for name in names})
        for model in models
        for version in ("v1", "v2")
    ]
    assert len(published) == 156
    np.testing.assert_allclose(ours, published, rtol=0, atol=1e-9)


def test_the_categories_are_those_of_the_list_of_tasks():
    counted = [one.category for one in chosen(["core"], TASKS)]
    assert {name: counted.count(name) for name in counted} == core.CATEGORIES


def test_core_is_the_mean_over_seeds_with_zero_shot_tasks_in_each(tmp_path):
    names = [one.name for one in chosen(["core"], TASKS)]
    rows = own_rows(names, (3, 5, 8), lambda name, seed: 0.9 if seed is None else 0.7 + seed / 100)
    found = tables(rows, tmp_path)["core"][0]
    few = [name for name in names if TASKS[name].shots]
    assert len(few) == 15

    def by_hand(names, seed, version):
        score = {name: 0.7 + seed / 100 if TASKS[name].shots else 0.9 for name in names}
        chance = {name: getattr(TASKS[name], f"chance_{version}") for name in names}
        return np.mean([(score[name] - chance[name]) / (1 - chance[name]) for name in names])

    for version in ("v1", "v2"):
        assert found[f"core_{version}"] == pytest.approx(np.mean([by_hand(names, s, version) for s in (3, 5, 8)]))
    assert found["core_v1"] != found["core_v2"]
    values = [by_hand(names, seed, "v2") for seed in (3, 5, 8)]
    assert found["core_se"] == pytest.approx(np.std(values, ddof=1) / math.sqrt(3))
    reading = [one.name for one in chosen(["core"], TASKS) if one.category == "reading comprehension"]
    assert found["reading_comprehension"] == pytest.approx(np.mean([by_hand(reading, s, "v2") for s in (3, 5, 8)]))
    assert (found["tasks"], found["of"], found["evaluation_seeds"], found["items"]) == (22, 22, 3, 220)
    assert found["baselines"] == "v2"
    assert "Core over" not in found["reason"]
    assert "Core: the standard error rests on 3 evaluation seeds" in found["reason"]
    other = tables(rows, tmp_path, baselines="v1")["core"][0]
    assert (other["core_v1"], other["core_v2"]) == (found["core_v1"], found["core_v2"])
    values = [by_hand(names, seed, "v1") for seed in (3, 5, 8)]
    assert other["core_se"] == pytest.approx(np.std(values, ddof=1) / math.sqrt(3))


def test_core_over_fewer_tasks_says_so_and_is_no_metric_of_the_calibration(tmp_path):
    rows = own_rows(["copa", "arc_easy", "squad"], score=lambda name, seed: {"copa": 0.75}.get(name, 0.25))
    rows += [row | {"task": "boolq", "shots": 4} for row in own_rows(["arc_easy"])]
    found = tables(rows, tmp_path)
    row = found["core"][0]
    assert row["core_v2"] == pytest.approx((0.5 + 0 + 0.25) / 3)
    assert (row["tasks"], row["of"]) == (3, 22)
    assert "Core over 3 of 22 tasks" in row["reason"]
    assert "reading comprehension 1 of 3" in row["reason"]
    assert "not scored with their own number of shots: boolq (10)" in row["reason"]
    assert row["language_understanding"] is None
    assert "language understanding 0 of 6" in row["reason"]
    assert found["scores"] == []  # nor is Completion of one of its nine tasks


def test_completion_is_a_metric_of_the_calibration_where_all_nine_tasks_were_scored(tmp_path):
    """One of the nine, or the study's own suite, calibrated as DCLM's Completion."""
    nine = [one.name for one in chosen(["core"], TASKS) if one.completion]
    for names, expected in ((nine, {"completion"}), (nine[1:], set()), (nine[:1], set())):
        found = tables(own_rows([*names, "copa"]), tmp_path)["scores"]
        assert {one["metric"] for one in found} == expected
    found = tables(own_rows([*nine[1:], *DESK]), tmp_path)["scores"]
    assert {one["metric"] for one in found} == {"desk", "desk completion"}


def test_a_part_of_a_file_does_not_pass_for_the_whole(tmp_path):
    for preset, said in (("full", "squad over 10 of 10570 items"), ("lite", "")):
        row = tables(own_rows(["copa", "squad"], items=10, preset=preset), tmp_path)["core"][0]
        assert (said in row["reason"]) if said else ("10570" not in row["reason"])


def test_prompts_without_all_their_demonstrations_are_said(tmp_path):
    rows = own_rows(["squad"], truncated_share=0.25, mean_demonstrations=6.5) + own_rows(["copa", "operators"])
    rows += own_rows(["mmlu"], truncated_share=0.0, mean_demonstrations=4.0)
    found = tables(rows, tmp_path)
    said = "squad at 10 shots 25 % of items cut, 6.5 demonstrations on average"
    assert said in found["core"][0]["reason"]
    assert said in found["completion"][0]["reason"]
    assert "operators" not in found["core"][0]["reason"] + found["completion"][1]["reason"]
    assert "mmlu at 5 shots 0 % of items cut, 4 demonstrations on average" in found["mmlu"][0]["reason"]


def test_a_missing_task_is_no_zero():
    one = aggregation.mean_centred({"copa": 0.75, "squad": 0.5}, TASKS, "v2")
    assert one == pytest.approx(0.5)


def test_the_desk_suite_is_scored_beside_core_and_never_in_it(tmp_path):
    rows = own_rows(DESK, (0, 1), lambda name, seed: 0.1 if seed is None else 0.2 + 0.1 * seed)
    found = tables(rows, tmp_path, DESK)
    row = found["core"][0]
    assert row["core_v1"] is row["core_v2"] is row["core_se"] is None
    assert "no Core task was scored" in row["reason"]
    values = [(4 * 0.2 + 0.1) / 5, (4 * 0.3 + 0.1) / 5]
    assert row["other_score"] == pytest.approx(np.mean(values))
    assert row["other_se"] == pytest.approx(np.std(values, ddof=1) / math.sqrt(2))
    assert (row["other_tasks"], row["other_of"], row["tasks"]) == (5, 5, 0)
    assert "rests on 2 evaluation seeds" in row["reason"]
    (mmlu,) = found["mmlu"]
    assert mmlu["accuracy"] is None
    assert mmlu["reason"] == "MMLU is not among the study's tasks"
    assert {one["metric"] for one in found["scores"]} == {"desk", "desk completion"}


def test_one_seed_gives_no_standard_error_and_says_why(tmp_path):
    row = tables(own_rows(DESK, (0,)), tmp_path, DESK)["core"][0]
    assert row["other_se"] is None
    assert "no standard error: one evaluation seed" in row["reason"]
    row = tables(own_rows(["last_word"]), tmp_path, DESK)["core"][0]
    assert (row["other_se"], row["evaluation_seeds"]) == (None, 0)
    assert "no standard error: no task draws demonstrations" in row["reason"]
    assert "the study's own suite over 1 of 5 tasks" in row["reason"]


def test_mmlu_has_a_row_for_each_form(tmp_path):
    rows = own_rows(["mmlu"], (0, 1), lambda name, seed: 0.4 + 0.1 * seed, categories=57)
    rows += own_rows(["mmlu_standard"], (None,), lambda name, seed: 0.25)
    found = tables(rows, tmp_path)
    mmlu, fixed = found["mmlu"]
    assert (mmlu["accuracy"], mmlu["subjects"]) == (pytest.approx(0.45), 57)
    assert (mmlu["centred"], mmlu["accuracy_se"]) == (pytest.approx(0.2 / 0.75), pytest.approx(0.05))
    assert (fixed["accuracy"], fixed["centred"], fixed["evaluation_seeds"]) == (0.25, 0, 0)
    assert fixed["reason"] == "no standard error: no task draws demonstrations"
    metrics = [(one["metric"], one["task"], one["chance"]) for one in found["scores"]]
    assert metrics == [("mmlu", "", 0.25), ("mmlu_standard", "", 0.25)]
    missing = tables(own_rows(DESK), tmp_path)["mmlu"]
    assert {one["reason"] for one in missing} == {core.UNSCORED}
    others = tables([row | {"shots": 4} for row in own_rows(["mmlu"])], tmp_path)["mmlu"]
    assert [one["reason"] for one in others] == ["not scored with its own 5 shots, but with others", core.UNSCORED]
    for preset, said in (("full", True), ("lite", False)):
        part = tables(own_rows(["mmlu"], items=10, preset=preset), tmp_path)["mmlu"][0]
        assert ("mmlu over 10 of 14042 items" in part["reason"]) == said


def test_endpoints_that_were_not_scored_alike_are_refused(tmp_path):
    rows = own_rows(DESK)
    looped = {"architecture": "smelt"}
    tables(rows + [row | looped for row in rows], tmp_path)  # alike
    for other, message in (
        (rows[1:], "dyck_languages with 4 shots, evaluation seed 0 and 10 items is scored at only one of"),
        ([row | {"items": 9} for row in rows], "items is scored at only one of baseline-H64-S85-0 branch 1 and smelt"),
    ):
        with pytest.raises(UserError, match=message):
            tables(rows + [row | looped for row in other], tmp_path)
    with pytest.raises(UserError, match=r"dyck_languages has the evaluation seeds \[0, 1\] and operators \[0, 2\]"):
        tables(own_rows(["dyck_languages"]) + own_rows(["operators"], (0, 2)), tmp_path)


def test_a_part_may_be_scored_otherwise_than_another(tmp_path):
    rows = own_rows(DESK) + own_rows(DESK, (0, 1, 2), part="last_endpoint", preset="lite")
    found = tables(rows, tmp_path)
    assert [(row["part"], row["evaluation_seeds"]) for row in found["core"]] == [
        ("all_endpoints", 2),
        ("last_endpoint", 3),
    ]
    assert len({json.dumps(row) for row in found["scores"]}) == len(found["scores"])
    desk = [row for row in found["scores"] if (row["metric"], row["task"]) == ("desk", "")]
    assert len(desk) == 1


def test_the_calibration_accepts_the_scores(tmp_path):
    names = [*(one.name for one in chosen(["core"], TASKS)), "mmlu", *DESK]
    runs = [("baseline", 1), ("baseline", 2), ("smelt", 1)]
    rows = [
        row | {"architecture": name, "branch": branch, "branch_step": 10 * branch}
        for name, branch in runs
        for row in own_rows(names, score=lambda name, seed: 0.6)
    ]
    written = tables(rows, tmp_path)["scores"]
    endpoints = [
        dict.fromkeys(ENDPOINTS.names)
        | {"architecture": name, "scale": "H64", "sparsity": "S85", "seed": 0, "branch_step": 10 * branch}
        for name, branch in runs
    ]
    read = rows_of(read_scores(tmp_path / "scores.parquet", from_rows(endpoints, ENDPOINTS)))
    assert len(read) == len(written)
    metrics = {(row["metric"], row["higher_is_better"]) for row in read if not row["task"]}
    assert metrics == {
        ("core", True), ("mmlu", True), ("desk", True), ("completion", False), ("desk completion", False),
    }  # fmt: skip
    tasks = [row for row in read if row["metric"] == "core" and row["task"]]
    assert len(tasks) == 3 * 22
    assert {(row["task"], row["chance"]) for row in tasks} == {
        (one.name, one.chance_v2) for one in chosen(["core"], TASKS)
    }
    answers = [row["score"] for row in read if row["metric"] == "completion"]
    assert answers == [2.0] * (3 * 10)  # 20 nats over 10 tokens, nine tasks and their mean


def test_a_table_without_a_column_is_one_clear_error(tmp_path):
    write_table(pa.table({"task": ["quiz"]}), tmp_path / "task_scores.parquet", {})
    with pytest.raises(UserError, match="the column 'architecture' is missing"):
        core.read_scores(str(tmp_path / "task_scores.parquet"))


def test_a_task_with_fixed_demonstrations_stands_in_every_seed():
    rows = [score_row({"task": "one", "evaluation_seed": seed}, 0.2 * seed) for seed in (1, 2)]
    rows += [score_row({"task": "two", "evaluation_seed": None}, 0.5)]
    (endpoint,) = aggregation.collect(from_rows(rows, TASK_SCORES), {name: task(name) for name in ("one", "two")})
    found = endpoint.estimate(["one", "two"], aggregation.mean_of("score"))
    assert (found.value, found.seeds) == (pytest.approx((0.35 + 0.45) / 2), 2)
