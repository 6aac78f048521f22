"""A network that one process holds whole, in training, and the files that its state becomes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.saves import checkpoint, resume, tensor_file
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.step import optimizer, train_step


class Saved(NamedTuple):
    """A save that was found: where in the run it stands, in plain values, and the rest of it."""

    place: dict[str, Any]
    state: Any


def refuse(folder: Path, pattern: str, advice: str) -> None:
    """Raise UserError where a state folder holds saves of the other kind, which would be trained over."""
    if any(folder.glob(pattern)):
        raise UserError(f"{folder}: holds a save {advice}, or delete it to train what it holds from its start")


class SingleProcess:
    """Weights and moments on a core or one GPU."""

    def __init__(self, model: ModelSettings, settings: TrainingSettings) -> None:
        self.settings = settings
        self.model = Transformer(model, getattr(torch, settings.precision))
        initialise(self.model, settings.seed)
        self.feed: Any = None  # of a GPU
        if settings.device != "cpu":
            from smelt.model.gpu import install  # the compiler: a second that a core need not spend
            from smelt.training.backends.gpu import Device, Feed, prepare

            self.feed = Feed(Device(prepare(settings), settings), settings.batch_contexts)
            install(self.model, self.feed.kernels.execution)
            self.model.to(self.feed.kernels.device)
        self.adamw = optimizer(self.model, settings)

    def step(self, stream: ContextStream, index: int, rate: float, steps: int) -> dict[str, Any]:
        """A step on batch `index` of the stream, which gives `steps` in all."""
        if self.feed is None:
            batch = stream.batch(index, self.settings.batch_contexts)
            return train_step(self.model, self.adamw, batch, rate, self.settings)
        from smelt.training.backends.gpu import gpu_step

        following = index + 1 if index + 1 < steps else None
        return gpu_step(self.model, self.adamw, self.feed, stream, index, following, rate, self.settings)

    def copy(self) -> dict[str, Tensor]:
        """What `put_back` goes back to, in the host's memory."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._tensors().items()}

    def put_back(self, copied: Mapping[str, Tensor]) -> None:
        self.model.load_state_dict({name: copied[f"model.{name}"] for name in self.model.state_dict()})
        moments = {
            index: {moment: copied[f"{moment}.{name}"] for moment in checkpoint.MOMENTS}
            for index, name in enumerate(self._names())
        }
        self.adamw.load_state_dict({"state": moments, "param_groups": self.adamw.state_dict()["param_groups"]})

    def save(self, folder: Path, place: dict[str, Any]) -> None:
        """Save the state, with `place`."""
        tensors = {"model": self.model.state_dict(), "optimizer": self.adamw.state_dict()}
        resume.save(folder, tensors | {"place": json.dumps(place)})

    def saved(self, folder: Path) -> Saved | None:
        """The last save in `folder`, or None. Raises UserError where it is truncated or foreign."""
        refuse(
            folder,
            "saved-*",
            "by several processes; train on several, or with training.micro_batch_contexts, as before",
        )
        state = resume.load(folder)
        return None if state is None else Saved(json.loads(state["place"]), state)

    def restore(self, saved: Saved) -> None:
        self.model.load_state_dict(saved.state["model"])
        self.adamw.load_state_dict(saved.state["optimizer"])

    def forget(self, folder: Path) -> None:
        """Remove the saves in `folder`."""
        resume.forget(folder)

    def finish(self) -> None:
        """Wait for a save that is being written; here none is."""

    def write_endpoint(self, path: Path, about: tuple[str, str]) -> None:
        """Write the weights, with one entry of metadata."""
        weights = self.model.state_dict()
        tensor_file.write(path, {name: tensor.shape for name, tensor in weights.items()}, weights.__getitem__, about)

    def write_checkpoint(self, path: Path, about: dict[str, Any]) -> None:
        tensors = self._tensors()
        checkpoint.write(path, checkpoint.shapes(self.model), tensors.__getitem__, about)

    def read_checkpoint(self, path: Path) -> dict[str, Any]:
        """Go back to a checkpoint; its `about`. Raises UserError as `checkpoint.read` does."""
        tensors: dict[str, Tensor] = {}
        about = checkpoint.read(path, checkpoint.shapes(self.model), tensors.__setitem__)
        self.put_back(tensors)
        return about

    def _tensors(self) -> dict[str, Tensor]:
        """Weights, moments and step counts by name."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        moments = self.adamw.state_dict()["state"]
        for index, name in enumerate(self._names()):
            tensors |= {f"{moment}.{name}": moments[index][moment] for moment in checkpoint.MOMENTS}
        return tensors

    def _names(self) -> list[str]:
        """Names of the parameters in the optimizer's order."""
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        return [names[parameter] for group in self.adamw.param_groups for parameter in group["params"]]
