"""A step by the GPU's kernels, run on CPU tensors, against the CPU's own; and what a missing GPU says."""

import dataclasses

import pytest
import torch

from smelt.errors import UserError
from smelt.model import gpu
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.backends.gpu import Device, Feed, gpu_step, prepare
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.step import optimizer, train_step

SHAPE = ModelSettings(
    vocabulary=64, layers=3, hidden_size=16, heads=2, kv_heads=1, head_size=8, experts=12, expert_width=8,
    active_experts=2, loop_start=1, loop_length=1, visits=2,
)  # fmt: skip
RECIPE = TrainingSettings(steps=4, branch_steps=(4,), decay_steps=1, learning_rate=0.01, precision="float32")


KERNELS = Device(torch.device("cpu"), RECIPE, compiled=False)


def trained(step) -> tuple[list[dict], Transformer]:
    model = Transformer(SHAPE, torch.float32)
    initialise(model, 0)
    adamw = optimizer(model, RECIPE)
    return [step(model, adamw, index) for index in range(RECIPE.steps)], model


def test_steps_agree_with_the_cpu_s(shards):
    def plain(model, adamw, index):
        return train_step(model, adamw, ContextStream(shards["stable"], 0).batch(index, 1), 0.01, RECIPE)

    stream, feed = ContextStream(shards["stable"], 0), Feed(KERNELS, 1)

    def ours(model, adamw, index):
        gpu.install(model, KERNELS.execution)
        return gpu_step(model, adamw, feed, stream, index, index + 1, 0.01, RECIPE)

    (expected, reference), (found, model) = trained(plain), trained(ours)
    for one, other in zip(found, expected, strict=True):
        for name in ("loss", "balance_loss", "z_loss", "gradient_norm"):
            assert one[name] == pytest.approx(other[name], rel=1e-4), name
        assert one["expert_load"] == pytest.approx(other["expert_load"])
        assert one["idle_experts"] == pytest.approx(other["idle_experts"])
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), parameter, atol=2e-3, rtol=0, msg=name)


def test_a_batch_made_ahead_is_the_one_that_is_taken(shards):
    stream, feed = ContextStream(shards["stable"], 0), Feed(KERNELS, 1)
    feed.prepare(stream, 1)
    assert feed.ahead is not None
    made = feed.ahead[2]
    assert feed.take(stream, 1) is made
    feed.prepare(stream, 3)
    other = feed.take(stream, 2)  # another branch's, or after a resume
    assert torch.equal(other.tokens, stream.batch(2, 1).tokens)
    assert feed.ahead is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_missing_gpu_is_one_clear_error():
    with pytest.raises(UserError, match=r"training.device is cuda, and torch .* finds no GPU here; .* to cpu"):
        prepare(dataclasses.replace(RECIPE, device="cuda"))


def test_recomputing_is_for_gpus():
    with pytest.raises(UserError, match=r"activation_checkpointing needs training.device: cuda"):
        dataclasses.replace(RECIPE, activation_checkpointing=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_steps_on_a_gpu_give_the_same_bits_again(shards):
    settings = dataclasses.replace(RECIPE, device="cuda", precision="bfloat16")
    torch.use_deterministic_algorithms(True)
    results = []
    try:
        for _ in range(2):
            kernels = Device(prepare(settings), settings)
            stream, feed = ContextStream(shards["stable"], 0), Feed(kernels, 1)
            model = Transformer(SHAPE)
            initialise(model, 0)
            gpu.install(model, kernels.execution)
            model.to(kernels.device)
            adamw = optimizer(model, settings)
            results.append([gpu_step(model, adamw, feed, stream, i, i + 1, 0.01, settings)["loss"] for i in range(4)])
    finally:
        torch.use_deterministic_algorithms(False)
    assert results[0] == results[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_run_without_its_gpu_writes_nothing(job):
    run = job("gpu", device="cuda")
    with pytest.raises(UserError, match="finds no GPU here"):
        run.run()
    assert run.outputs() == {}
