"""One optimizer step, and the optimizer."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from smelt.errors import UserError
from smelt.model.transformer import Output, Transformer, next_token_loss
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch


def optimizer(model: Transformer, settings: TrainingSettings) -> AdamW:
    """AdamW; norms are not decayed."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    gains = [p for p in model.parameters() if p.dim() == 1]
    return AdamW(
        [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": gains, "weight_decay": 0.0}],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        fused=True,
    )


def train_step(
    model: Transformer, adamw: AdamW, batch: Batch, rate: float, settings: TrainingSettings
) -> dict[str, Any]:
    """Update the model on one batch at learning rate `rate`; return what the log keeps of it.

    Raises UserError on a loss or a gradient that is not finite, before the weights are touched.
    """
    output = model(batch.tokens, batch.lengths)
    loss = next_token_loss(model, output.hidden, batch.tokens, batch.lengths).mean()
    return descend(model, adamw, output, loss, rate, settings)


def descend(
    model: Transformer,
    adamw: AdamW,
    output: Output,
    loss: Tensor,
    rate: float,
    settings: TrainingSettings,
    meanwhile: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """The update that follows a forward pass whose mean cross-entropy is `loss`, and what the log keeps of it.

    `meanwhile` is called once the gradients are asked for and before anything waits for them. Raises UserError as
    `train_step` does.
    """
    total = loss + settings.balance_loss * output.balance_loss + settings.z_loss * output.z_loss
    adamw.zero_grad()
    total.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
    if meanwhile is not None:
        meanwhile()
    losses = [value.item() for value in (loss, output.balance_loss, output.z_loss)]
    return applied(adamw, losses, norm.item(), rate, output.counts)


def applied(adamw: AdamW, losses: Sequence[float], norm: float, rate: float, counts: Tensor) -> dict[str, Any]:
    """Let the optimizer follow the gradients at learning rate `rate`; what the log keeps of the step.

    `losses` are cross-entropy, balance and z loss, `counts` is (executed layers, E). Raises UserError on a number that
    is not finite, before the weights are touched.
    """
    loss, balance_loss, z_loss = losses
    if not all(map(math.isfinite, (*losses, norm))):
        raise UserError(
            f"the loss is {loss} and the gradient norm {norm} at learning rate {rate:.4g}; "
            "no endpoint is written. Lower training.learning_rate or lengthen training.warmup_steps"
        )
    for group in adamw.param_groups:
        group["lr"] = rate
    adamw.step()
    share = counts.float() / counts.sum(dim=1, keepdim=True)
    return {
        "loss": loss,
        "balance_loss": balance_loss,
        "z_loss": z_loss,
        "gradient_norm": norm,
        "learning_rate": rate,
        "expert_load": (share.max(dim=1).values * share.shape[1]).tolist(),
        "idle_experts": (counts == 0).float().mean(dim=1).tolist(),
    }
