"""Overlap of held-out documents with the training text: runs of thirteen words, by a second implementation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.corpus.documents.overlap import SHINGLE, Overlap, overlaps, shingles

WORDS = [f"word{number}".encode() for number in range(60)]


def text(*numbers: int) -> bytes:
    return b" ".join(WORDS[number] for number in numbers)


def test_a_passage_inside_another_document_is_found():
    contained = text(41, 42, *range(5, 25), 43)
    found = overlaps([contained, text(*range(40, 60))], [text(*range(30))])
    assert found == [Overlap(20 - SHINGLE + 1, 23 - SHINGLE + 1), Overlap(0, 8)]
    assert found[0].share == pytest.approx(8 / 11)


def test_case_and_punctuation_do_not_matter():
    assert overlaps([text(*range(20)).upper().replace(b" ", b", ")], [text(*range(20))]) == [Overlap(8, 8)]


def test_a_short_document_is_one_run():
    training = [text(1, 2, 3), text(*range(20))]
    heldout = [text(1, 2, 3), text(4, 5), b"..."]
    assert overlaps(heldout, training) == [Overlap(1, 1), Overlap(0, 1), Overlap(0, 0)]
    assert Overlap(0, 0).share == 0


def test_nothing_held_out_and_nothing_trained():
    assert overlaps([], [text(1)]) == []
    assert overlaps([b"!"], [text(1)]) == [Overlap(0, 0)]
    assert overlaps([text(*range(20))], []) == [Overlap(0, 8)]
    assert overlaps([text(*range(20))], [b"?"]) == [Overlap(0, 8)]


documents = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=40), min_size=1, max_size=4)


@given(documents, documents)
def test_the_count_is_that_of_sets_of_words(training, heldout):
    def runs(numbers):
        size = min(SHINGLE, len(numbers))
        return [tuple(numbers[i : i + size]) for i in range(len(numbers) - size + 1)]

    known = {run for numbers in training for run in runs(numbers)}
    expected = [Overlap(sum(run in known for run in runs(own)), len(runs(own))) for own in heldout]
    assert overlaps([text(*numbers) for numbers in heldout], (text(*numbers) for numbers in training)) == expected


def test_hashes_are_spread():
    many = np.unique(shingles(b" ".join(f"w{i}".encode() for i in range(20_000))))
    assert many.size == 20_000 - SHINGLE + 1
