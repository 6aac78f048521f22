"""The processes that train one run, and what they exchange; without a group, this process alone."""

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from smelt.errors import UserError

T = TypeVar("T")
PATIENCE = datetime.timedelta(hours=2)  # for the first process: it alone hashes a run's text and writes checkpoints


def world() -> int:
    """Number of processes that train the run."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def summed(values: Tensor) -> Tensor:
    """The sum over the processes, the same bits on each; changes `values`."""
    if world() > 1:
        dist.all_reduce(values)
    return values


def any_of(asked: bool) -> bool:
    """Whether `asked` holds on any process."""
    return bool(summed(torch.tensor(int(asked)))) if world() > 1 else asked


def first(act: Callable[[], T]) -> T:
    """The result of `act`, on all processes; the first one alone calls it. What it raises is raised on all."""
    if world() == 1:
        return act()
    outcome: list[Any] = [None, None]  # the result and the error of the first process
    if rank() == 0:
        try:
            outcome[0] = act()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, device=torch.device("cpu"))
    if outcome[1] is not None:
        raise outcome[1]
    return cast(T, outcome[0])


@contextlib.contextmanager
def group(device: str, processes: int) -> Iterator[None]:
    """Join the group of `processes` that torchrun started, or make one of this process alone; leave it at the end.

    On "cuda" each process has the GPU of its number. Raises UserError where there is no such GPU, or where torchrun
    started another number of processes.
    """
    backends = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    if "RANK" in os.environ:
        if device == "cuda":
            _take_gpu(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backends, timeout=PATIENCE)
    else:
        dist.init_process_group(backends, store=dist.HashStore(), rank=0, world_size=1)
    ended = False
    try:
        if world() != processes:
            raise UserError(f"training.processes is {processes} and {world()} were started; start as many by torchrun")
        yield
        ended = True
    finally:
        # Where an error passes, the others may wait for this process, which must not wait for them before it says why.
        if ended or world() == 1:
            dist.destroy_process_group()


def _take_gpu(number: int) -> None:
    if number >= (there := torch.cuda.device_count()):
        raise UserError(
            f"training.processes: process {number + 1} has no GPU of its own, as {there} are here; lower it, or run on "
            "a machine with more"
        )
    torch.cuda.set_device(number)
