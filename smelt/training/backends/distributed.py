"""A network spread over several processes, in training, and the files that its state becomes.

What smelt.training.backends.single is for one process: every process calls the same at the same time. A step's contexts
go to the processes in turn, `training.micro_batch_contexts` at a time. Results are those of one process but for the
order in which sums are rounded, so that a run that resumes on another number of processes goes on where it was. What
stands between jobs, an endpoint or a full checkpoint, is the file that one process would write.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from smelt.model.settings import ModelSettings
from smelt.training.backends.global_step import Cpu, Kernels, global_step, micro_batches
from smelt.training.backends.sharding import gathered, place, sharded
from smelt.training.backends.single import Saved, refuse
from smelt.training.processes import first, world
from smelt.training.saves import checkpoint, resume, tensor_file
from smelt.training.saves.sharded import Saves, tensors
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.step import optimizer


class Distributed:
    """This process's slices of weights and moments; its methods are those of `single.Whole`."""

    def __init__(self, model: ModelSettings, settings: TrainingSettings) -> None:
        self.settings = settings
        self.kernels, execution = _kernels(settings)
        mesh = init_device_mesh(settings.device, (world(),))
        precision = getattr(torch, settings.precision)
        self.model = sharded(model, precision, settings.seed, mesh, settings.expert_parallel, execution)
        self.adamw = optimizer(self.model, settings)
        self.saves: Saves | None = None

    def step(self, stream: ContextStream, index: int, rate: float, steps: int) -> dict[str, Any]:
        batches = micro_batches(stream, index, self.settings.batch_contexts, self.settings.micro_batch)
        return global_step(self.model, self.adamw, batches, rate, self.settings, self.kernels)

    def copy(self) -> Any:
        return {name: _own(tensor).to("cpu", copy=True) for name, tensor in tensors(self.model, self.adamw).items()}

    def put_back(self, copied: Any) -> None:
        for name, tensor in tensors(self.model, self.adamw).items():
            _own(tensor).copy_(copied[name])

    def save(self, folder: Path, place: dict[str, Any]) -> None:
        """Begin to save; `finish` waits for the end."""
        self._saves(folder).save(self.model, self.adamw, place)

    def saved(self, folder: Path) -> Saved | None:
        first(lambda: refuse(folder, resume.CHECKPOINT, "by one process; train on one as before"))
        found = self._saves(folder).found()
        return None if found is None else Saved(found[1], found[0])

    def restore(self, saved: Saved) -> None:
        assert self.saves is not None
        self.saves.load(saved.state, self.model, self.adamw)

    def forget(self, folder: Path) -> None:
        self.finish()
        first(self._saves(folder).remove)

    def finish(self) -> None:
        if self.saves is not None:
            self.saves.finish()

    def write_endpoint(self, path: Path, about: tuple[str, str]) -> None:
        weights = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        tensor_file.write(path, shapes, lambda name: gathered(weights[name]), about)

    def write_checkpoint(self, path: Path, about: dict[str, Any]) -> None:
        held = tensors(self.model, self.adamw)
        checkpoint.write(path, checkpoint.shapes(self.model), lambda name: gathered(held[name]), about)

    def read_checkpoint(self, path: Path) -> dict[str, Any]:
        held = tensors(self.model, self.adamw)
        with torch.no_grad():
            return checkpoint.read(path, checkpoint.shapes(self.model), lambda name, tensor: place(held[name], tensor))

    def _saves(self, folder: Path) -> Saves:
        """One object a job: each has a group of processes."""
        if self.saves is None:
            self.saves = Saves(folder)
        assert self.saves.folder == folder
        return self.saves


def _kernels(settings: TrainingSettings) -> tuple[Kernels, Any]:
    """The kernels of the device, and how a network is made to run by them."""
    if settings.device == "cpu":
        return Cpu(), None
    from smelt.training.backends.gpu import Device, prepare

    kernels = Device(prepare(settings), settings)
    return kernels, kernels.execution


def _own(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
