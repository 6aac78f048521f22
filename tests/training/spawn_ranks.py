"""What every process of a group does in the tests of training over several processes; started by test_spread."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from smelt.model import gpu
from smelt.model.settings import ModelSettings
from smelt.training.backends.global_step import Cpu, Kernels, global_step, micro_batches
from smelt.training.backends.gpu import Device
from smelt.training.backends.sharding import gathered, sharded
from smelt.training.saves.sharded import Saves
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch
from smelt.training.steps.step import optimizer

SHAPE = ModelSettings(
    vocabulary=64, layers=3, hidden_size=16, heads=2, kv_heads=1, head_size=8, experts=12, expert_width=8,
    active_experts=2, shared_width=8, loop_start=1, loop_length=1, visits=2, tied_embeddings=False,
)  # fmt: skip
RECIPE = TrainingSettings(steps=4, branch_steps=(4,), decay_steps=1, learning_rate=0.01, batch_contexts=4)
STEPS = 3
QUICK = {("float32", False, "cpu"), ("float32", True, "gpu")}
CASES = [
    (precision, micro, expert_parallel, "cpu")
    for precision in ("float32", "bfloat16")
    for micro, expert_parallel in ((4, False), (2, False), (1, False), (1, True), (2, True))
] + [("float32", micro, expert_parallel, "gpu") for micro, expert_parallel in ((2, False), (1, True))]


class Texts:
    """A stream whose contexts differ in their number of tokens and of targets, and in how they route."""

    def batch(self, step: int, size: int) -> Batch:
        tokens: list[torch.Tensor] = []
        lengths: list[int] = []
        for number in range(step * size, (step + 1) * size):
            generator = torch.Generator().manual_seed(number)
            own = [3, 40 + 5 * (number % 4), 6 + number % 3] if number % 2 else [90 - number]
            tokens.append(torch.randint(1, 4 + 20 * (number % 4), (sum(own),), generator=generator))
            lengths += own
        return Batch(torch.cat(tokens), lengths)


@contextlib.contextmanager
def traffic() -> Iterator[dict[str, int]]:
    """Bytes that this process gets from the others, by collective; of an exchange as if from all alike."""
    names = ("all_gather_single", "reduce_scatter_single", "all_to_all_single")
    found = dict.fromkeys(names, 0)
    calls = {name: getattr(dist, name) for name in names}
    own = 1 - 1 / dist.get_world_size()

    def counting(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            tensors = [value for value in (*arguments, *options.values()) if isinstance(value, torch.Tensor)]
            if tensors[0].is_floating_point():  # not the counts of an exchange
                output, given = (tensor.nbytes for tensor in tensors)
                found[name] += round(own * (output if name == "all_to_all_single" else max(output, given)))
            return calls[name](*arguments, **options)

        return call

    for name in names:
        setattr(dist, name, counting(name))
    try:
        yield found
    finally:
        for name in names:
            setattr(dist, name, calls[name])


def kernels_of(name: str, precision: str) -> tuple[Kernels, gpu.Execution | None]:
    """The CPU's kernels, or the GPU's as far as they run on CPU tensors."""
    if name == "cpu":
        return Cpu(), None
    kernels = Device(torch.device("cpu"), dataclasses.replace(RECIPE, precision=precision), compiled=False)
    execution = dataclasses.replace(kernels.execution, activation_checkpointing=True)
    return kernels, execution


def whole_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: gathered(parameter.detach()) for name, parameter in model.named_parameters()}


def trained(precision: str, micro: int, expert_parallel: bool, name: str) -> dict[str, Any]:
    """A few steps; the gradients of the first (clipped) and the weights after the last."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    kernels, execution = kernels_of(name, precision)
    model = sharded(SHAPE, getattr(torch, precision), 0, mesh, expert_parallel, execution)
    adamw = optimizer(model, RECIPE)
    records, gradients = [], {}
    for step in range(STEPS):
        batches = micro_batches(Texts(), step, RECIPE.batch_contexts, micro)
        if step:
            records.append(global_step(model, adamw, batches, 0.01, RECIPE, kernels))
            continue
        with traffic() as calls:
            records.append(global_step(model, adamw, batches, 0.01, RECIPE, kernels))
        for parameter_name, parameter in model.named_parameters():
            assert parameter.grad is not None
            gradients[parameter_name] = gathered(parameter.grad)
    return {"records": records, "gradients": gradients, "weights": whole_weights(model), "traffic": calls}


def saved(folder: Path, steps: int) -> None:
    """Train so many steps further from the last save in `folder`, save, and leave the losses and weights there."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    seed = int(any(folder.glob("saved-*")))  # of other weights, where some are to be loaded
    model = sharded(SHAPE, torch.float32, seed, mesh, dist.get_world_size() == 2)
    adamw = optimizer(model, RECIPE)
    saves = Saves(folder)
    found = saves.found()
    if found is not None:
        saves.load(found[0], model, adamw)
    done, losses = found[1]["done"] if found else 0, []
    for step in range(done, done + steps):
        record = global_step(model, adamw, micro_batches(Texts(), step, 4, 1), 0.01, RECIPE)
        losses.append(record["loss"])
        saves.save(model, adamw, {"done": step + 1})  # while the next one trains
    saves.finish()
    weights = whole_weights(model)
    if dist.get_rank() == 0:
        torch.save(weights, folder / f"weights-{dist.get_world_size()}.pt")
        (folder / f"losses-{dist.get_world_size()}.json").write_text(json.dumps(losses))


def run(rank: int, world: int, folder: str, task: str) -> None:
    """One process: `task` is cases, or quick, or the number of steps of `saved`."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store-{world}-{task}", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    try:
        if task in ("cases", "quick"):
            cases = [case for case in CASES if RECIPE.batch_contexts // case[1] >= world]
            cases = [case for case in cases if task == "cases" or (case[0], case[2], case[3]) in QUICK]
            results = {case: trained(*case) for case in cases}
            if rank == 0:
                torch.save(results, f"{folder}/cases-{world}.pt")
        else:
            saved(Path(folder), int(task))
    finally:
        dist.destroy_process_group()
