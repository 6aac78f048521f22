"""Cross-entropy that never holds the predictions of all tokens.

At 32,768 tokens and a vocabulary of 50,000, float32 predictions and their gradient take 13 GB. Here a chunk of rows
is predicted, its loss and its gradients are taken at once, and the predictions are dropped.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from smelt.model.transformer import Transformer

CHUNK = 4096  # rows


def targets(tokens: Tensor, lengths: Sequence[int]) -> tuple[Tensor, int]:
    """(T,) what each token predicts, -1 at the end of a segment, and how many targets there are."""
    following = torch.cat([tokens[1:], tokens[:1]])
    ends = torch.tensor(list(accumulate(lengths)), device=tokens.device) - 1
    return following.index_fill(0, ends, -1), len(tokens) - len(lengths)


def summed_loss(
    model: Transformer, hidden: Tensor, following: Tensor, precision: torch.dtype, chunk: int = CHUNK
) -> Tensor:
    """The sum of `smelt.model.transformer.next_token_loss`, nats, for hidden (T, H) and `targets` (T,).

    Products in `precision`, softmax and sums in float32; needs no second gradient.
    """
    head = model.embedding if model.settings.tied_embeddings else model.head
    return _Chunked.apply(hidden, head, following, precision, chunk)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, following: Tensor, precision: torch.dtype, chunk: int
    ) -> Tensor:
        weight = head.to(precision)
        total = hidden.new_zeros((), dtype=torch.float32)
        wanted = any(ctx.needs_input_grad)
        d_hidden = torch.empty_like(hidden) if wanted else None
        d_head = torch.zeros_like(head, dtype=torch.float32) if wanted else None
        for start in range(0, len(hidden), chunk):
            part = slice(start, start + chunk)
            rows, target = hidden[part].to(precision), following[part]
            logits = F.linear(rows, weight).float()
            total += F.cross_entropy(logits, target, ignore_index=-1, reduction="sum")
            if d_hidden is None or d_head is None:
                continue
            gradient = logits.softmax(dim=-1)
            place = target.clamp(min=0).unsqueeze(1)
            gradient.scatter_(1, place, gradient.gather(1, place) - 1)
            # Not a product: a gradient that is not finite must not hide behind 0 * NaN.
            gradient.masked_fill_((target < 0).unsqueeze(1), 0.0)
            small = gradient.to(precision)
            d_hidden[part] = small @ weight
            d_head += small.t() @ rows  # each chunk's in `precision`, their sum in float32
        if wanted:
            ctx.save_for_backward(d_hidden, d_head)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_head = ctx.saved_tensors
        return d_hidden * grad, d_head * grad, None, None, None
