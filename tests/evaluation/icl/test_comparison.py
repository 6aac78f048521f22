"""The in-context sweep against arithmetic: which cells count, the tests over seeds and items, the averages."""

import itertools
import math
import random

import numpy as np
import pytest

from smelt.artifacts import read_provenance, read_table
from smelt.errors import UserError
from smelt.evaluation.icl import comparison
from smelt.evaluation.metrics import task_scores
from smelt.evaluation.metrics.settings import Run
from smelt.labels import RUN_KEYS
from tests.evaluation.scored_rows import RUN, row, scores_spec, task, text, write

SEEDS = range(10)
LM = task("operators", "language_modeling")
DYCK = task("dyck_languages", "language_modeling", sweep_shots=16)
QUIZ = task("quiz", sweep_shots=8, chance_v1=0.9, chance_v2=0.25)


def run(architecture="baseline", sparsity="S85", seed=0):
    return RUN | {"architecture": architecture, "sparsity": sparsity, "seed": seed}


def texts(name, right, items=20, shots=(0, 8), seeds=SEEDS, **values):
    """Answers of a task, the first right(shots, seed) of them right."""
    return [
        text(item, item < right(count, seed), part="last_endpoint", task=name, shots=count, seed=seed, **values)
        for count in shots
        for seed in (seeds if count else (None,))
        for item in range(items)
    ]


def tables(scored, tasks, tmp_path, **spec):
    """(differences, sweep) of runs with their rows."""
    runs = [one for one, _ in scored]
    paths = [write(rows, tmp_path / f"{place}.parquet", named["run"]) for place, (named, rows) in enumerate(scored)]
    middle = str(tmp_path / "task_scores.parquet")
    task_scores.main(["--spec", scores_spec(tasks, runs), "--scores", *paths, "--out", middle])
    text = scores_spec(tasks, runs, **{"reference": "baseline"} | spec)
    outputs = ["--out", str(tmp_path / "icl.parquet"), "--sweep", str(tmp_path / "sweep.parquet")]
    comparison.main(["--spec", text, "--task-scores", middle, "--scores", *paths, *outputs])
    return [read_table(tmp_path / name).to_pylist() for name in ("icl.parquet", "sweep.parquet")]


def named(rows, name, **values):
    (found,) = [row for row in rows if row["task"] == name and all(row[key] == one for key, one in values.items())]
    return found


def test_a_gain_in_each_of_ten_seeds_has_the_smallest_p(tmp_path):
    """20 items: the reference has 5 right, the looped one 6 or 7."""
    scored = [
        (run(), texts("operators", lambda shots, seed: 5)),
        (run("smelt"), texts("operators", lambda shots, seed: 6 + (seed or 0) % 2)),
    ]
    found, sweep = tables(scored, [LM], tmp_path)
    row = named(found, "operators")
    differences = [(1 + seed % 2) / 20 for seed in SEEDS]
    assert (row["shots"], row["cells"], row["evaluation_seeds"], row["patterns"]) == (8, 1, 10, 1024)
    assert (row["score"], row["reference_score"]) == (pytest.approx(0.325), pytest.approx(0.25))
    assert row["difference"] == pytest.approx(np.mean(differences))
    assert row["difference_se"] == pytest.approx(np.std(differences, ddof=1) / math.sqrt(10))
    assert (row["p_value"], row["p_two_sided"], row["p_holm"]) == (1 / 1024, 2 / 1024, 2 / 1024)
    assert (row["item_p"], row["items"]) == (1 / 2, 20)  # two items differ, both for the better
    assert (row["resolved"], row["training_seeds"]) == (False, 1)
    assert row["reason"] == (
        "not resolved: p_holm is below 0.05, but over items it is 0.5: few items decide it; "
        "one training seed a cell: no test knows what another would give"
    )
    zero = named(sweep, "operators", architecture="smelt", shots=0)
    assert (zero["score"], zero["score_se"], zero["evaluation_seeds"]) == (0.3, None, 0)
    assert zero["reason"] == "no standard error: no task draws demonstrations"
    most = named(sweep, "operators", architecture="smelt", shots=8)
    assert (most["score"], most["evaluation_seeds"]) == (pytest.approx(0.325), 10)
    assert most["score_se"] == pytest.approx(np.std([0.3, 0.35] * 5, ddof=1) / math.sqrt(10))


def pair(gain, items, seeds=SEEDS, training=(0,), **values):
    """Both architectures at some training seeds, 5 answers of the reference right, gain(evaluation seed) more."""
    right = {"baseline": lambda shots, seed: 5, "smelt": lambda shots, seed: 5 + gain(seed or 0)}
    return [
        (run(name, seed=seed), texts("operators", right[name], items, seeds=seeds, **values))
        for name in right
        for seed in training
    ]


def test_one_item_more_in_every_seed_resolves_nothing(tmp_path):
    """12 items, one more right in each of ten seeds: p_holm .002, and the toss of one coin over items."""
    row = named(tables(pair(lambda seed: 1, 12), [LM], tmp_path)[0], "operators")
    assert (row["p_holm"], row["item_p"], row["item_p_holm"], row["resolved"]) == (2 / 1024, 1, 1, False)
    assert "not resolved: p_holm is below 0.05, but over items it is 1: few items decide it" in row["reason"]


def test_what_many_items_and_all_seeds_say_is_resolved(tmp_path):
    row = named(tables(pair(lambda seed: 7, 20, training=(0, 1)), [LM], tmp_path)[0], "operators")
    assert (row["p_holm"], row["item_p_holm"], row["training_seeds"]) == (2 / 1024, 2**-6, 2)
    assert (row["resolved"], row["reason"]) == (True, None)
    one = named(tables(pair(lambda seed: 7, 20), [LM], tmp_path)[0], "operators")
    assert (one["resolved"], one["training_seeds"]) == (True, 1)
    assert one["reason"] == "one training seed a cell: no test knows what another would give"


def test_a_loss_is_resolved_as_a_gain_is(tmp_path):
    """Seven items of twenty fewer are right in every seed."""
    right = {"baseline": lambda shots, seed: 12, "smelt": lambda shots, seed: 5}
    scored = [(run(name), texts("operators", right[name])) for name in right]
    row = named(tables(scored, [LM], tmp_path)[0], "operators")
    assert (row["difference"], row["p_value"]) == (pytest.approx(-7 / 20), 1)
    assert (row["p_holm"], row["item_p_holm"], row["resolved"]) == (2 / 1024, 2**-6, True)


def test_what_some_demonstrations_alone_say_is_not_resolved(tmp_path):
    """Many items better on average, but worse in half of the seeds."""
    row = named(tables(pair(lambda seed: 14 if seed % 2 else -4, 20), [LM], tmp_path)[0], "operators")
    assert (row["item_p_holm"] < 0.05 < row["p_holm"], row["resolved"]) == (True, False)
    assert "not resolved: item_p_holm is below 0.05, but over evaluation seeds p_holm is 0.12" in row["reason"]


def test_the_items_are_corrected_over_the_same_tasks(tmp_path):
    def rows(right):
        return [one for name in ("operators", "dyck_languages") for one in texts(name, lambda *_: right, shots=(8,))]

    found, _ = tables([(run(), rows(5)), (run("smelt"), rows(10))], [LM, DYCK], tmp_path)
    tasks = [named(found, name) for name in ("operators", "dyck_languages")]
    assert [(row["item_p"], row["item_p_holm"]) for row in tasks] == [(2**-4, 2**-3)] * 2
    assert not any(row["resolved"] for row in tasks)  # one of them alone would be
    assert named(found, "average")["item_p_holm"] is None


@pytest.mark.parametrize(("shots", "asked", "most"), [((0, 3, 6), (), 6), ((0, 3, 6), (3,), 3), ((0, 4, 10), (), 4)])
def test_the_sweep_is_over_the_numbers_that_were_asked_for(shots, asked, most, tmp_path):
    """Scores at 3 and 6 demonstrations left out, and the largest of the others called the largest."""
    scored = [(run(name), texts("operators", lambda *_: 9, shots=shots)) for name in ("baseline", "smelt")]
    found, sweep = tables(scored, [LM], tmp_path, shots=asked)
    assert named(found, "operators")["shots"] == most
    expected = asked or [count for count in shots if count <= LM.sweep_shots]
    assert {row["shots"] for row in sweep if row["task"] == "operators"} == set(expected)


def test_tasks_that_share_no_number_of_demonstrations_have_no_average(tmp_path):
    """Each task asked with its own number."""
    rows = texts("operators", lambda *_: 9, shots=(4,)) + texts("dyck_languages", lambda *_: 9, shots=(10,))
    found, sweep = tables([(run(), rows), (run("smelt"), rows)], [LM, DYCK], tmp_path)
    average = named(found, "average")
    assert average["difference"] is average["shots"] is None
    assert average["reason"] == "there is no number of demonstrations that all of its tasks have"
    assert {row["reason"] for row in sweep if row["task"] == "average"} == {
        f"only 1 of 2 tasks have {count} shots" for count in (4, 10)
    }
    assert named(found, "dyck_languages")["shots"] == 10


def test_demonstrations_that_no_prompt_held_are_said(tmp_path):
    """A file of six rows asked with eight, and contexts that were cut."""
    short = [
        (one, [row | {"demonstrations": row["demonstrations"][:5], "truncated": row["item"] % 4 // 3} for row in rows])
        for one, rows in pair(lambda seed: 0, 20, shots=(0, 4, 8))
    ]
    found, sweep = tables(short, [LM], tmp_path)
    said = "at 8 shots 25 % of items cut, 5 demonstrations on average"
    assert said in named(found, "operators")["reason"]
    assert said in named(found, "average")["reason"]
    at = {count: named(sweep, "operators", architecture="smelt", shots=count)["reason"] for count in (0, 4, 8)}
    assert at[8] == said
    most = named(sweep, "average", architecture="smelt", shots=8)
    assert (most["truncated_share"], most["mean_demonstrations"]) == (0.25, 5)
    assert at[4] == "at 4 shots 25 % of items cut, 4 demonstrations on average"
    assert at[0].endswith("at 0 shots 25 % of items cut")


def test_p_is_the_share_of_all_patterns(tmp_path):
    rng = random.Random(0)
    counts = [rng.randrange(3, 10) for _ in SEEDS]
    scored = [
        (run(), texts("operators", lambda shots, seed: 6)),
        (run("smelt"), texts("operators", lambda shots, seed: counts[seed or 0])),
    ]
    row = named(tables(scored, [LM], tmp_path)[0], "operators")
    moves = [count - 6 for count in counts]
    sums = [sum(map(int.__mul__, moves, signs)) for signs in itertools.product((1, -1), repeat=10)]
    assert row["p_value"] == sum(one >= sum(moves) for one in sums) / 1024
    assert row["p_two_sided"] == sum(abs(one) >= abs(sum(moves)) for one in sums) / 1024


def test_only_cells_in_which_both_beat_chance_count_and_training_seeds_are_averaged_first(tmp_path):
    """S85: two training seeds; S95: the reference at chance; S97: no partner."""
    right = {
        ("baseline", "S85", 0): 8, ("baseline", "S85", 1): 10, ("smelt", "S85", 0): 11, ("smelt", "S85", 1): 12,
        ("baseline", "S95", 0): 5, ("smelt", "S95", 0): 16, ("baseline", "S97", 0): 20,
        ("smelt", "S85", 2): 20,
    }  # fmt: skip

    def choices(count):
        return [
            row(
                item,
                choice,
                choice == 0,
                -1 - ((choice == 0) != (item < count)),
                part="last_endpoint",
                shots=8,
                seed=seed,
            )
            for seed in (0, 1)
            for item in range(20)
            for choice in range(4)
        ]

    # Where the right choice is not the best one, the other three tie and the first of them is taken.
    scored = [(run(*key), choices(count)) for key, count in right.items()]
    found, sweep = tables(scored, [QUIZ], tmp_path)
    quiz = named(found, "quiz")
    assert quiz["cells"] == 1
    assert quiz["reference_score"] == pytest.approx((8 + 10) / 40)
    assert quiz["score"] == pytest.approx((11 + 12) / 40)  # without the seed that the reference lacks
    assert quiz["training_seeds"] == 2
    assert "training seed" not in quiz["reason"]
    assert "1 of 2 cells left out: not both beat chance (0.25)" in quiz["reason"]
    assert "2 evaluation seeds have 4 sign patterns: a two-sided p cannot fall below 0.5" in quiz["reason"]
    assert (quiz["p_value"], quiz["resolved"]) == (0.25, False)
    assert quiz["item_p"] == 2 / 2**4  # items 8 to 11 of that cell differ
    curve = named(sweep, "quiz", architecture="baseline")
    assert curve["cells"] == 2  # the sweep takes all cells that both have
    assert curve["score"] == pytest.approx(((8 + 10) / 40 + 5 / 20) / 2)


def test_the_differences_of_the_items_sum_to_the_difference_of_the_scores(tmp_path):
    rng = random.Random(1)
    quiz = task("quiz", "language_modeling", partition=True, sweep_shots=8)

    def scored(architecture, sparsity):
        rows = [
            text(
                item,
                rng.random() < 0.5,
                part="last_endpoint",
                task=name,
                shots=count,
                seed=seed,
                category="abc"[item % 7 % 3],
            )
            for name in ("quiz", "operators")
            for count in (1, 8)
            for seed in range(3)
            for item in range(23)
        ]
        return run(architecture, sparsity), rows

    chosen = [scored(*key) for key in itertools.product(("baseline", "smelt"), ("S85", "S95"))]
    found, _ = tables(chosen, [quiz, LM], tmp_path)
    tasks = {one.name: one for one in (quiz, LM)}
    runs = [tuple(one[name] for name in RUN_KEYS) for one, _ in chosen]
    items = {}
    for place, (one, _) in enumerate(chosen):
        path = tmp_path / f"{place}.parquet"
        items |= comparison.item_means(path, Run(**one), tasks, {(name, 8) for name in tasks})
    for name, members in (("average", ("quiz", "operators")), ("quiz", ("quiz",)), ("operators", ("operators",))):
        one = comparison.Member(name, members, len(members), 0.0)
        differences = comparison.item_differences(items, one, 8, ("smelt", "baseline"), runs)
        assert len(differences) == 23 * len(members) == named(found, name)["items"]
        assert differences.sum() == pytest.approx(named(found, name)["difference"], abs=1e-12)


def test_exchanged_files_of_scores_are_an_error(tmp_path):
    runs = [run(), run("smelt") | {"run": "smelt-H64-S85"}]
    scored = [(one, texts("operators", lambda shots, seed: 5)) for one in runs]
    tables(scored, [LM], tmp_path)
    first, second = (tmp_path / f"{number}.parquet" for number in range(2))
    spec = scores_spec([LM], runs, reference="baseline")
    outputs = ["--out", str(tmp_path / "exchanged.parquet"), "--sweep", str(tmp_path / "exchanged_sweep.parquet")]
    arguments = ["--spec", spec, "--task-scores", str(tmp_path / "task_scores.parquet"), *outputs]
    with pytest.raises(UserError, match=r"1\.parquet: this is of run smelt-H64-S85, expected run baseline-H64-S85"):
        comparison.main([*arguments, "--scores", str(second), str(first)])
    assert not (tmp_path / "exchanged.parquet").exists()


def test_the_average_is_over_all_tasks_and_at_shots_that_all_have(tmp_path):
    def rows(gain):
        return [
            *texts("operators", lambda shots, seed: 10 + gain, shots=(0, 1, 8)),
            *texts("dyck_languages", lambda shots, seed: 4 + (shots // 8) * gain, shots=(0, 1, 8, 16)),
        ]

    scored = [(run(), rows(0)), (run("smelt"), rows(2))]
    found, sweep = tables(scored, [DYCK, LM], tmp_path)
    average = named(found, "average")
    assert (average["shots"], average["items"], average["cells"]) == (8, 40, 1)
    assert average["difference"] == pytest.approx((2 + 2) / 2 / 20)
    assert average["p_value"] == 1 / 1024
    assert average["p_holm"] is average["resolved"] is None
    assert "averages are not among the tests" in average["reason"]
    assert named(found, "average without Dyck")["difference"] == pytest.approx(2 / 20)
    dyck = named(found, "dyck_languages")
    assert (dyck["shots"], dyck["difference"]) == (16, pytest.approx(4 / 20))
    assert [named(found, name)["p_holm"] for name in ("operators", "dyck_languages")] == [4 / 1024] * 2
    values = [named(sweep, "average", architecture="smelt", shots=shots)["score"] for shots in (0, 1, 8)]
    assert values == pytest.approx([(12 + 4) / 40, (12 + 4) / 40, (12 + 6) / 40])
    most = named(sweep, "average", architecture="smelt", shots=16)
    assert (most["score"], most["reason"]) == (None, "only 1 of 2 tasks have 16 shots")
    assert named(sweep, "average without Dyck", architecture="smelt", shots=8)["score"] == pytest.approx(12 / 20)


def test_the_standard_score_and_tasks_outside_the_sweep_are_no_part_of_it(tmp_path):
    apart = task("last_word", "language_modeling", sweep_shots=0, shots=0)
    rows = texts("operators", lambda shots, seed: 9, shots=(0, 8, 10)) + texts("last_word", lambda s, _: 9, shots=(0,))
    rows += [one | {"part": "all_endpoints"} for one in rows]
    found, sweep = tables([(run(), rows), (run("smelt"), rows)], [LM, apart], tmp_path)
    assert {one["task"] for one in found} == {"average", "average without Dyck", "operators"}
    assert {one["shots"] for one in sweep} == {0, 8}
    row = named(found, "operators")
    assert (row["difference"], row["p_value"], row["item_p"], row["resolved"]) == (0, 1, 1, False)


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        (1, "seed has 2 sign patterns: a two-sided p cannot fall below 1, nor p_holm over 2 tasks below 1"),
        (2, "seeds have 4 sign patterns: a two-sided p cannot fall below 0.5, nor p_holm over 2 tasks below 1"),
        (
            6,
            "seeds have 64 sign patterns: a two-sided p cannot fall below 0.03125, nor p_holm over 2 tasks below 0.06",
        ),
        (7, None),
    ],
)
def test_what_few_seeds_cannot_show_is_said(seeds, text, tmp_path):
    def rows(right):
        both = ("operators", "dyck_languages")
        return [one for name in both for one in texts(name, lambda s, _: right, shots=(8,), seeds=range(seeds))]

    found, _ = tables([(run(), rows(5)), (run("smelt"), rows(14))], [LM, DYCK], tmp_path)
    row = named(found, "operators")
    assert (row["p_value"], row["patterns"]) == (2.0**-seeds, 2**seeds)
    assert row["resolved"] is (seeds >= 7)
    assert (text in row["reason"]) if text else "patterns" not in (row["reason"] or "")
    assert (row["difference_se"] is None) is (seeds == 1)


def test_what_is_missing_has_its_reason(tmp_path):
    rows = texts("operators", lambda shots, seed: 0)
    looped = texts("operators", lambda shots, seed: 4)
    found, sweep = tables([(run(), rows), (run("smelt"), looped)], [LM, DYCK], tmp_path)
    assert named(found, "operators")["reason"] == "in no cell of 1 do both beat chance (0)"
    assert named(found, "dyck_languages")["reason"] == "not scored in the sweep"
    assert all(one["p_value"] is one["difference"] is one["resolved"] is None for one in found)
    assert named(sweep, "dyck_languages", architecture="smelt")["reason"] == "not scored in the sweep"
    assert "average over 1 of 2 tasks" in named(sweep, "average", architecture="smelt", shots=8)["reason"]
    found, sweep = tables([(run(), looped), (run("smelt", "S95"), looped)], [LM], tmp_path)
    assert named(found, "operators")["reason"] == "no cell and training seed has both smelt and baseline"
    assert {one["reason"] for one in sweep if one["tasks"]} == {"no cell has an endpoint of every architecture"}
    assert named(found, "average")["reason"] == "no cell and training seed has both smelt and baseline"
    only = texts("operators", lambda shots, seed: 4, shots=(0,))
    found, _ = tables([(run(), only), (run("smelt"), only)], [LM], tmp_path)
    assert named(found, "operators")["reason"].startswith("no demonstrations are drawn with 0 shots")
    every = [one | {"part": "all_endpoints"} for one in looped]
    found, _ = tables([(run(), every), (run("smelt"), every)], [LM], tmp_path)
    assert named(found, "operators")["reason"] == "not scored in the sweep"
    found, _ = tables([(run(), looped), (run("smelt"), looped)], [LM], tmp_path)
    assert named(found, "average without Dyck")["shots"] == 8
    found, _ = tables([(run(), texts("dyck_languages", lambda s, _: 4))], [DYCK], tmp_path)
    assert found == []


def test_a_study_of_dyck_alone_has_no_average_without_it(tmp_path):
    rows = texts("dyck_languages", lambda shots, seed: 4)
    found, _ = tables([(run(), rows), (run("smelt"), rows)], [DYCK], tmp_path)
    assert named(found, "average without Dyck")["reason"] == "the sweep has no such task"


def test_mistakes_are_clear_errors(tmp_path):
    rows = texts("operators", lambda shots, seed: 4)
    with pytest.raises(UserError, match="'baseline' has no run; known are smelt"):
        tables([(run("smelt"), rows)], [LM], tmp_path)
    second = [one | {"branch": 2} for one in rows]
    with pytest.raises(UserError, match="baseline-H64-S85-0 has the branches 1 and 2"):
        tables([(run(), rows + second)], [LM], tmp_path)
    other = [one | {"item": one["item"] + 1} for one in rows]
    with pytest.raises(UserError, match="operators: the runs were scored on different items"):
        tables([(run(), rows), (run("smelt"), other)], [LM], tmp_path)
    fewer = texts("operators", lambda shots, seed: 4, seeds=range(9))
    with pytest.raises(UserError, match="is scored at only one of"):
        tables([(run(), rows), (run("smelt"), fewer)], [LM], tmp_path)


def test_the_same_bytes_twice_whatever_the_order_of_rows(tmp_path):
    rows = texts("operators", lambda shots, seed: 4 + shots % 3)
    scored = [(run(), rows), (run("smelt"), texts("operators", lambda shots, seed: 6))]
    tables(scored, [LM], tmp_path)
    first = [(tmp_path / name).read_bytes() for name in ("icl.parquet", "sweep.parquet")]
    tables(scored, [LM], tmp_path)
    assert [(tmp_path / name).read_bytes() for name in ("icl.parquet", "sweep.parquet")] == first
    assert set(read_provenance(tmp_path / "icl.parquet")["inputs"]) == {
        "task_scores.parquet", "0.parquet", "1.parquet",
    }  # fmt: skip
    for schema in (comparison.ICL, comparison.SWEEP):
        assert all(one.metadata[b"description"] for one in schema)
