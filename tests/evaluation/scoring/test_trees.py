"""Trees and their packing."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.evaluation.scoring.trees import Tree, branches, fed, fill, pack


def test_all_but_the_last_token_of_a_continuation_is_fed():
    tree = Tree([0, 1, 2], [[3], [3, 4], [5, 6, 7], [8]])
    assert branches(tree) == [1, 2]
    assert fed(tree) == 6


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 50))
def test_rows_hold_each_tree_once_and_no_more_than_fits(lengths, capacity):
    rows = pack(lengths, capacity)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(len(row) == 1 or sum(lengths[index] for index in row) <= capacity for row in rows)


def best_fit(lengths, capacity):
    """Best-fit decreasing by a search through all rows; of equally full rows any will do."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(max(capacity - length, 0))
    return sorted(rooms)


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 50))
def test_rows_are_as_full_as_by_a_search_through_all(lengths, capacity):
    held = [sum(lengths[index] for index in row) for row in pack(lengths, capacity)]
    assert sorted(max(capacity - total, 0) for total in held) == best_fit(lengths, capacity)


def test_a_tree_longer_than_a_row_has_one_of_its_own():
    assert pack([3, 12, 7], 10) == [[1], [2, 0]]
    assert fill([[1], [2, 0]], [3, 12, 7], 10) == 1.0


def test_equal_lengths_keep_their_order_and_none_gives_no_row():
    assert pack([4, 4, 4], 8) == [[0, 1], [2]]
    assert pack([], 8) == []
    assert fill([], [], 8) == 1.0
    assert fill([[0, 1], [2]], [4, 4, 4], 8) == pytest.approx(0.75)


def test_a_large_mixed_set_fills_the_rows():
    draw = random.Random(0)
    shapes = [(1528, 500), (893, 150), (2103, 400), (366, 60), (82, 30), (30, 15)]  # mean lengths of tasks, spread
    lengths = [max(8, min(4096, round(draw.gauss(*draw.choice(shapes))))) for _ in range(4000)]
    assert fill(pack(lengths, 4096), lengths, 4096) > 0.94
