"""What a run tells of itself while it trains. No time is asserted."""

import importlib.util
import json
import re
import sys

import pytest

from smelt.errors import UserError
from smelt.training.monitoring.watch import Watch
from tests.training.branch_jobs import Killed, at_step, kill

ROW = {
    "branch": 0, "loss": 5.0, "balance_loss": 1.1, "z_loss": 2.0, "gradient_norm": 0.7, "learning_rate": 0.01,
    "expert_load": [1.5, 3.0], "idle_experts": [0.25, 0.0],
}  # fmt: skip


class Steps:
    """A run that is watched."""

    step_tokens = 4096
    tell = None

    def __init__(self, rows: int = 0) -> None:
        self.rows = [{**ROW, "step": step + 1} for step in range(rows)]

    def step(self, watch: Watch) -> None:
        self.rows.append({**ROW, "step": len(self.rows) + 1})
        watch.step(self.rows[-1])


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_a_step(tmp_path):
    run, path = Steps(), tmp_path / "logs/run.perf.jsonl"
    watch = Watch("run", 3, run, path, flops_per_token=1e6, peak_flops=1e11)
    for _ in range(3):
        run.step(watch)
    told = lines(path)
    assert [line["step"] for line in told] == [1, 2, 3]
    last = told[-1]
    assert (last["expert_load"], last["idle_experts"], last["loss"]) == (3.0, 0.25, 5.0)
    assert last["flops_per_second"] == pytest.approx(1e6 * last["tokens_per_second"])
    assert last["peak_share"] == pytest.approx(last["flops_per_second"] / 1e11)
    assert last["tokens_per_second"] == pytest.approx(4096 / last["seconds"])
    assert last["seconds_left"] == 0
    assert last["peak_memory_bytes"] > 10**7


def test_what_is_not_stated_is_not_made_up(tmp_path):
    run, path = Steps(), tmp_path / "run.perf.jsonl"
    run.step(Watch("run", 1, run, path, 0.0, 0.0))
    assert lines(path)[0]["flops_per_second"] is None
    assert lines(path)[0]["peak_share"] is None


def test_a_terminal_line_says_the_same_in_short(tmp_path, capsys):
    run = Steps()
    run.step(Watch("run", 1, run, None, flops_per_token=1e6, peak_flops=1e15))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run: step 1 of 1, loss 5.0000, balance 1.10, norm 0.70, load 3.0, ")
    assert "tokens/s" in line
    assert re.search(r" GFLOP/s \(\d+%\), ", line)
    assert "0 s left" in line


def test_a_run_that_goes_on_adds_its_lines_and_one_that_starts_replaces_them(tmp_path):
    path = tmp_path / "run.perf.jsonl"
    for rows, steps in ((0, [1]), (1, [1, 2]), (0, [1])):
        run = Steps(rows)
        run.step(Watch("run", 9, run, path, 0.0, 0.0))
        assert [line["step"] for line in lines(path)] == steps


def test_watching_changes_no_byte_and_sees_every_step(whole, job, tmp_path):
    watched = job("watched")
    perf = tmp_path / "watched.perf.jsonl"
    watched.arguments += ["--perf", str(perf), "--flops-per-token", "1000", "--peak-flops", "1e9"]
    with at_step(10, kill), pytest.raises(Killed):
        watched.run()
    watched.run()
    assert watched.outputs() == whole.outputs()
    told = {(line["branch"], line["step"]) for line in lines(perf)}
    assert len(told) == 12 + 3 * 3
    assert len(lines(perf)) > len(told)  # steps that were taken twice


def test_tensorboard_that_is_not_installed_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"monitoring.tensorboard: .* not installed; pip install"):
        Watch("run", 1, Steps(), None, 0.0, 0.0).to_tensorboard("events")


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="the tensorboard extra is not installed")
def test_tensorboard_gets_events(tmp_path):
    run = Steps()
    watch = Watch("run", 1, run, None, 0.0, 0.0)
    watch.to_tensorboard(str(tmp_path / "events"))
    run.step(watch)
    (events,) = (tmp_path / "events").iterdir()
    assert b"stable/loss" in events.read_bytes()
