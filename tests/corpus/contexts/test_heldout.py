"""The held-out sample: enough of each source, every length, nothing far beyond what is asked for."""

from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.corpus.contexts.contexts import pieces_of
from smelt.corpus.contexts.heldout import BUCKETS, OVERSHOOT, Settings, bucket, choose, sample
from smelt.errors import UserError
from tests.corpus.contexts.test_packing import segments

SPLITS = ("evaluation", "tuning")


def documents(sizes: dict[str, list[int]], context: int = 4096):
    made = []
    for source, lengths in sizes.items():
        for number, length in enumerate(lengths):
            identity = f"{hash((number * 7919) % 1009):08x}{source}{number:04d}"
            row = {"position": number, "id": identity, "source": source, "category": "c"}
            made.append(list(pieces_of([row], [np.ones(length, np.uint16)], context)))
    return made


def tokens_of(chosen):
    counts = Counter()
    for whole in chosen:
        counts[whole[0].source] += whole[0].document_tokens
    return counts


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(1, 6000), min_size=1, max_size=30), min_size=1))
def test_enough_of_each_source_or_an_error_that_says_by_how_much(sizes):
    settings = Settings(heldout_tokens=1000)
    short = sorted(source for source, lengths in sizes.items() if sum(lengths) < 1000)
    if short:
        missing = 1000 - sum(sizes[short[0]])
        with pytest.raises(UserError, match=rf"source '{short[0]}' has .* {missing} fewer than corpus.heldout_tokens"):
            choose(documents(sizes), settings)
        return
    chosen = choose(documents(sizes), settings)
    assert all(tokens_of(chosen)[source] >= 1000 for source in sizes)
    assert len({whole[0].id for whole in chosen}) == len(chosen)
    present = {bucket(n) for lengths in sizes.values() for n in lengths} - {len(BUCKETS)}
    assert present <= {bucket(whole[0].document_tokens) for whole in chosen}
    assert choose(documents(sizes)[::-1], settings) == chosen


@given(st.integers(0, 10**6), st.sampled_from([0, 64]))
def test_rates_are_tuned_on_documents_that_score_nothing(seed, segment):
    generator = np.random.default_rng(seed)
    sizes = {source: np.exp(generator.uniform(0, 6, 200)).astype(int).tolist() for source in "ab"}
    found = documents(sizes, segment or 4096)
    scoring, tuning = (sample(found, Settings(segment_tokens=segment, split=split)) for split in SPLITS)
    assert scoring == choose(found, Settings())
    assert not {whole[0].id for whole in scoring} & {whole[0].id for whole in tuning}
    assert all(tokens_of(tuning)[source] >= 1000 for source in sizes)


def test_a_source_too_small_for_both_splits_is_an_error():
    found = documents({"a": [300] * 6})
    assert sample(found, Settings())
    with pytest.raises(UserError, match="source 'a' has 600 held-out tokens beside the evaluation sample, 400 fewer"):
        sample(found, Settings(split="tuning"))
    with pytest.raises(UserError, match="source 'a' has 300 held-out tokens, 700 fewer"):
        sample(found[:1], Settings(split="tuning"))


def test_no_more_than_needed():
    chosen = choose(documents({"a": [300] * 50, "b": [40] * 500, "c": [3000, 900, 200, 5000, 20000]}), Settings())
    counts = tokens_of(chosen)
    assert 1000 <= counts["a"] <= 1200
    assert 1000 <= counts["b"] <= 1040 + 300
    assert 1000 <= counts["c"] <= (1 + OVERSHOOT) * 1000 + 3000  # its one document of the bucket up to 4096
    assert not any(len(whole) > 1 for whole in chosen)


def test_cut_documents_only_where_needed():
    chosen = choose(documents({"a": [500, 9000]}), Settings(heldout_tokens=1000))
    assert [len(whole) for whole in sorted(chosen, key=len)] == [1, 3]


def test_buckets():
    assert [bucket(n) for n in (1, 32, 33, 4096, 4097)] == [0, 0, 1, 7, 8]


def test_the_command(built):
    path = built.heldout(context=256, heldout_tokens=900)
    table = pq.read_table(path)
    texts = {row["id"]: row for row in pq.read_table(built.path("documents.parquet")).to_pylist()}
    counts = Counter()
    lengths = Counter()
    for document, _, _, tokens in segments(path):
        assert texts[document]["stream"] == "heldout"
        counts[texts[document]["source"]] += len(tokens)
        lengths[document] += len(tokens)
    assert set(counts) == {"letters", "notes"}
    assert min(counts.values()) >= 900
    for row in table.to_pylist():
        for document, whole in zip(row["documents"], row["document_tokens"], strict=True):
            assert lengths[document] == whole
    assert path.read_bytes() == built.heldout(context=256, heldout_tokens=900).read_bytes()


def test_segments_shorter_than_the_context(built):
    path = built.heldout(context=256, segment_tokens=32, heldout_tokens=900)
    rows = pq.read_table(path).to_pylist()
    assert max(length for row in rows for length in row["segments"]) == 32
    assert {len(row["tokens"]) for row in rows} == {256}
    lengths = Counter()
    for document, _, _, tokens in segments(path):
        lengths[document] += len(tokens)
    whole = {name: size for row in rows for name, size in zip(row["documents"], row["document_tokens"], strict=True)}
    assert lengths == whole
    assert set(lengths) == {document for document, *_ in segments(built.heldout(context=256, heldout_tokens=900))}


def test_the_command_says_what_is_missing(built):
    with pytest.raises(UserError, match=r"source '\w+' has \d+ held-out tokens, \d+ fewer than corpus.heldout_tokens"):
        built.heldout(context=256, heldout_tokens=10**6)
