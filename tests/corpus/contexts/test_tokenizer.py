"""The byte-level tokenizer: deterministic, reversible, and deaf to special tokens in the text."""

import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.corpus.contexts.tokenizer import BOS, encode, load_tokenizer, sample, train
from smelt.errors import UserError


@pytest.fixture(scope="module")
def tokenizer(built):
    return load_tokenizer(built.path("tokenizer.json"))


def test_size_and_special_token(built, tokenizer):
    content = json.loads(built.path("tokenizer.json").read_text())
    assert tokenizer.get_vocab_size() == 300
    assert tokenizer.token_to_id(BOS) == 0
    assert [(token["id"], token["content"], token["special"]) for token in content["added_tokens"]] == [(0, BOS, True)]


def test_text_cannot_produce_the_special_token(tokenizer):
    text = f"a {BOS} and {BOS}{BOS} in a document"
    ids = encode(tokenizer, [text, BOS])
    assert all(0 not in part for part in ids)
    assert tokenizer.decode(ids[0].tolist()) == text


@given(st.text())
def test_round_trip(tokenizer, text):
    assert tokenizer.decode(encode(tokenizer, [text])[0].tolist(), skip_special_tokens=False) == text


def test_round_trip_of_the_corpus(built, tokenizer):
    texts = pq.read_table(built.path("documents.parquet"))["text"].to_pylist()
    assert [tokenizer.decode(ids.tolist()) for ids in encode(tokenizer, texts)] == texts


@pytest.mark.parametrize("environment", [{"TOKENIZERS_PARALLELISM": "false"}, {"RAYON_NUM_THREADS": "3"}])
def test_the_same_bytes_whatever_the_threads(built, tmp_path, environment):
    out = tmp_path / "tokenizer.json"
    subprocess.run(
        [sys.executable, "-m", "smelt.corpus.contexts.tokenizer", "--spec", '{"vocabulary":300}', "--documents",
         str(built.path("documents.parquet")), "--out", str(out)],
        check=True,
        env=os.environ | environment,
    )  # fmt: skip
    assert out.read_bytes() == built.path("tokenizer.json").read_bytes()


def test_sample_is_training_text_with_equal_shares(built):
    table = pq.read_table(built.path("documents.parquet")).to_pylist()
    sides = {row["text"]: row for row in table}
    texts = list(sample(built.path("documents.parquet"), 0.02))
    assert all(sides[text]["stream"] != "heldout" for text in texts)
    sizes = {name: sum(sides[t]["bytes"] for t in texts if sides[t]["source"] == name) for name in ("letters", "notes")}
    assert all(10_000 <= size < 14_000 for size in sizes.values())


def test_too_little_text_for_the_vocabulary():
    with pytest.raises(UserError, match=r"corpus.vocabulary: the text yields \d+ tokens, not 5000"):
        train(iter(["a short text", "and another"]), 5000)
