"""One optimizer step on a batch that is spread over processes and taken in pieces.

A step's batch is cut into micro-batches: each process walks its own, one after the other. The step is that of the
whole batch, whatever the cut: the cross-entropy is the sum over all targets by their number, the z loss the mean over
all tokens, and the balance loss that of the whole batch, which is no mean of those of its parts (a product of two
means): the experts' shares are summed over all micro-batches before any of them is differentiated. Where a process
has several, they are counted by a pass without gradients first, which costs a forward pass more, a third of a step.

Without a process group this is one process. Gradients that the processes exchange are summed, never averaged.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from smelt.errors import UserError
from smelt.model.transformer import Transformer, next_token_loss
from smelt.training.data import Batch, Stream
from smelt.training.settings import TrainingSettings


def world() -> int:
    """Processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def summed(values: Tensor) -> Tensor:
    """The sum over the processes, the same bits on each; changes `values`."""
    if world() > 1:
        dist.all_reduce(values)
    return values


def micro_batches(stream: Stream, step: int, contexts: int, size: int) -> list[Batch]:
    """This process's micro-batches, of `size` contexts each, of step `step` (from 0), which reads `contexts`."""
    count = contexts // size
    return [stream.batch(step * count + number, size) for number in range(rank(), count, world())]


def global_step(
    model: Transformer, adamw: AdamW, batches: Sequence[Batch], rate: float, settings: TrainingSettings
) -> dict[str, Any]:
    """Update the model at learning rate `rate` on the micro-batches of all processes, as many on each.

    Returns what the log keeps of the whole batch, the same on each process. Raises UserError, on each, on a loss or a
    gradient that is not finite, before the weights are touched.
    """
    sizes = [[len(batch.tokens) - len(batch.lengths), len(batch.tokens)] for batch in batches]
    targets, tokens = summed(torch.tensor(sizes).sum(dim=0)).tolist()
    adamw.zero_grad()
    counts = _counted(model, batches) if len(batches) > 1 else None
    parts = torch.zeros(3, dtype=torch.float64)  # cross-entropy, balance loss, z loss
    for batch in batches:
        output = model(batch.tokens, batch.lengths)
        if counts is None:
            counts = summed(output.counts.clone())
        share = counts.float() / counts.sum(dim=1, keepdim=True)
        weight = len(batch.tokens) / tokens
        loss = next_token_loss(model, output.hidden, batch.tokens, batch.lengths).sum() / targets
        balance = share.shape[1] * (share * output.probabilities).sum(dim=1).mean() * weight
        z = output.z_loss * weight
        (loss + settings.balance_loss * balance + settings.z_loss * z).backward()
        parts += torch.stack([loss, balance, z]).detach().double()
    loss, balance, z = summed(parts).tolist()
    norm = _full(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)).item()
    if not torch.isfinite(torch.tensor([loss, balance, z, norm])).all():
        raise UserError(
            f"the loss is {loss} and the gradient norm {norm} at learning rate {rate:.4g}; "
            "no endpoint is written. Lower training.learning_rate or lengthen training.warmup_steps"
        )
    for group in adamw.param_groups:
        group["lr"] = rate
    adamw.step()
    assert counts is not None
    share = counts.float() / counts.sum(dim=1, keepdim=True)
    return {
        "loss": loss,
        "balance_loss": balance,
        "z_loss": z,
        "gradient_norm": norm,
        "learning_rate": rate,
        "expert_load": (share.max(dim=1).values * share.shape[1]).tolist(),
        "idle_experts": (counts == 0).float().mean(dim=1).tolist(),
    }


def _counted(model: Transformer, batches: Sequence[Batch]) -> Tensor:
    """(executed layers, E) choices of each expert over the micro-batches of all processes."""
    with torch.no_grad():
        return summed(torch.stack([model(batch.tokens, batch.lengths).counts for batch in batches]).sum(dim=0))


def _full(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value
