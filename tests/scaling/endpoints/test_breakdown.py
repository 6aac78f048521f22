"""Losses by source and by length: the same means as the endpoints', the buckets' edges, what cannot be compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.artifacts import read_provenance
from smelt.corpus.contexts.heldout import BUCKETS, bucket
from smelt.errors import UserError
from smelt.scaling.endpoints import breakdown, collect

RUN = {
    "run": "smelt-H32-S85",
    "architecture": "smelt",
    "scale": "H32",
    "sparsity": "S85",
    "seed": 0,
    "flops_per_token": 1e6,
    "params": 10,
    "kv_bytes_per_token": 4,
    "S": 0.85,
    "S_own": 0.85,
    "S_baseline": 0.85,
    "S_nominal": 0.85,
    "branch_steps": [],
    "batch_contexts": 8,
    "decay_steps": 2,
    "active_params": 5,
    "looped_params": 2,
    "visits": 2,
    "expansion": 8.0,
}
# document, piece, source, category, tokens, document_tokens, loss
TEXTS = [
    ("a", 0, "python", "Code", 32, 32, 64.0),
    ("b", 0, "python", "Code", 33, 33, 99.0),
    ("c", 0, "news", "Web", 4096, 4096, 8192.0),
    ("d", 0, "news", "Web", 4096, 5000, 8192.0),
    ("d", 1, "news", "Web", 904, 5000, 904.0),
    ("e", 0, "wiki", "Knowledge", 40, 40, 40.0),
]
NAMES = ("document", "piece", "source", "category", "tokens", "document_tokens", "loss")


def write(path: Path, texts: Any = TEXTS, steps: Any = (10, 20), shift: float = 0.0, run: str = "r0") -> Path:
    rows = [
        dict(zip(NAMES, text, strict=True))
        | {"run": run, "branch": branch, "branch_step": step, "loss": text[-1] + shift * branch}
        for branch, step in enumerate(steps, start=1)
        for text in texts
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def spec(runs: int = 1) -> str:
    made = [RUN | {"run": f"r{i}", "scale": f"H{i}"} for i in range(runs)]
    return json.dumps({"context": 4096, "s_convention": "baseline", "runs": made})


def run(folder: Path, paths: list[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    outs = folder / "sources.parquet", folder / "lengths.parquet"
    breakdown.main(
        ["--spec", spec(len(paths)), "--losses", *map(str, paths), "--sources", str(outs[0]), "--lengths", str(outs[1])]
    )
    return pq.read_table(outs[0]).to_pylist(), pq.read_table(outs[1]).to_pylist()


def test_means_by_source_and_their_mean_is_the_endpoints_loss(tmp_path: Path) -> None:
    paths = [write(tmp_path / "0" / "losses.parquet"), write(tmp_path / "1" / "losses.parquet", shift=0.37, run="r1")]
    sources, _ = run(tmp_path, paths)
    assert len(sources) == 2 * 2 * 3
    first = {row["source"]: row for row in sources[:3]}
    assert first["python"]["loss"] == (64 + 99) / 65
    assert first["python"]["tokens"] == 65
    assert first["news"]["category"] == "Web"
    out = tmp_path / "endpoints.parquet"
    collect.main(["--spec", spec(2), "--losses", *map(str, paths), "--out", str(out)])
    for place, row in enumerate(pq.read_table(out).to_pylist()):
        mine = sources[3 * place : 3 * place + 3]
        assert {(one["scale"], one["branch_step"]) for one in mine} == {(row["scale"], row["branch_step"])}
        assert float(np.mean([one["loss"] for one in mine])) == row["loss"]  # to the last bit


def test_buckets_count_a_document_once_under_its_whole_length(tmp_path: Path) -> None:
    _, lengths = run(tmp_path, [write(tmp_path / "losses.parquet")])
    by_bucket = {row["bucket"]: row for row in lengths[:9]}
    assert list(by_bucket) == [*BUCKETS, None]
    assert (by_bucket[32]["documents"], by_bucket[32]["loss"]) == (1, 2.0)  # 32 tokens belong to the bucket of 32
    assert (by_bucket[64]["documents"], by_bucket[64]["tokens"]) == (2, 73)
    assert by_bucket[64]["loss"] == pytest.approx((99 + 40) / 73)
    assert (by_bucket[128]["documents"], by_bucket[128]["loss"]) == (0, None)
    assert (by_bucket[4096]["documents"], by_bucket[4096]["loss"]) == (1, 2.0)
    # Two pieces of 5000 tokens are one document beyond all buckets, short as the second piece is.
    assert (by_bucket[None]["documents"], by_bucket[None]["tokens"]) == (1, 5000)
    assert by_bucket[None]["loss"] == pytest.approx((8192 + 904) / 5000)


@given(st.lists(st.integers(1, 9000), min_size=1))
def test_buckets_are_those_of_the_held_out_sample(lengths: list[int]) -> None:
    assert breakdown.BOUNDS == BUCKETS
    assert breakdown.buckets(np.array(lengths)).tolist() == [bucket(length) for length in lengths]


def test_bytes_and_provenance(tmp_path: Path) -> None:
    path = write(tmp_path / "losses.parquet")
    run(tmp_path / "a", [path])
    run(tmp_path / "b", [path])
    for name in ("sources", "lengths"):
        one, other = (tmp_path / folder / f"{name}.parquet" for folder in "ab")
        assert one.read_bytes() == other.read_bytes()
        assert read_provenance(one)["module"] == "smelt.scaling.endpoints.breakdown"


def without(source: str) -> list[Any]:
    return [text for text in TEXTS if text[2] != source]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (without("wiki"), r"losses.parquet, branch at step 10: no document of category 'Knowledge', which .*0/losses"),
        ([*TEXTS, ("f", 0, "rust", "Code", 9, 9, 9.0)], "0/losses.parquet, branch at step 10: no document of source"),
        ([("a", 0, "python", "Code", 31, 32, 64.0), *TEXTS[1:]], r"source 'python' has 64 tokens \(Code\) but 65"),
        (
            [*TEXTS[:-1], ("e", 0, "wiki", "Knowledge", 40, 100, 40.0)],
            r"documents of up to 64 tokens: 1 \(33 targets\) but 2",
        ),
        ([*TEXTS, ("f", 0, "wiki", "Web", 9, 9, 9.0)], "source 'wiki' stands in the categories Knowledge and Web"),
        ([*TEXTS[:-1], ("e", 0, "wiki", "Knowledge", 40, 40, float("nan"))], "row 6, column loss: nan"),
        ([*TEXTS[:-1], ("e", 0, "wiki", "Knowledge", 0, 40, 1.0)], "row 6, column tokens: 0"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, texts: list[Any], message: str) -> None:
    paths = [write(tmp_path / "0" / "losses.parquet"), write(tmp_path / "1" / "losses.parquet", texts, run="r1")]
    with pytest.raises(UserError, match=message) as error:
        run(tmp_path, paths)
    assert "\n" not in str(error.value)


def test_files_and_runs_differ_in_number(tmp_path: Path) -> None:
    path = str(write(tmp_path / "losses.parquet"))
    outs = ["--sources", str(tmp_path / "a"), "--lengths", str(tmp_path / "b")]
    with pytest.raises(UserError, match="2 runs in the spec but 1 files"):
        breakdown.main(["--spec", spec(2), "--losses", path, *outs])
