"""Scores of tasks against arithmetic: choices, ties, schemas, texts, partitions, and files that are incomplete."""

import dataclasses
import math
import random

import pytest

from smelt.artifacts import read_provenance, read_table
from smelt.errors import UserError
from smelt.evaluation.metrics.task_scores import TASK_SCORES, main
from smelt.evaluation.tasks import generate
from smelt.evaluation.tasks.items import read_items
from smelt.evaluation.tasks.registry import read_tasks
from tests.evaluation.scored_rows import RUN, row, scores_spec, task, text, write


def score(rows, tasks, tmp_path, **spec):
    scores, out = write(rows, tmp_path / "scores.parquet"), tmp_path / "task_scores.parquet"
    main(["--spec", scores_spec(tasks, **spec), "--scores", scores, "--out", str(out)])
    return read_table(out).to_pylist()


def test_a_choice_is_the_likeliest_a_token_and_the_other_rules_stand_beside_it(tmp_path):
    rows = [
        row(0, 0, False, logp=-3.0, tokens=1, characters=12, bytes=3),  # best by the sum and by characters
        row(0, 1, True, logp=-4.0, tokens=2, characters=8, bytes=8),  # best a token
        row(0, 2, False, logp=-5.0, tokens=1, characters=5, bytes=20),  # best a byte
    ]
    (found,) = score(rows, [task(chance_v2=0.25)], tmp_path)
    assert (found["score"], found["score_sum"], found["score_characters"], found["score_bytes"]) == (1, 0, 0, 0)
    assert (found["centred"], found["chance"]) == (1.0, 0.25)
    assert (found["nll"], found["tokens"], found["bytes"]) == (4.0, 2, 8)
    assert found["items"] == found["categories"] == 1


def test_equal_choices_go_to_the_first_and_are_counted(tmp_path):
    rows = []
    for item, gold in enumerate((0, 1, 2)):
        rows += [row(item, choice, choice == gold, logp=-2.0) for choice in range(3)]
    rows += [row(3, 0, False, logp=-2.0), row(3, 1, True, logp=-1.0)]  # no tie
    (found,) = score(rows, [task()], tmp_path)
    assert (found["score"], found["ties"]) == (0.5, 3)


def test_a_constant_model_scores_the_share_of_first_choices_whatever_the_lengths(tmp_path):
    """Each token has the same likelihood; the sums' rounding must not break the ties."""
    rng = random.Random(0)
    golds = [rng.randrange(4) for _ in range(400)]
    rows = []
    for item, gold in enumerate(golds):
        lengths = [rng.randrange(1, 40) for _ in range(4)]
        rows += [
            row(item, choice, choice == gold, sum([-math.log(50257)] * length), length)
            for choice, length in enumerate(lengths)
        ]
    (found,) = score(rows, [task()], tmp_path)
    assert found["score"] == golds.count(0) / 400
    assert found["ties"] == 400


def test_a_schema_compares_one_continuation_under_its_contexts(tmp_path):
    rows = [row(0, 0, False, -6.0, 3), row(0, 1, True, -5.0, 3), row(1, 0, True, -6.0, 3), row(1, 1, False, -5.0, 3)]
    rows[3] |= {"truncated": 7, "dropped": 2, "demonstrations": [3, 4]}  # one option of item 1
    (found,) = score(rows, [task(kind="schema", chance_v2=0.5)], tmp_path)
    assert (found["score"], found["centred"], found["nll"]) == (0.5, 0.0, 11.0)
    assert (found["truncated_share"], found["dropped"]) == (0.5, 2)
    assert found["mean_demonstrations"] == 3  # four before one item, two before an option of the other
    assert found["score_sum"] is found["score_characters"] is found["score_bytes"] is None


def test_a_text_is_right_where_each_token_was_the_likeliest(tmp_path):
    rows = [text(0, True, -1.5, 3), text(1, False, -2.5, 2), text(2, False, -4.0, 5), text(3, True, 0.0, 1)]
    (found,) = score(rows, [task(kind="language_modeling", completion=True)], tmp_path)
    assert (found["score"], found["nll"], found["tokens"], found["completion"]) == (0.5, 8.0, 11, True)


def test_a_partitioned_task_averages_its_categories_and_not_its_items(tmp_path):
    rows = [text(item, item < 1, -1.0, category="small" if item < 1 else "large") for item in range(5)]
    rows[4]["greedy"] = True
    quiz = task(kind="language_modeling", partition=True)
    (found,) = score(rows, [quiz], tmp_path)
    assert found["score"] == pytest.approx((1 + 1 / 4) / 2, abs=1e-15)
    assert found["categories"] == 2
    (found,) = score(rows, [dataclasses.replace(quiz, partition=False)], tmp_path)
    assert (found["score"], found["categories"]) == (2 / 5, 1)


def test_the_order_of_rows_and_of_endpoints_does_not_matter(tmp_path):
    rows = [
        row(item, choice, choice == item % 3, -((item * 7 + choice * 5) % 11) - 0.1 * branch, 1 + choice,
            branch=branch, branch_step=10 * branch, seed=seed, part=part, shots=shots)
        for part, branches in (("all_endpoints", (1, 2)), ("last_endpoint", (2,)))
        for branch in branches
        for shots, seed in ((0, None), (4, 0), (4, 1))
        for item in range(6)
        for choice in range(3)
    ]  # fmt: skip
    found = score(rows, [task()], tmp_path)
    first = (tmp_path / "task_scores.parquet").read_bytes()
    random.Random(1).shuffle(rows)
    assert score(rows, [task()], tmp_path) == found
    assert (tmp_path / "task_scores.parquet").read_bytes() != first  # the input's digest differs
    keys = [(one["part"], one["branch"], one["shots"], one["evaluation_seed"]) for one in found]
    shots = [(0, None), (4, 0), (4, 1)]
    assert keys == [
        (*where, *one) for where in (("all_endpoints", 1), ("all_endpoints", 2), ("last_endpoint", 2)) for one in shots
    ]
    assert [one["preset"] for one in found] == ["smoke"] * 6 + ["lite"] * 3


def test_runs_keep_their_labels_and_the_file_its_origin(tmp_path):
    other = RUN | {"run": "smelt-H64-S85-seed7", "architecture": "smelt", "seed": 7}
    paths = [write([text(0)], tmp_path / "one.parquet"), write([text(0)], tmp_path / "two.parquet", other["run"])]
    quiz = task(kind="language_modeling")
    out = tmp_path / "out.parquet"
    main(["--spec", scores_spec([quiz], [RUN, other]), "--scores", *paths, "--out", str(out)])
    table = read_table(out)
    assert [(one["architecture"], one["seed"]) for one in table.to_pylist()] == [("baseline", 0), ("smelt", 7)]
    assert table.schema.names == TASK_SCORES.names
    assert all(one.metadata[b"description"] for one in table.schema)
    assert set(read_provenance(out)["inputs"]) == {"one.parquet", "two.parquet"}
    swapped = r"two\.parquet: this is of run smelt-H64-S85-seed7, expected run baseline-H64-S85"
    with pytest.raises(UserError, match=swapped):
        main(["--spec", scores_spec([quiz], [RUN, other]), "--scores", *reversed(paths), "--out", str(out)])
    with pytest.raises(UserError, match="1 runs but 2 files"):
        main(["--spec", scores_spec([quiz], [RUN]), "--scores", *paths, "--out", str(out)])


@pytest.mark.parametrize("answer", [None, "Invalid"])
def test_an_oracle_and_a_constant_model_on_the_generated_tasks(answer, tmp_path):
    """The oracle has all right; always the same answer has the share of the items whose answer it is."""
    names = ("dyck_languages", "cs_algorithms", "operators", "repeat_copy")
    tasks = [read_tasks()[name] for name in names]
    files = [tmp_path / f"{name}.jsonl" for name in names]
    generate.main(["--spec", '{"items": 120, "seed": 3}', "--out", *map(str, files)])
    items = {one.name: read_items(path, one) for one, path in zip(tasks, files, strict=True)}
    rows = [
        text(item.index, answer in (None, item.continuation or item.choices[0]), task=name)
        for name, found in items.items()
        for item in found
    ]
    shares = {
        name: sum(answer in (None, item.continuation or item.choices[0]) for item in found) / len(found)
        for name, found in items.items()
    }
    scores = {one["task"]: one["score"] for one in score(rows, tasks, tmp_path)}
    assert scores == pytest.approx(shares, abs=1e-12)
    wrong = {"dyck_languages": 0, "operators": 0, "repeat_copy": 0}
    assert scores == dict.fromkeys(names, 1) if answer is None else scores == {**scores, **wrong}
    assert 0.2 < scores["cs_algorithms"] <= 1


CHOICES = [row(0, 0, True, -1.0), row(0, 1, False, -2.0), row(1, 0, False, -2.0), row(1, 1, True, -2.0)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (CHOICES[:3], "item 1: not exactly one choice is the right one"),
        ([*CHOICES[:2], CHOICES[3]], "item 1: a choice is missing or appears twice"),
        ([*CHOICES, CHOICES[3]], "item 1: a choice is missing or appears twice"),
        (CHOICES[:1], "item 0: multiple_choice does not go with its number of choices"),
        ([CHOICES[0], row(0, 1, True)], "item 0: not exactly one choice"),
        ([*CHOICES[:3], row(1, 1, True, math.nan)], "item 1: a log-likelihood is not finite"),
        ([*CHOICES[:3], row(1, 1, True, -math.inf)], "item 1: a log-likelihood is not finite"),
        ([*CHOICES[:3], row(1, 1, True, tokens=0)], "item 1: a continuation has no token"),
        ([text(0, task="other")], "the task 'other' is none of the study's"),
        ([one | {"part": "middle"} for one in CHOICES], "the part 'middle' has no preset"),
        (CHOICES + [one | {"seed": 1} for one in CHOICES[:2]], "seed 1 has other items than"),
        ([], "no scored continuation"),
    ],
)
def test_an_incomplete_or_foreign_file_is_one_clear_error(rows, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        score(rows, [task()], tmp_path)
    assert "scores.parquet" in str(caught.value)
    assert not (tmp_path / "task_scores.parquet").exists()


def test_a_choice_without_characters_leaves_the_rules_by_length_missing_with_the_reason(tmp_path):
    rows = [row(0, 0, True, -1.0), row(0, 1, False, -2.0, characters=0, bytes=0)]
    (found,) = score(rows, [task()], tmp_path)
    assert (found["score"], found["score_sum"]) == (1, 1)
    assert found["score_characters"] is found["score_bytes"] is None
    assert "a choice has none" in found["reason"]


def test_unknown_chance_levels_are_refused(tmp_path):
    with pytest.raises(UserError, match="'v3'; known are v1, v2"):
        score(CHOICES, [task()], tmp_path, baselines="v3")
    (found,) = score(CHOICES, [task(chance_v1=0.2, chance_v2=0.6)], tmp_path, baselines="v1")
    assert found["chance"] == 0.2
