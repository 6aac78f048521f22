"""The corpus's summary adds up, and warns where the study charges other keys than a query sees."""

import csv
import json
import random
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt.corpus import summary
from smelt.corpus.documents import clean
from smelt.corpus.summary import mean_keys
from tests.corpus.conftest import prose

SOURCES = ("quotes", "others")


def test_mean_keys():
    causal, full = mean_keys(np.array([3, 1]))
    assert causal == pytest.approx((1 + 2 + 3 + 1) / 4)
    assert full == pytest.approx((3 * 3 + 1) / 4)


@pytest.fixture(scope="module")
def summed(built):
    settings = {"context": 128, "shard_contexts": 8}
    shards = {
        "stable": [built.shard("stable", number, **settings) for number in range(3)],
        "decay": [built.shard("decay", 0, **settings)],
    }
    held = built.heldout(context=128, heldout_tokens=500)

    def run(keys: float) -> None:
        names = ("documents", "cleaning")
        summary.main(
            ["--spec", json.dumps({"attention_keys": keys}), "--sources", str(built.table),
             *(part for name in names for part in (f"--{name}", str(built.path(f"{name}.parquet")))),
             "--tokenizer", str(built.path("tokenizer.json")), "--heldout", str(held),
             "--stable", *map(str, shards["stable"]), "--decay", *map(str, shards["decay"]),
             "--summary", str(built.path("summary.parquet")), "--streams", str(built.path("streams.parquet")),
             "--summary-table", str(built.path("corpus.csv")), str(built.path("corpus.parquet")),
             "--streams-table", str(built.path("streams.csv")), str(built.path("streams_table.parquet"))]
        )  # fmt: skip

    run(60)
    return built, shards, run


def test_rows_add_up(summed):
    built, shards, _ = summed
    rows = pq.read_table(built.path("summary.parquet")).to_pylist()
    texts = pq.read_table(built.path("documents.parquet")).to_pylist()
    assert [row["source"] for row in rows] == ["letters", "notes"]
    assert sum(row["documents"] for row in rows) == len(texts)
    assert all(row["heldout_shingles"] > 0 and row["heldout_overlap"] == 0 for row in rows)
    assert sum(row["bytes"] for row in rows) == sum(row["bytes"] for row in texts)
    counts = Counter()
    for path in shards["stable"]:
        for row in pq.read_table(path).to_pylist():
            for source, length in zip(row["sources"], row["segments"], strict=True):
                counts[source] += length - 1
    assert {row["source"]: row["stable_tokens"] for row in rows} == counts
    assert all(1 < row["bytes_per_token"] < 10 for row in rows)
    assert clean.REASONS.keys() <= rows[0].keys()
    with open(built.path("corpus.csv"), newline="") as file:
        assert [row["source"] for row in csv.DictReader(file)] == ["letters", "notes"]
    streams = pq.read_table(built.path("streams.parquet")).to_pylist()
    assert [(row["stream"], row["contexts"]) for row in streams][:2] == [("stable", 24), ("decay", 8)]
    assert streams[0]["tokens"] == sum(counts.values()) + streams[0]["segments"]
    assert streams[0]["fill"] == pytest.approx(streams[0]["tokens"] / (24 * 128))
    assert streams[0]["keys_segment"] / 2 < streams[0]["keys_causal"] < streams[0]["keys_segment"]


def test_overlap_of_the_held_out_sample_with_the_training_text(corpus):
    rng = random.Random(1)
    originals = [prose(rng, 100) for _ in range(60)]
    quoting = [" ".join(text.split()[:40]) + " " + prose(rng, 30) for text in originals]
    corpus.add("quotes", {f"{i}.txt": text for i, text in enumerate(originals + quoting)})
    corpus.add("others", {f"{i}.txt": prose(rng, 100) for i in range(40)})
    texts = pq.read_table(corpus.documents(heldout_share=0.3)).to_pylist()
    heldout = {source: [t for t in texts if (t["stream"], t["source"]) == ("heldout", source)] for source in SOURCES}
    sample = {row["id"] for rows in heldout.values() for row in rows[::2]}

    def runs(rows):
        words = [row["text"].split() for row in rows]
        return [tuple(found[i : i + 13]) for found in words for i in range(len(found) - 12)]

    known = set(runs([row for row in texts if row["stream"] != "heldout"]))
    expected = {source: runs(rows[::2]) for source, rows in heldout.items()}
    found = summary.heldout_overlaps(corpus.path("documents.parquet"), sample)
    assert found == {source: (sum(run in known for run in own), len(own)) for source, own in expected.items()}
    assert found["others"].shared == 0 < found["quotes"].shared < found["quotes"].shingles


def test_warning_beyond_five_percent(summed, capsys):
    built, _, run = summed
    seen = pq.read_table(built.path("streams.parquet"))["keys_causal"][0].as_py()
    run(seen * 1.04)
    assert "warning" not in capsys.readouterr().err
    run(seen * 1.06)
    assert f"sees {seen:.1f} keys in the mean" in capsys.readouterr().err
