"""One optimizer step on a batch that is spread over processes and taken in pieces.

A step's batch is cut into micro-batches: each process walks its own, one after the other. The step is that of the
whole batch, whatever the cut: the cross-entropy is the sum over all targets by their number, the z loss the mean over
all tokens, and the balance loss that of the whole batch, which is no mean of those of its parts (a product of two
means): the experts' shares are summed over all micro-batches before any of them is differentiated. Where a process
has several, they are counted by a pass without gradients first, which costs a forward pass more, a third of a step.

Without a process group this is one process. Gradients that the processes exchange are summed, never averaged.
"""

from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from smelt.model.transformer import Output, Transformer, next_token_loss
from smelt.training.processes import rank, summed, world
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch, ContextStream
from smelt.training.steps.step import applied


class Kernels(Protocol):
    """How a network and a batch become a loss on a device."""

    device: torch.device

    def ready(self, batch: Batch) -> Any:
        """The batch as `forward` and `loss` want it."""

    def forward(self, model: Transformer, ready: Any) -> Output:
        """What the network makes of a batch."""

    def loss(self, model: Transformer, output: Output, ready: Any) -> Tensor:
        """The cross-entropy of a batch summed over its targets, nats."""


class Cpu:
    """The reference."""

    device = torch.device("cpu")

    def ready(self, batch: Batch) -> Batch:
        return batch

    def forward(self, model: Transformer, ready: Batch) -> Output:
        return cast(Output, model(ready.tokens, ready.lengths))

    def loss(self, model: Transformer, output: Output, ready: Batch) -> Tensor:
        return next_token_loss(model, output.hidden, ready.tokens, ready.lengths).sum()


def micro_batches(stream: ContextStream, step: int, contexts: int, size: int) -> list[Batch]:
    """This process's micro-batches, of `size` contexts each, of step `step` (from 0), which reads `contexts`."""
    count = contexts // size
    return [stream.batch(step * count + number, size) for number in range(rank(), count, world())]


def global_step(
    model: Transformer,
    adamw: AdamW,
    batches: Sequence[Batch],
    rate: float,
    settings: TrainingSettings,
    kernels: Kernels | None = None,
) -> dict[str, Any]:
    """Update the model at learning rate `rate` on the micro-batches of all processes, as many on each.

    Returns what the log keeps of the whole batch, the same on each process. Raises UserError, on each, on a loss or a
    gradient that is not finite, before the weights are touched.
    """
    kernels = kernels or Cpu()
    sizes = [[len(batch.tokens) - len(batch.lengths), len(batch.tokens)] for batch in batches]
    targets, tokens = summed(torch.tensor(sizes).sum(dim=0)).tolist()
    adamw.zero_grad()
    prepared = [kernels.ready(batch) for batch in batches]
    counts = _counted(model, prepared, kernels) if len(batches) > 1 else None
    parts = torch.zeros(3, dtype=torch.float64, device=kernels.device)  # cross-entropy, balance loss, z loss
    for batch, ready in zip(batches, prepared, strict=True):
        output = kernels.forward(model, ready)
        if counts is None:
            counts = summed(output.counts.clone())
        share = counts.float() / counts.sum(dim=1, keepdim=True)
        weight = len(batch.tokens) / tokens
        loss = kernels.loss(model, output, ready) / targets
        balance = share.shape[1] * (share * output.probabilities).sum(dim=1).mean() * weight
        z = output.z_loss * weight
        (loss + settings.balance_loss * balance + settings.z_loss * z).backward()
        parts += torch.stack([loss, balance, z]).detach().double()
    norm = _full(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip))
    assert counts is not None
    return applied(adamw, summed(parts).tolist(), norm.item(), rate, counts)


def _counted(model: Transformer, prepared: Sequence[Any], kernels: Kernels) -> Tensor:
    """(executed layers, E) choices of each expert over the micro-batches of all processes."""
    with torch.no_grad():
        return summed(torch.stack([kernels.forward(model, ready).counts for ready in prepared]).sum(dim=0))


def _full(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value
