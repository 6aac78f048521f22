"""Divergence and router collapse, on logs whose trouble is known."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt import tables
from smelt.artifacts import read_provenance, table, write_table
from smelt.errors import UserError
from smelt.training import health
from smelt.training.health import LONG, RISE, RUNS, WINDOW, RunSettings, judged, longest, running_medians
from smelt.training.steps.log import LOG, origin

RUN = {
    "run": "baseline-H32-S85", "architecture": "baseline", "scale": "H32", "sparsity": "S85", "seed": 0,
    "learning_rate": 0.01, "experts": 64, "active_experts": 8, "vocabulary": 1024,
}  # fmt: skip
SOUND = 4 + 3 * np.exp(-np.arange(100) / 20) + 0.1 * np.sin(7 * np.arange(100))  # falls from 7 to 4 nats


def log(losses, load=2.0, idle=0.1, run="baseline-H32-S85") -> list[dict]:
    """A log of such losses, and a decay behind it that no rule looks at."""
    row = {
        "run": run, "tokens": 1, "balance_loss": 1.0, "z_loss": 1.0, "gradient_norm": 1.0, "learning_rate": 0.01,
        "expert_load": [1.0, load], "idle_experts": [0.0, idle],
    }  # fmt: skip
    stable = [{**row, "branch": 0, "step": step + 1, "loss": float(loss)} for step, loss in enumerate(losses)]
    return [*stable, {**row, "branch": 1, "step": len(stable) + 1, "loss": 99.0, "expert_load": [8.0, 8.0]}]


def verdict(losses, changes=None, **ends) -> dict:
    return judged(RunSettings(**RUN | (changes or {})), tables.from_rows(log(losses, **ends), LOG))


def test_a_sound_run_breaks_no_rule():
    row = verdict(SOUND)
    assert (row["diverged"], row["collapsed"], row["reason"], row["spikes"]) == (False, False, None, 0)
    assert row["steps"] == 100
    assert row["final_loss"] == pytest.approx(np.median(SOUND[-WINDOW:]))
    assert row["worst_rise"] < 0.1
    assert (row["fullest_expert"], row["idle_experts"]) == (2.0, pytest.approx(0.1))
    assert row["fullest_share"] == pytest.approx(2.0 * 8 / 64)


def test_single_odd_texts_are_spikes_and_no_divergence():
    losses = SOUND.copy()
    losses[[40, 55, 70]] += 4
    row = verdict(losses)
    assert (row["spikes"], row["diverged"]) == (3, False)


def test_a_loss_that_goes_up_and_stays_there_is_divergence():
    losses = SOUND.copy()
    losses[50:] += 2
    row = verdict(losses)
    assert row["diverged"]
    assert row["worst_rise"] == pytest.approx(2, abs=0.5)
    assert row["reason"].startswith(f"diverged: the loss is {RISE} nats or more above its best for ")


@pytest.mark.parametrize(("length", "diverged"), [(LONG + WINDOW // 2, True), (LONG - 2, False)])
def test_a_loss_that_comes_back_soon_is_none(length, diverged):
    losses = np.full(200, 4.0)
    losses[100 : 100 + length] = 5.0
    assert verdict(losses)["diverged"] == diverged


def test_a_loss_that_never_comes_down_is_divergence():
    row = verdict(np.full(60, math.log(1024) + 0.01))
    assert row["diverged"]
    assert "no better than a uniform guess" in row["reason"]


def test_one_expert_that_takes_nearly_all_is_collapse():
    row = verdict(SOUND, load=0.97 * 64 / 8)
    assert row["collapsed"]
    assert row["reason"] == "collapsed: one expert of executed layer 2 is chosen for 97% of tokens"
    assert not verdict(SOUND, load=0.9 * 64 / 8)["collapsed"]


def test_all_tokens_at_all_experts_are_no_collapse():
    assert not verdict(SOUND, {"experts": 8}, load=1.0, idle=0.0)["collapsed"]


def test_experts_that_are_idle_are_collapse():
    row = verdict(SOUND, idle=0.8)
    assert (row["collapsed"], row["idle_experts"]) == (True, pytest.approx(0.8))
    assert "80% of the experts of executed layer 2 are idle" in row["reason"]


def test_only_the_end_says_whether_routing_collapsed():
    rows = log(SOUND)
    for row in rows[:50]:
        row["idle_experts"] = [0.9, 0.9]
    assert not judged(RunSettings(**RUN), tables.from_rows(rows, LOG))["collapsed"]


def test_a_run_that_is_too_short_is_not_judged():
    row = verdict(np.full(WINDOW - 1, 9.0), idle=0.9)
    assert (row["diverged"], row["collapsed"]) == (False, False)


def test_medians_and_rows_of_flags():
    values = np.arange(50.0)
    assert running_medians(values)[0] == 0
    assert running_medians(values)[-1] == np.median(values[-WINDOW:])
    assert longest(np.array([True, False, True, True, False])) == (2, 2)
    assert longest(np.zeros(3, bool)) == (0, 0)


def test_the_command_writes_the_table(tmp_path):
    names, runs = [], [RUN, {**RUN, "run": "smelt-H32-S85", "architecture": "smelt"}]
    for number, (run, losses) in enumerate(zip(runs, (SOUND, np.full(60, 9.0)), strict=True)):
        names.append(str(tmp_path / f"{number}.parquet"))
        write_table(table(log(losses, run=run["run"]), LOG), names[-1], origin({}, []))
    spec = {"runs": runs}
    out, csv = tmp_path / "runs.parquet", tmp_path / "runs.csv"
    arguments = ["--spec", json.dumps(spec), "--logs", *names, "--out", str(out), "--csv", str(csv)]
    health.main(arguments)
    rows = pq.read_table(out).to_pylist()
    assert [row["diverged"] for row in rows] == [False, True]
    assert pq.read_schema(out).names == RUNS.names == csv.read_text().splitlines()[0].split(",")
    assert set(read_provenance(out)["inputs"]) == {"0.parquet", "1.parquet"}
    both = r"1\.parquet: this is of run smelt-H32-S85, expected run baseline-H32-S85, which is in .*0\.parquet; files"
    with pytest.raises(UserError, match=both):
        health.main([*arguments[:3], *reversed(names), *arguments[5:]])
    with pytest.raises(UserError, match="1 logs of 2 runs"):
        health.main([*arguments[:3], names[0], *arguments[5:]])
