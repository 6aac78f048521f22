"""The table of measured costs: what it holds and what it gives reasons for. No time is asserted."""

import dataclasses
import json
import os
import signal

import pyarrow.parquet as pq
import pytest
import torch

from smelt.artifacts import read_provenance
from smelt.budgets.ledger import budget
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.spec import _closure, fingerprint, load, plain
from smelt.training.cost_settings import CostSettings
from smelt.training.costs import COSTS, cost_rows, main
from smelt.training.monitoring import measure
from smelt.training.monitoring.measure import Apart, Text, Work, alternating, decoding, training

BASELINE = ModelSettings(
    vocabulary=64, layers=3, hidden_size=16, heads=2, kv_heads=1, head_size=8, experts=12, expert_width=8,
    active_experts=2,
)  # fmt: skip
SMELT = dataclasses.replace(BASELINE, loop_start=1, loop_length=1, visits=2)
QUICK = {"context": 128, "reference": "baseline", "repeats": 2, "prompt": 16, "decode_tokens": 3}


def run(architecture: str, model: ModelSettings, sparsity: str = "S85", **more) -> dict:
    names = {"architecture": architecture, "scale": "H16", "sparsity": sparsity}
    return {**names, "model": plain(model), "batch_contexts": 1, "precision": "bfloat16", **more}


PAIR = [run("smelt", SMELT), run("baseline", BASELINE)]
RATIOS = [name for name in COSTS.names if "ratio" in name]
MEASURED = [*RATIOS, "seconds_per_mtoken", "peak_bytes", "decode_seconds_per_mtoken", "decode_peak_bytes"]


@pytest.fixture(scope="module")
def written(tmp_path_factory, shards):
    """The command on a pair and a shard."""
    folder = tmp_path_factory.mktemp("costs")
    spec = json.dumps({**QUICK, "runs": PAIR})
    shard = shards["stable"][0]
    main(["--spec", spec, "--shard", shard, "--out", str(folder / "costs.parquet"), "--csv", str(folder / "costs.csv")])
    return folder


def test_a_pair_is_measured(written):
    smelt, baseline = pq.read_table(written / "costs.parquet").to_pylist()
    assert (smelt["architecture"], baseline["architecture"]) == ("smelt", "baseline")
    for row, model in ((smelt, SMELT), (baseline, BASELINE)):
        assert all(row[name] > 0 for name in MEASURED)
        assert row["reason"] is None
        assert (row["steps"], row["tokens"], row["decode_tokens"], row["threads"]) == (2, 256, 6, 1)
        assert row["cache_bytes_per_token"] == budget(model, 1).kv_bytes_per_token
        assert row["wall_ratio_low"] <= row["wall_ratio"] <= row["wall_ratio_high"]
    assert {baseline[name] for name in RATIOS} == {1}
    assert smelt["peak_ratio"] == smelt["peak_bytes"] / baseline["peak_bytes"]


def test_the_table_has_its_columns_and_its_origin(written):
    header = (written / "costs.csv").read_text().splitlines()[0].split(",")
    assert header == COSTS.names
    interface = "architecture scale sparsity seconds_per_mtoken wall_ratio peak_bytes decode_seconds_per_mtoken"
    assert header[:8] == [*interface.split(), "decode_wall_ratio"]
    origin = read_provenance(written / "costs.parquet")
    assert origin["module"] == "smelt.training.costs"
    assert list(origin["inputs"]) == ["shard-00000.parquet"]


def test_what_is_missing_has_its_reason():
    large = dataclasses.replace(BASELINE, experts=4000)
    runs = [*PAIR, run("smelt", SMELT, "S95"), run("baseline", large, "S97"), run("smelt", SMELT, "S97")]
    rows = cost_rows(load(CostSettings, {**QUICK, "repeats": 1, "runs": runs, "state_bytes": 2 * 10**6}))
    assert [row["reason"] is None for row in rows] == [True, True, False, False, False]
    alone, refused, beside = rows[2:]
    assert alone["reason"].startswith("ratios of training: baseline has no measured run at this cell; ratios of deco")
    assert refused["reason"].startswith("training was not measured: weights, gradients and moments take 0.1 GB")
    assert (refused["steps"], refused["tokens"], refused["decode_tokens"]) == (0, 0, 0)
    assert all(refused[name] is None for name in (*MEASURED, "cache_bytes_per_token"))
    for row in (alone, beside):
        assert all(row[name] is None for name in RATIOS)
        assert row["seconds_per_mtoken"] > 0
        assert "ratios of training" in row["reason"]


def test_batches_of_different_size_are_compared_by_token():
    runs = [run("baseline", BASELINE), run("smelt", SMELT, batch_contexts=3)]
    one, three = cost_rows(load(CostSettings, {**QUICK, "runs": runs}))
    assert (one["tokens"], three["tokens"]) == (256, 768)
    assert "steps of 3 x 128 tokens" in three["method"]


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory() -> None:
    torch.empty(2**60)


@pytest.mark.parametrize(("function", "said"), [(killed, "was killed"), (out_of_memory, "memory ran out")])
def test_a_process_that_fails_says_why(function, said):
    process = Apart()
    assert process.call(function) is None
    assert said in process.failure
    assert process.call(dict) is None  # and stays failed
    process.pool.shutdown()


def failing(model: ModelSettings, precision: str, fails: bool) -> Work:
    return Work(lambda index: out_of_memory() if fails and index else None, {"tokens": 1})


def test_one_failure_leaves_the_others(monkeypatch):
    monkeypatch.setattr(measure, "_begin", begin_at_once)
    good, bad = alternating(failing, [(BASELINE, "float32", False), (BASELINE, "float32", True)], 3, 1, 10.0)
    assert len(good.seconds) == 3
    assert good.reason is None
    assert (bad.seconds, bad.peak_bytes) == ([], None)
    assert "memory ran out" in bad.reason


def begin_at_once(make, arguments):
    measure._work, measure._idle_bytes = make(*arguments), 0
    return measure._work.facts


def test_no_repeat_starts_beyond_the_limit():
    one = alternating(decoding, [(BASELINE, "float32", 4, 2)], 50, 0, 0.0)[0]
    assert len(one.seconds) == 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_both_kinds_of_work_repeat(precision):
    model = dataclasses.replace(SMELT, tied_embeddings=False, shared_width=4)
    steps = training(model, precision, Text(64, segments=(20, 30)), 2)
    losses = [steps.once(index)["loss"] for index in range(4)]
    assert len(set(losses)) == 4
    decoded = decoding(model, precision, 8, 3)
    for index in range(2):
        decoded.once(index)
    assert decoded.facts["cache_bytes_per_token"] == budget(model, 1).kv_bytes_per_token


@pytest.mark.parametrize(
    ("segments", "lengths"),
    [((), [100]), ((40,), [40, 40, 20]), ((30, 69), [30, 70]), ((50,), [50, 50]), ((300, 5), [100])],
)
def test_segments_fill_the_context(segments, lengths):
    batch = Text(100, 2, segments).batches(64, 1)[0]
    assert batch.lengths == 2 * lengths
    assert len(batch.tokens) == 200


def test_a_short_shard_is_read_again(shards):
    text = Text(128, 3, shard=shards["stable"][0])  # of eight contexts
    batches = text.batches(64, 3)
    assert torch.equal(batches[0].tokens, batches[2].tokens)
    assert not torch.equal(batches[0].tokens, batches[1].tokens)
    assert len(batches[0].tokens) == 3 * 124  # without the padding


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"repeats": 0}, "repeats is 0"),
        ({"segments": [1]}, "at least 2 tokens"),
        ({"runs": PAIR + PAIR}, "smelt H16-S85 is listed twice"),
    ],
)
def test_mistakes_are_named(settings, said):
    with pytest.raises(UserError, match=said):
        main(["--spec", json.dumps({**QUICK, "runs": PAIR, **settings}), "--out", "nowhere.parquet"])


def test_a_missing_shard_is_named_before_any_work(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        main(["--spec", json.dumps({**QUICK, "runs": PAIR}), "--shard", str(tmp_path / "x.parquet"), "--out", "x"])


def test_training_does_not_depend_on_the_costs():
    """A change here must not train a run again."""
    reached = _closure("smelt.training.train")
    assert not reached & {"smelt.training.costs", "smelt.training.monitoring.measure", "smelt.model.decode"}
    assert fingerprint("smelt.training.costs") != fingerprint("smelt.training.train")
