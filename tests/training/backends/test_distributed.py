"""Training over several processes (gloo, on the CPU) is training on one, but for the order of sums.

float32: losses and norms within 3e-6 of one process, gradients within 2e-6 of their norm. bfloat16 experts: each
process rounds the gradients of its own blocks, so gradients within 1 % of their norm and losses within 1 %.
"""

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from safetensors.torch import load_file, save
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from smelt.budgets import sharding
from smelt.budgets.memory import all_params
from smelt.errors import UserError
from smelt.model.transformer import Transformer, initialise
from smelt.spec import load
from smelt.study import load as studies
from smelt.training import launch as jobs
from smelt.training.backends.global_step import global_step, micro_batches
from smelt.training.backends.sharding import shard
from smelt.training.saves import sharded, tensor_file
from smelt.training.settings import TrainingSettings
from smelt.training.steps.step import optimizer, train_step
from tests.training import spawn_ranks
from tests.training.branch_jobs import BranchJobs, Killed, at_step, kill, request_stop
from tests.training.conftest import SPEC, Job, write_shard

# Relative, of losses and of gradients.
TOLERANCE = {"float32": (3e-6, 2e-6), "bfloat16": (1e-2, 1e-2), "gpu": (2e-5, 2e-5)}
LOSSES = ("loss", "balance_loss", "z_loss")


def reference(precision: str, micro: int = 0):
    """The same steps on one process without any of this, or in micro-batches of so many contexts."""
    model = Transformer(spawn_ranks.SHAPE, getattr(torch, precision))
    initialise(model, 0)
    adamw = optimizer(model, spawn_ranks.RECIPE)
    records, gradients = [], {}
    for step in range(spawn_ranks.STEPS):
        if micro:
            batches = micro_batches(spawn_ranks.Texts(), step, 4, micro)
            records.append(global_step(model, adamw, batches, 0.01, spawn_ranks.RECIPE))
        else:
            records.append(train_step(model, adamw, spawn_ranks.Texts().batch(step, 4), 0.01, spawn_ranks.RECIPE))
        if not step:
            gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    return {"records": records, "gradients": gradients, "weights": dict(model.named_parameters())}


def assert_same_training(found, expected, kind: str) -> None:
    """`kind` is that of TOLERANCE: a precision, or the GPU's kernels in float32."""
    loss, gradient = TOLERANCE[kind]
    for own, other in zip(found["records"], expected["records"], strict=True):
        assert {name: own[name] for name in LOSSES} == pytest.approx({name: other[name] for name in LOSSES}, rel=loss)
    first, other = found["records"][0], expected["records"][0]
    assert first["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=gradient)
    assert first["expert_load"] == other["expert_load"]
    assert found["gradients"].keys() == expected["gradients"].keys()
    for name, own in found["gradients"].items():
        assert (own - expected["gradients"][name]).norm() <= gradient * expected["gradients"][name].norm(), name
    if kind != "bfloat16":
        for name, own in found["weights"].items():
            torch.testing.assert_close(own, expected["weights"][name].detach(), rtol=0, atol=3e-5)


def start(folder: Path, world: int, task: str) -> None:
    arguments = (world, str(folder), task)
    processes.start_processes(spawn_ranks.run, arguments, world, start_method="spawn")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("micro", [4, 2, 1])
def test_accumulation_changes_nothing(precision, micro):
    assert_same_training(reference(precision, micro), reference(precision), precision)


def test_the_mean_over_micro_batches_would_be_another_loss():
    # Otherwise equal numbers of targets and even routing would hide a wrong normalisation.
    batches = micro_batches(spawn_ranks.Texts(), 0, 4, 1)
    targets = {len(batch.tokens) - len(batch.lengths) for batch in batches}
    assert len(targets) > 1
    model = Transformer(spawn_ranks.SHAPE, torch.float32)
    initialise(model, 0)
    parts = [model(batch.tokens, batch.lengths) for batch in batches]
    whole = model(*spawn_ranks.Texts().batch(0, 4))
    mean = sum(part.balance_loss for part in parts) / len(parts)
    assert abs(mean - whole.balance_loss) > 1e-2 * whole.balance_loss


def check_processes(folder: Path, world: int, task: str) -> None:
    start(folder, world, task)
    results = torch.load(folder / f"cases-{world}.pt", weights_only=True)
    assert results
    for (precision, micro, expert_parallel, kernels), found in results.items():
        assert_same_training(found, reference(precision), precision if kernels == "cpu" else "gpu")
        count, tokens = 4 // micro // world, len(spawn_ranks.Texts().batch(0, 4).tokens) // world
        traffic = found["traffic"]
        moved = traffic["all_gather_single"] + traffic["reduce_scatter_single"]
        assert moved == sharding.gathered_bytes(spawn_ranks.SHAPE, world, count, expert_parallel)
        size = getattr(torch, precision).itemsize
        sent = sharding.exchanged_bytes(spawn_ranks.SHAPE, world, count, tokens, kernels == "gpu", size)
        rows = sent if expert_parallel else 0
        assert traffic["all_to_all_single"] == pytest.approx(rows, rel=0.35)  # routing is uneven


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    check_processes(tmp_path, 2, "quick")


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_several_processes_train_as_one(world, tmp_path):
    check_processes(tmp_path, world, "cases")


@pytest.mark.slow
def test_a_save_of_two_processes_goes_on_with_one_and_with_four(tmp_path):
    whole = reference("float32")
    for world in (1, 4):
        folder = tmp_path / str(world)
        folder.mkdir()
        start(folder, 2, "2")  # expert parallel; the others gather
        assert [path.name for path in folder.glob("saved-*")] == ["saved-000000002"]
        start(folder, world, "1")
        losses = json.loads((folder / "losses-2.json").read_text()) + json.loads(
            (folder / f"losses-{world}.json").read_text()
        )
        assert losses == pytest.approx([record["loss"] for record in whole["records"]], rel=3e-6)
        for name, weight in torch.load(folder / f"weights-{world}.pt", weights_only=True).items():
            torch.testing.assert_close(weight, whole["weights"][name].detach(), rtol=0, atol=3e-5)


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    stable = [write_shard(folder / f"stable/shard-{number:05d}.parquet", 8, number) for number in range(3)]
    return {"stable": stable, "decay": [write_shard(folder / "decay/shard-00000.parquet", 12, 9)]}


def job(folder: Path, streams, **training) -> Job:
    folder.mkdir()
    recipe = {"steps": 5, "branch_steps": [2, 5], "decay_steps": 2, "batch_contexts": 4, "precision": "float32"}
    return Job(folder, streams, {**SPEC, "training": {**SPEC["training"], **recipe, **training}})


def assert_same_outputs(one: Job, other: Job) -> None:
    rows, others = (pq.read_table(run.folder / "log.parquet").to_pylist() for run in (one, other))
    assert [(row["branch"], row["step"], row["tokens"]) for row in rows] == [
        (row["branch"], row["step"], row["tokens"]) for row in others
    ]
    assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in others], rel=3e-6)
    for branch in (1, 2):
        mine, its = (load_file(run.folder / f"branch-{branch}.safetensors") for run in (one, other))
        assert list(mine) == list(its)
        for name, weight in mine.items():
            torch.testing.assert_close(weight, its[name], rtol=0, atol=3e-5)


def test_the_command_alone_writes_what_the_plain_one_writes(tmp_path, streams):
    plain, alone = job(tmp_path / "plain", streams), job(tmp_path / "alone", streams, micro_batch_contexts=2)
    plain.run()
    alone.run()
    assert_same_outputs(alone, plain)


def test_a_broken_save_ends_with_one_error(tmp_path, streams, monkeypatch):
    broken = job(tmp_path / "broken", streams, micro_batch_contexts=2)
    monkeypatch.setattr(jobs, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broken.run()
    (saved,) = broken.state.glob("*/saved-*")
    data = next(saved.glob("*.distcp"))
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(UserError, match="truncated or foreign checkpoint"):
        broken.run()


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_torchrun_stopped_with_two_processes_goes_on_with_four(tmp_path, streams):
    whole = job(tmp_path / "whole", streams)
    whole.run()
    stopped = job(tmp_path / "stopped", streams, micro_batch_contexts=1, processes=2)
    resumed = job(tmp_path / "resumed", streams, micro_batch_contexts=1, processes=4)
    resumed.arguments[resumed.arguments.index("--state") + 1] = str(stopped.state)
    process = subprocess.Popen(torchrun(2, "train", stopped.arguments), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "step 4 of" in line:
            process.terminate()
    assert process.wait() != 0
    assert any(stopped.state.glob("*/saved-*"))
    done = subprocess.run(torchrun(4, "train", resumed.arguments), stderr=subprocess.PIPE, text=True, check=True)
    assert "resumed at step" in done.stderr
    assert_same_outputs(resumed, whole)


def torchrun(count: int, module: str, arguments: list[str]) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return [*command, "-m", "--", f"smelt.training.{module}", *arguments]


def parts(folder: Path, streams, **training) -> BranchJobs:
    return BranchJobs(folder, streams, job(folder.with_name(folder.name + "-spec"), streams, **training).spec)


def test_both_forms_are_the_same_bytes(tmp_path, streams):
    """In micro-batches; how a job is stopped changes none either."""
    whole = job(tmp_path / "whole", streams, micro_batch_contexts=2)
    whole.run()
    branch_jobs = parts(tmp_path / "branch_jobs", streams, micro_batch_contexts=2)
    with at_step(2, request_stop), pytest.raises(SystemExit):  # in the step that reaches the first branch
        branch_jobs.stable()
    with at_step(2, kill), pytest.raises(Killed):
        branch_jobs.stable()
    branch_jobs.stable()
    with at_step(1, request_stop), pytest.raises(SystemExit):
        branch_jobs.decay(1)
    with at_step(0, kill) as taken:
        branch_jobs.decay(1)
    assert taken == [1]  # what was saved is not taken again
    branch_jobs.decay(2)
    branch_jobs.join()
    assert branch_jobs.outputs() == {name: whole.outputs()[name] for name in branch_jobs.outputs()}


@pytest.mark.slow
def test_both_forms_are_the_same_bytes_on_two_processes(tmp_path, streams):
    recipe = {"processes": 2, "micro_batch_contexts": 1, "expert_parallel": True}
    whole = job(tmp_path / "whole", streams, **recipe)
    subprocess.run(torchrun(2, "train", whole.arguments), check=True)
    branch_jobs = parts(tmp_path / "branch_jobs", streams, **recipe)
    subprocess.run(torchrun(2, "stable", branch_jobs.stable_arguments()), check=True)
    for branch in (1, 2):
        subprocess.run(torchrun(2, "decay", branch_jobs.decay_arguments(branch)), check=True)
    branch_jobs.join()
    assert branch_jobs.outputs() == {name: whole.outputs()[name] for name in branch_jobs.outputs()}
    # A checkpoint is the file of one process: one decays it, to the same but for the order of sums.
    one = parts(tmp_path / "one", streams)
    one.folder.joinpath("stable-1.safetensors").hardlink_to(branch_jobs.folder / "stable-1.safetensors")
    one.decay(1)
    mine, its = (load_file(run.folder / "branch-1.safetensors") for run in (one, branch_jobs))
    for name, weight in mine.items():
        torch.testing.assert_close(weight, its[name], rtol=0, atol=3e-5)


@pytest.mark.slow
def test_a_save_stands_until_the_next_one_does(tmp_path, streams, monkeypatch):
    run = job(tmp_path / "run", streams, micro_batch_contexts=2)
    with at_step(3, request_stop), pytest.raises(SystemExit):
        run.run()
    (before,) = run.state.glob("*/saved-*")

    def fails(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(sharded.os, "replace", fails)
    with at_step(2, request_stop), pytest.raises(OSError, match="No space left"):
        run.run()
    monkeypatch.undo()
    assert list(run.state.glob("*/saved-*")) == [before]
    with at_step(0, kill) as taken:
        run.run()
    assert taken[0] == 9 - 2  # the third step was of a decay, which starts again


def test_a_save_is_of_the_step_at_which_it_began(tmp_path, streams, monkeypatch):
    """Training goes on while it is written, which may take longer than a step."""
    recipe = {"micro_batch_contexts": 2, "decay_steps": 3}
    whole, killed = parts(tmp_path / "whole", streams, **recipe), parts(tmp_path / "killed", streams, **recipe)
    for run in (whole, killed):
        run.stable()
    whole.decay(1)
    publish, third = sharded._publish, threading.Event()

    def late(*arguments):
        third.wait(20)
        publish(*arguments)

    def act(trainer):
        third.set()
        trainer.network.finish()
        raise Killed

    monkeypatch.setattr(sharded, "_publish", late)
    with at_step(3, act), pytest.raises(Killed):  # the save is of step 2
        killed.decay(1)
    monkeypatch.undo()
    with at_step(0, kill) as taken:
        killed.decay(1)
    assert taken == [1]
    name = "branch-1.safetensors"
    assert (killed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


@pytest.mark.slow
def test_all_processes_stop_at_the_step_in_which_one_is_asked_to(tmp_path, streams):
    run = job(tmp_path / "run", streams, micro_batch_contexts=1, processes=2)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    command += ["tests.training.requested_stops", *run.arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    assert sorted(done.stdout.split()) == ["0:75", "1:75"]
    (save,) = run.state.glob("*/saved-*")
    assert json.loads((save / "about.json").read_text())["place"]["done"] == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_missing_gpu_is_one_clear_error(tmp_path, streams):
    run = job(tmp_path / "run", streams, micro_batch_contexts=2, device="cuda")
    with pytest.raises(UserError, match=r"training.device is cuda, and torch .* finds no GPU here"):
        run.run()
    assert not run.outputs()


@pytest.mark.slow
def test_a_full_disk_is_one_clear_error(tmp_path, streams):
    """With room for a model and not for a state."""
    branch_jobs = parts(tmp_path / "run", streams, micro_batch_contexts=2)
    result = branch_jobs.command("stable", branch_jobs.stable_arguments(), limit=40)
    assert result.returncode == 1
    assert "error: the disk is full" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_saves_of_the_other_kind_are_not_trained_over(tmp_path, streams):
    several, one = job(tmp_path / "several", streams, micro_batch_contexts=2), job(tmp_path / "one", streams)
    for run, made in ((several, "checkpoint.pt"), (one, "saved-000000001")):
        with at_step(1, request_stop), pytest.raises(SystemExit):
            run.run()
        (folder,) = (path for path in run.state.iterdir() if path.is_dir())
        (folder / made).mkdir()
        with pytest.raises(UserError, match=r"holds a save by (one process|several processes); train on"):
            run.run()


def test_an_endpoint_that_is_not_whole_is_not_published(tmp_path, streams):
    run = job(tmp_path / "run", streams)
    with at_step(6, request_stop), pytest.raises(SystemExit):  # behind the first branch
        run.run()
    (endpoint,) = run.state.glob("*/branch-1.safetensors")
    endpoint.write_bytes(endpoint.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"branch-1.safetensors: the finished file is gone or truncated; delete"):
        run.run()


def test_a_tensor_file_has_the_bytes_of_the_package(tmp_path):
    tensors = {"b.x": torch.randn(3, 4), "a": torch.randn(5), "ü": torch.randn(2, 2).t(), "step": torch.tensor(3.0)}
    about = ("endpoint", '{"name":"ü \\"x\\""}')
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    tensor_file.write(tmp_path / "x.safetensors", shapes, tensors.__getitem__, about)
    expected = save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict([about]))
    assert (tmp_path / "x.safetensors").read_bytes() == expected


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"batch_contexts": 6, "processes": 4}, "6 contexts .* do not go evenly into 4 processes that take 1"),
        ({"batch_contexts": 8, "processes": 2, "micro_batch_contexts": 3}, "2 processes that take 3 at a time"),
        ({"expert_parallel": True}, "expert_parallel needs training.processes above 1"),
    ],
)
def test_what_does_not_divide(training, message):
    recipe = {"steps": 1, "branch_steps": [1], "decay_steps": 1, "learning_rate": 0.1}
    with pytest.raises(UserError, match=message):
        load(TrainingSettings, {**recipe, **training})


@pytest.fixture
def eight():
    """A mesh of eight processes of which this is one, and the others are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield init_device_mesh("cpu", (8,))
    dist.destroy_process_group()


@pytest.mark.parametrize("architecture", ["baseline", "smelt"])
def test_the_papers_largest_network_goes_evenly_into_eight(eight, architecture):
    settings = studies.read(studies.find("paper")).runs[f"{architecture}-1.6B-S97"].model
    with torch.device("meta"):
        model = Transformer(settings)
    assert sum(parameter.numel() for parameter in model.parameters()) == all_params(settings)
    shard(model, eight, expert_parallel=True)
    assert sum(parameter.numel() for parameter in model.parameters()) == all_params(settings)
    mine = sum(parameter.to_local().numel() for parameter in model.parameters())
    assert 8 * mine == pytest.approx(all_params(settings), rel=1e-6)
    assert model.layers[0].w13.to_local().shape[0] == settings.experts // 8
