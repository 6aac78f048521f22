"""Demonstrations: the reference's own, and ours: never the item itself, the same under every preset and process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.evaluation.prompts.demonstrations import SAMPLERS, demonstrations, repeated, shown_before
from smelt.evaluation.tasks.items import subset
from tests.evaluation.prompting import TASKS, answer, choice, numbered, schema, task

# By task and item the rows that DCLM's harness draws with the seed 1234.
DRAWN = json.loads((Path(__file__).parents[2] / "data" / "evals" / "dclm_demonstrations.json").read_text())
ROWS = {"squad": 1000}  # of the file that was drawn from, where it is not the full one
OURS = ["smelt", "nested"]


@pytest.mark.parametrize("label", DRAWN)
def test_dclm_draws_what_the_reference_draws(label):
    mine = TASKS["mmlu" if label == "mmlu_fewshot" else label]
    if mine.partition:  # the first category, and one behind it that must not matter
        items = numbered(100, "abstract_algebra") + [
            choice(100 + row, f"other {row}", category="anatomy") for row in range(30)
        ]
    else:
        items = numbered(ROWS.get(label, mine.items))
    found = demonstrations(mine, items, mine.shots, 1234, "dclm")
    for row, expected in DRAWN[label].items():
        assert list(found[int(row)]) == expected


def test_dclm_draws_each_category_from_a_stream_of_its_own():
    """Demonstrations of another category: each category is drawn as if it were alone in the file."""
    mine = task(partition=True)
    mixed = [choice(row, f"q{row}", category="ab"[row % 2]) for row in range(40)]
    found = demonstrations(mine, mixed, 3, 7, "dclm")
    alone = demonstrations(task(), numbered(20), 3, 7, "dclm")
    assert [found[row] for row in range(0, 40, 2)] == [tuple(2 * other for other in shown) for shown in alone]
    assert [found[row] for row in range(1, 40, 2)] == [tuple(2 * other + 1 for other in shown) for shown in alone]


@pytest.mark.parametrize("sampler", SAMPLERS)
@given(size=st.integers(1, 40), shots=st.integers(0, 45), seed=st.integers(0, 10**6))
def test_as_many_as_asked_for_each_once_and_never_the_item(sampler, size, shots, seed):
    """A few-shot prompt without demonstrations, or a crash where the pool is smaller than the number of shots."""
    for row, shown in enumerate(demonstrations(task(), numbered(size), shots, seed, sampler)):
        assert len(shown) == len(set(shown)) == min(shots, size - 1)
        assert row not in shown
        assert all(0 <= other < size for other in shown)


@pytest.mark.parametrize("sampler", OURS)
@given(queries=st.lists(st.integers(0, 4), min_size=1, max_size=30), shots=st.integers(1, 12), seed=st.integers(0, 99))
def test_a_duplicate_of_the_item_is_no_demonstration_and_costs_none(sampler, queries, shots, seed):
    """The item's own answer among its demonstrations, or fewer demonstrations where the pool holds duplicates."""
    items = [choice(row, f"query {query}", gold=row % 2) for row, query in enumerate(queries)]
    for item, shown in zip(items, demonstrations(task(), items, shots, seed, sampler), strict=True):
        assert not repeated(items, item, shown)
        assert len(shown) == min(shots, sum(other.query != item.query for other in items))


@pytest.mark.parametrize("sampler", OURS)
def test_the_twin_of_a_schema_is_no_demonstration_though_its_contexts_stand_the_other_way_round(sampler):
    items = [
        schema(0, ["so Ann", "so Bea"], "won."),
        schema(1, ["so Bea", "so Ann"], "lost."),
        schema(2, ["as Cy", "as Di"], "ran."),
    ]
    first, second, third = demonstrations(task("schema"), items, 3, 0, sampler)
    assert first == second == (2,)
    assert set(third) == {0, 1}


def test_dclm_keeps_a_duplicate_as_the_reference_does_and_it_can_be_counted():
    items = [answer(row, "the same", "x") for row in range(4)]
    shown = demonstrations(task("language_modeling"), items, 2, 0, "dclm")[0]
    assert len(shown) == 2
    assert repeated(items, items[0], shown)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_changes_the_demonstrations_and_a_preset_does_not(sampler):
    """A seed that does nothing; demonstrations that depend on how many items are scored, or on the shard."""
    items = numbered(300)
    first, second = (demonstrations(task(), items, 4, seed, sampler) for seed in (0, 1))
    assert sum(one != two for one, two in zip(first, second, strict=True)) > 290
    for count in (1, 16, 64):
        wanted = subset(items, count)
        found = demonstrations(task(), items, 4, 0, sampler, wanted)
        assert found == [first[item.index] for item in wanted]
    assert demonstrations(task(), items, 4, 0, sampler, items[100:200]) == first[100:200]


@pytest.mark.parametrize("sampler", OURS)
def test_neither_the_neighbours_of_an_item_nor_the_order_of_the_file_reach_its_generator(sampler):
    """One stream over all items, where a removed row changes every later prompt."""
    items = numbered(50)
    same = [item._replace(gold=1 - item.gold) for item in items[:1]] + items[1:]
    assert demonstrations(task(), same, 4, 0, sampler)[1:] == demonstrations(task(), items, 4, 0, sampler)[1:]


@pytest.mark.parametrize("sampler", OURS)
def test_another_task_with_the_same_items_has_other_demonstrations(sampler):
    items = numbered(50)
    assert demonstrations(task(), items, 4, 0, sampler) != demonstrations(task(name="yours"), items, 4, 0, sampler)


@given(size=st.integers(1, 50), seed=st.integers(0, 99))
def test_nested_demonstrations_are_the_first_of_one_order(size, seed):
    items = numbered(size)
    whole = demonstrations(task(), items, 32, seed, "nested")
    for shots in (1, 2, 4, 8, 16):
        found = demonstrations(task(), items, shots, seed, "nested")
        assert found == [shown[:shots] for shown in whole]


def test_smelt_draws_the_order_too():
    """A seed that picks demonstrations but leaves them in the order of the file."""
    found = demonstrations(task(), numbered(32), 10, 0, "smelt")
    assert all(list(shown) != sorted(shown) for shown in found)
    places = [shown.index(max(shown)) for shown in found]
    assert len(set(places)) > 5


@pytest.mark.parametrize("sampler", OURS)
def test_each_item_of_the_pool_is_drawn_about_equally_often(sampler):
    counts = [0] * 20
    for seed in range(60):
        for shown in demonstrations(task(), numbered(20), 5, seed, sampler):
            for row in shown:
                counts[row] += 1
    expected = 60 * 5  # binomial with p = 5/19: standard deviation 15
    assert all(abs(count - expected) < 5 * 15 for count in counts)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_demonstrations_come_from_the_items_category(sampler):
    items = [choice(row, f"q{row}", category="abc"[row % 3]) for row in range(30)]
    found = demonstrations(task(partition=True), items, 12, 0, sampler)
    assert all(row % 3 == other % 3 for row, shown in enumerate(found) for other in shown)
    assert {len(shown) for shown in found} == {9}


def test_fixed_demonstrations_are_the_first_of_the_category_but_for_the_item():
    fixed = [choice(row, f"dev {row}", category="ab"[row % 2]) for row in range(10)]
    assert shown_before(choice(0, "test", category="b"), fixed, 3) == (1, 3, 5)
    assert shown_before(choice(0, "dev 3", category="b"), fixed, 3) == (1, 5, 7)
    assert shown_before(choice(0, "test", category="c"), fixed, 3) == ()


def test_every_process_draws_the_same():
    """Demonstrations shuffled without a seed, or by the hash of a text, which each process salts."""
    code = (
        "from tests.evaluation.prompting import *\n"
        "from smelt.evaluation.prompts.demonstrations import *\n"
        "print([demonstrations(task(), numbered(99), 9, 1, name) for name in SAMPLERS])"
    )
    root = Path(__file__).parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, env={"PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    }
    assert len(outputs) == 1
    assert str(demonstrations(task(), numbered(99), 9, 1, "dclm")).encode() in outputs.pop()
