"""Best-fit packing, shards that are prefixes of one another, and the tokens in them."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from smelt.artifacts import read_provenance
from smelt.corpus.contexts import shard
from smelt.corpus.contexts.contexts import DocumentStream, Piece, contexts_table, pieces_of
from smelt.corpus.contexts.packing import best_fit, cut, fill_rows
from smelt.corpus.contexts.shard import Settings, choose_rows
from smelt.corpus.contexts.streams import GOLDEN, stream_kind, stream_name, stream_start
from smelt.corpus.contexts.tokenizer import load_tokenizer, token_type
from smelt.corpus.summary import mean_keys
from smelt.errors import UserError

CONTEXT, ROWS = 128, 8
SETTINGS = {"context": CONTEXT, "shard_contexts": ROWS}


@given(st.integers(1, 60).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(1, c), max_size=120))))
def test_best_fit_is_a_packing_and_a_tight_one(case):
    capacity, lengths = case
    rows = best_fit(lengths, capacity)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    filled = [sum(lengths[index] for index in row) for row in rows]
    assert all(fill <= capacity for fill in filled)
    # No two rows fit into one, or best fit would have put the second one's first piece into the first.
    assert sum(2 * fill <= capacity for fill in filled) <= 1
    assert len(rows) <= 11 / 9 * sum(lengths) / capacity + capacity  # far from tight, but never off by a factor
    assert best_fit(lengths, capacity) == rows


@given(st.lists(st.integers(1, 40), max_size=80))
def test_best_fit_equals_the_plain_one(lengths):
    """The same fills as the textbook's loop over all rows."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms[rooms.index(min(fitting))] -= length
        else:
            rooms.append(40 - length)
    filled = [40 - sum(lengths[index] for index in row) for row in best_fit(lengths, 40)]
    assert sorted(filled) == sorted(rooms)


@given(st.integers(1, 500), st.integers(2, 40))
def test_cutting(tokens, context):
    pieces = cut(tokens, context)
    assert sum(pieces) == tokens
    assert all(piece == context - 1 for piece in pieces[:-1])
    assert 1 <= pieces[-1] <= context - 1


documents = st.lists(st.integers(1, 400), min_size=1, max_size=40)


@given(documents, st.integers(16, 100), st.integers(1, 4))
def test_segments_shorter_than_the_context(sizes, segment, more):
    """No segment is longer than asked for, no token is lost, and attention costs what it does in contexts as short."""
    context = more * segment
    rows = [{"position": i, "id": f"{i:064x}", "source": "s", "category": "c"} for i in range(len(sizes))]
    tokens = [np.arange(size, dtype=np.uint16) for size in sizes]
    pieces = list(pieces_of(rows, tokens, segment))
    packed = best_fit([piece.length for piece in pieces], context)
    table = contexts_table([[pieces[i] for i in row] for row in packed], 0, context)
    found: dict[str, list[int]] = {}
    lengths, parts = [], []
    for row in table.to_pylist():
        ends = np.cumsum([0, *row["segments"]])
        assert ends[-1] <= context
        for document, piece, start, end in zip(row["documents"], row["pieces"], ends, ends[1:], strict=False):
            lengths.append(int(end - start))
            parts.append((document, piece, row["tokens"][start + 1 : end]))
    for document, _, part in sorted(parts):
        found[document] = found.get(document, []) + part
    assert max(lengths) <= segment
    assert found == {row["id"]: ids.tolist() for row, ids in zip(rows, tokens, strict=True)}
    short = [piece for row in best_fit([piece.length for piece in pieces], segment) for piece in row]
    assert sorted(lengths) == sorted(pieces[i].length for i in short)
    assert mean_keys(np.array(lengths))[0] <= (segment + 1) / 2


def test_rows_of_tokens():
    pieces = [np.array(ids, np.uint16) for ids in ([5, 6], [7], [8, 9, 10])]
    assert fill_rows([[2, 1], [0]], pieces, 7, 0).tolist() == [[0, 8, 9, 10, 0, 7, 0], [0, 5, 6, 0, 0, 0, 0]]


@given(st.lists(st.integers(1, CONTEXT - 1), min_size=1, max_size=200), st.randoms())
def test_the_chosen_rows_do_not_depend_on_the_order_of_the_window(lengths, random):
    pieces = [
        Piece(i, 0, False, f"{i:064x}", "source", "category", n, np.zeros(n, np.uint16)) for i, n in enumerate(lengths)
    ]
    rows, carry = choose_rows(pieces, Settings(**SETTINGS))
    assert sorted([piece.position for row in rows for piece in row] + [p.position for p in carry]) == list(
        range(len(pieces))
    )
    fills = [sum(piece.length for piece in row) for row in rows]
    assert all(fill <= CONTEXT for fill in fills)
    assert len(rows) <= ROWS


def segments(path):
    """(document, piece, tokens) of each segment of a file of contexts."""
    for row in pq.read_table(path).to_pylist():
        start = 0
        names = zip(row["documents"], row["pieces"], row["cut"], row["segments"], strict=True)
        for document, piece, is_cut, length in names:
            assert row["tokens"][start] == 0
            yield document, piece, is_cut, row["tokens"][start + 1 : start + length]
            start += length
        assert not any(row["tokens"][start:])


@pytest.mark.parametrize("segment", [0, 32])
def test_shards_hold_each_document_once_and_whole(built, segment):
    paths = [built.shard("stable", number, segment_tokens=segment, **SETTINGS) for number in range(5)]
    tokenizer = Tokenizer.from_file(str(built.path("tokenizer.json")))
    texts = {row["id"]: row["text"] for row in pq.read_table(built.path("documents.parquet")).to_pylist()}
    pieces: dict[str, dict[int, list[int]]] = {}
    for path in paths:
        table = pq.read_table(path)
        assert table.num_rows == ROWS
        assert max(length for lengths in table["segments"].to_pylist() for length in lengths) <= (segment or CONTEXT)
        assert str(table["tokens"].type) == f"fixed_size_list<element: uint16>[{CONTEXT}]"
        for document, piece, is_cut, tokens in segments(path):
            assert piece not in pieces.setdefault(document, {})
            pieces[document][piece] = tokens
            assert is_cut or len(tokenizer.encode(texts[document]).ids) == len(tokens)
    state = read_provenance(paths[-1])["state"]
    stream = DocumentStream(built.path("documents.parquet"), "stable")
    carried = {(stream.read([position])[0]["id"], piece) for position, piece in state["carry"]}
    assert len(pieces) > 40
    for document, parts in pieces.items():
        missing = {piece for identity, piece in carried if identity == document}
        assert set(parts) | missing == set(range(len(parts) + len(missing)))
        assert not set(parts) & missing
        if not missing:
            assert tokenizer.decode([token for i in range(len(parts)) for token in parts[i]]) == texts[document]
    # Everything before the state's position is either packed or carried: nothing is lost.
    read = {row["id"] for row in stream.read(range(state["next"]))}
    assert read == set(pieces) | {identity for identity, _ in carried}
    contexts = np.concatenate([pq.read_table(path)["context"].to_numpy() for path in paths])
    assert contexts.tolist() == list(range(5 * ROWS))
    assert np.mean([read_provenance(path)["state"]["fill"] for path in paths]) > 0.98


def test_a_longer_study_changes_no_shard(built):
    before = [built.shard("stable", number, **SETTINGS).read_bytes() for number in range(2)]
    again = [built.shard("stable", number, needed=1000, **SETTINGS).read_bytes() for number in range(3)]
    assert again[:2] == before


def test_each_seed_starts_at_another_place_of_the_text(built):
    """Prefixes of one another as for seed 0, each document once, and other text first."""
    first, second = [], []
    for number in range(3):
        first += segments(built.shard("stable", number, **SETTINGS))
        second += segments(built.shard("stable-seed1", number, **SETTINGS))
    assert not {document for document, *_ in first} & {document for document, *_ in second}
    names = [(document, piece) for document, piece, *_ in second]
    assert len(set(names)) == len(names)
    stream = DocumentStream(built.path("documents.parquet"), "stable", stream_start("stable-seed1"))
    plain = DocumentStream(built.path("documents.parquet"), "stable")
    turned, whole = ([row["id"] for row in one.read(range(one.length))] for one in (stream, plain))
    place = int(stream.length * GOLDEN)
    assert turned == whole[place:] + whole[:place] != whole
    assert [row["position"] for row in stream.read([5, 2])] == [5, 2]


def test_names_and_starts_of_the_streams_of_seeds():
    names = [stream_name("decay", seed) for seed in range(5)]
    assert names == ["decay", *(f"decay-seed{seed}" for seed in range(1, 5))]
    assert {stream_kind(name) for name in names} == {"decay"}
    assert [stream_start(name) for name in names] == pytest.approx([0, 0.618, 0.236, 0.854, 0.472], abs=1e-3)
    assert 0 <= stream_start(stream_name("stable", 2**31 - 1)) < 1


def rows_of(corpus, number):
    return pq.read_table(corpus.shard("stable", number, **SETTINGS)).to_pylist()


def test_rows_are_ordered_neither_by_length_nor_by_source(built):
    first = rows_of(built, 0)
    longest = [max(row["segments"]) for number in (0, 1, 2) for row in rows_of(built, number)]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))
    assert any(row["segments"] != sorted(row["segments"], reverse=True) for row in first)
    assert {source for row in first for source in row["sources"]} == {"letters", "notes"}


def test_too_little_text_says_by_how_much(built):
    shards = (built.shard("decay", number, needed=5000, **SETTINGS) for number in range(1000))
    written = []
    with pytest.raises(UserError) as caught:
        written.extend(shards)
    message = str(caught.value)
    stream = DocumentStream(built.path("documents.parquet"), "decay")
    tokenizer = Tokenizer.from_file(str(built.path("tokenizer.json")))
    total = sum(
        sum(piece + 1 for piece in cut(len(tokenizer.encode(row["text"]).ids), CONTEXT))
        for row in stream.read(range(stream.length))
    )
    filled = int(message.split("fills ")[1].split()[0])
    assert filled == pytest.approx(total / CONTEXT, rel=0.03)
    assert ROWS * len(written) <= filled < ROWS * (len(written) + 1)
    assert "the decay stream is too short" in message
    assert f"needs 5000, so {(5000 - filled) * CONTEXT} tokens" in message
    assert "raise corpus.megabytes, add sources, or train fewer steps" in message
    assert sorted(built.path("decay").iterdir()) == written  # and no half a file


def test_tokens_take_the_smallest_type_that_fits():
    assert [token_type(size) for size in (256, 65_536, 65_537)] == [np.uint8, np.uint16, np.uint32]


def test_a_missing_predecessor_and_a_broken_tokenizer(built, tmp_path):
    arguments = ["--spec", json.dumps(SETTINGS), "--stream", "stable", "--shard", "1", "--documents"]
    arguments += [str(built.path("documents.parquet")), "--tokenizer", str(built.path("tokenizer.json"))]
    with pytest.raises(UserError, match="needs --previous"):
        shard.main([*arguments, "--previous", "--out", str(tmp_path / "x.parquet")])
    with pytest.raises(UserError, match="not a readable tokenizer"):
        load_tokenizer(built.path("documents.parquet"))
