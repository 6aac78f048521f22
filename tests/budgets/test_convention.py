"""Keys charged to a query, by each convention."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.budgets.convention import Attention
from smelt.errors import UserError


@pytest.mark.parametrize(
    ("attention", "keys", "words"),
    [
        (Attention(keys=392), 392, "mean keys"),
        (Attention(length=392), 392, "documents of 392 tokens, all keys"),
        (Attention(length=783, causal="half"), 392, "documents of 783 tokens, causal half"),
        (Attention(lengths=(3, 1)), 10 / 4, "measured documents, all keys"),
        (Attention(lengths=(3, 1), causal="half"), 7 / 4, "measured documents, causal half"),
    ],
)
def test_conventions(attention: Attention, keys: float, words: str) -> None:
    assert attention.charged == keys
    assert str(attention) == words


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8).map(tuple))
def test_measured_keys_are_those_of_the_mask(lengths: tuple[int, ...]) -> None:
    seen = sum(sum(range(1, length + 1)) for length in lengths)
    assert Attention(lengths=lengths, causal="half").charged == seen / sum(lengths)
    assert Attention(lengths=(lengths[0],) * 3).charged == Attention(length=lengths[0]).charged == lengths[0]


def test_whole_numbers_stay_whole() -> None:
    assert isinstance(Attention(keys=392.0).charged, int)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "exactly one"),
        ({"keys": 1, "length": 1}, "exactly one"),
        ({"keys": 0}, "keys is 0"),
        ({"lengths": (3, 0)}, "whole numbers of at least 1"),
        ({"length": 5, "causal": "most"}, "causal is 'most'; known are full, half"),
        ({"keys": 5, "causal": "half"}, "charged as they stand"),
    ],
)
def test_bad_settings(settings: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Attention(**settings)
