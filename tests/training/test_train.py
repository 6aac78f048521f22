"""A training job: its outputs, its resumption to the same bytes, and what it refuses."""

import json
import shlex
import signal
import subprocess

import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.spec import _closure, load
from smelt.training.launch import STOPPED
from smelt.training.saves import resume
from smelt.training.settings import RunSettings
from smelt.training.steps.data import ContextStream
from smelt.training.trainer import Trainer
from tests.training.conftest import CONTEXT, SPEC


def test_outputs_are_endpoints_and_a_log(whole):
    assert not any(path.is_dir() for path in whole.state.iterdir())  # removed on success
    with safe_open(whole.folder / "branch-2.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["endpoint"])
        assert file.get_tensor("embedding").dtype == torch.float32
    assert (about["branch"], about["branch_step"]) == (2, 8)
    log = pq.read_table(whole.folder / "log.parquet").to_pylist()
    by_branch = {branch: [row for row in log if row["branch"] == branch] for branch in range(4)}
    assert [len(rows) for rows in by_branch.values()] == [12, 3, 3, 3]
    assert [row["step"] for row in by_branch[2]] == [9, 10, 11]
    assert by_branch[3][-1]["tokens"] == 15 * CONTEXT
    assert 4.0 < log[0]["loss"] < 5.2  # weights that know nothing: about ln 64, and the spread of their logits
    assert len(log[0]["expert_load"]) == 4
    origin = read_provenance(whole.folder / "log.parquet")
    assert origin["spec"] == SPEC
    assert set(origin["inputs"]) == {"shard-00000.parquet", "shard-00001.parquet"}


@pytest.mark.parametrize(
    ("step", "number"), [(2, signal.SIGKILL), (10, signal.SIGKILL), (4, signal.SIGTERM), (20, signal.SIGINT)]
)
def test_a_stopped_run_resumes_to_the_same_bytes(whole, job, step, number):
    stopped = job("stopped")
    status = stopped.stop_at(step, number)
    assert status in (-signal.SIGKILL, STOPPED, 0)  # 0 where it was done before the signal came
    stopped.run()
    assert stopped.outputs() == whole.outputs()


def test_branches_leave_the_stable_phase_unchanged(whole, job):
    alone = job("alone", branch_steps=[12])
    alone.run()
    last = load_file(whole.folder / "branch-3.safetensors")
    for name, tensor in load_file(alone.folder / "branch-1.safetensors").items():
        assert torch.equal(tensor, last[name]), name


def test_a_longer_run_starts_as_the_shorter_one(whole, job):
    longer = job("longer", steps=14, branch_steps=[3, 8, 12, 14])
    longer.run()
    for branch in (1, 2, 3):
        short, long = (load_file(run.folder / f"branch-{branch}.safetensors") for run in (whole, longer))
        assert all(torch.equal(short[name], long[name]) for name in short)


def test_the_seed_changes_weights_and_the_order_of_a_shard(shards):
    trainers = [Trainer(load(RunSettings, {**SPEC, "training": {**SPEC["training"], "seed": seed}})) for seed in (0, 1)]
    assert not torch.equal(*(trainer.network.model.embedding for trainer in trainers))
    streams = [ContextStream(shards["stable"], trainer.settings.seed) for trainer in trainers]
    first, second = ([tuple(stream.batch(step, 1).tokens.tolist()) for step in range(8)] for stream in streams)
    assert first != second
    assert set(first) == set(second)


def test_a_loss_that_is_not_finite_stops_the_run_without_endpoint(job):
    # A rate that squares the weights out of float32 within a few steps.
    diverging = job("diverging", learning_rate=1e30, warmup_steps=0, branch_steps=[12])
    with pytest.raises(UserError, match=r"step \d+: the loss is .* Lower training.learning_rate"):
        diverging.run()
    assert diverging.outputs() == {}


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_a_damaged_checkpoint_is_one_clear_error(job, damage):
    stopped = job("stopped")
    assert stopped.stop_at(8) == -signal.SIGKILL
    (checkpoint,) = stopped.state.glob("*/checkpoint.pt")
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[: len(data) // 2] if damage == "truncated" else b"something else entirely" * 9)
    with pytest.raises(UserError, match=f"^{checkpoint}: truncated or foreign checkpoint .* delete it"):
        stopped.run()
    assert stopped.outputs() == {}
    checkpoint.unlink()
    stopped.run()


def test_a_run_that_is_being_trained_is_not_trained_twice(job):
    busy = job("busy")
    with resume.state_folder(busy.state, "other"), pytest.raises(UserError, match="another process trains this run"):
        busy.run()


def test_a_state_of_another_spec_is_ignored_and_removed(whole, job):
    stopped = job("stopped", learning_rate=0.02)
    stopped.stop_at(8)
    assert list(stopped.state.glob("*/checkpoint.pt"))
    stopped.arguments[1] = whole.arguments[1]
    stopped.run()
    assert stopped.outputs() == whole.outputs()


def test_too_few_contexts_is_one_clear_error(job):
    short = job("short", steps=20, branch_steps=[20])
    with pytest.raises(UserError, match="ends after 16 contexts"):
        short.run()


def test_a_full_disk_is_one_clear_error(job):
    full = job("full")
    limited = f"ulimit -f 40; trap '' XFSZ; exec {shlex.join(full.command())}"  # no file above 40 KiB
    result = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "error: the disk is full" in result.stderr
    assert "Traceback" not in result.stderr
    assert full.outputs() == {}
    full.run()


def test_training_and_packing_load_no_pandas():
    """A second of imports, and memory, that a job without tables need not spend."""
    for module in ("training.train", "training.stable", "training.decay", "training.join", "corpus.contexts.shard"):
        assert "smelt.tables" not in _closure(f"smelt.{module}")


def test_signals_are_given_back_when_a_training_ends(job):
    """Ctrl-C must stop a process, such as pytest, in which a training has run; after an error too."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    job("sound", steps=2, branch_steps=[2]).run()
    assert [signal.getsignal(number) for number in numbers] == before
    with pytest.raises(UserError, match="build more shards"):
        job("short", steps=99, branch_steps=[99]).run()
    assert [signal.getsignal(number) for number in numbers] == before
