"""Training on GPUs: settings, a batch on the device, and a step on one of them.

A step is that of smelt.training.steps.step by the kernels of smelt.model.gpu. What it takes from the host for the next
one is prepared and sent while the device works on this one.
"""

import os
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.optim import AdamW

from smelt.errors import UserError
from smelt.model import gpu
from smelt.model.gpu_attention import Packed, packed, to_device
from smelt.model.gpu_loss import summed_loss, targets
from smelt.model.transformer import Output, Transformer
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch, ContextStream
from smelt.training.steps.step import descend

# cuBLAS has the same sums again only with workspaces of its own; it reads this when it starts.
WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def prepare(settings: TrainingSettings) -> torch.device:
    """The device that the run asks for, set to give the same bits again. Raises UserError where there is none."""
    if settings.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(
            f"training.device is {settings.device}, and torch {torch.__version__} finds no GPU here; "
            "run on a machine with one and a build of torch for it, or set training.device to cpu"
        )
    os.environ.setdefault(*WORKSPACE)
    torch.backends.cuda.matmul.allow_tf32 = False  # the router's products are float32 in full
    return torch.device("cuda", torch.cuda.current_device())


class Ready(NamedTuple):
    """A batch on the device."""

    tokens: Tensor  # (T,)
    following: Tensor  # (T,) what each token predicts, or -1
    segments: Packed
    targets: int


class Device:
    """The kernels of smelt.model.gpu on `device` (see `backends.global_step.Kernels`), for a network that
    `install` was called on."""

    def __init__(self, device: torch.device, settings: TrainingSettings, compiled: bool = True) -> None:
        self.device = device
        self.execution = gpu.Execution(getattr(torch, settings.precision), compiled, settings.activation_checkpointing)

    def ready(self, batch: Batch) -> Ready:
        following, count = targets(batch.tokens, batch.lengths)
        segments = packed(batch.lengths, None, self.device, precision=self.execution.precision)
        return Ready(to_device(batch.tokens, self.device), to_device(following, self.device), segments, count)

    def forward(self, model: Transformer, ready: Ready) -> Output:
        return cast(Output, model(ready.tokens, ready.segments))

    def loss(self, model: Transformer, output: Output, ready: Ready) -> Tensor:
        return summed_loss(model, output.hidden, ready.following, self.execution.precision)


class Feed:
    """The batches of a run on its device; `prepare` makes one ahead of `take`."""

    def __init__(self, kernels: Device, contexts: int) -> None:
        self.kernels = kernels
        self.contexts = contexts  # of a batch
        self.ahead: tuple[ContextStream, int, Ready] | None = None

    def take(self, stream: ContextStream, index: int) -> Ready:
        """Batch `index` of `stream`."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None and ahead[0] is stream and ahead[1] == index:
            return ahead[2]
        return self._ready(stream, index)

    def prepare(self, stream: ContextStream, index: int) -> None:
        """Send batch `index` of `stream` to the device without waiting for it."""
        self.ahead = (stream, index, self._ready(stream, index))

    def _ready(self, stream: ContextStream, index: int) -> Ready:
        return self.kernels.ready(stream.batch(index, self.contexts))


def gpu_step(
    model: Transformer,
    adamw: AdamW,
    feed: Feed,
    stream: ContextStream,
    index: int,
    following: int | None,
    rate: float,
    settings: TrainingSettings,
) -> dict[str, Any]:
    """`train_step` on batch `index` of `stream` on the model's device; `following` is the batch of the next step.

    Raises UserError as `train_step` does.
    """
    batch, kernels = feed.take(stream, index), feed.kernels
    output = kernels.forward(model, batch)
    loss = kernels.loss(model, output, batch) / batch.targets

    def meanwhile() -> None:
        if following is not None:
            feed.prepare(stream, following)

    return descend(model, adamw, output, loss, rate, settings, meanwhile)
