"""Dropless routing and SwiGLU experts on the CPU.

Two forms of the same sum over a token's experts. *Blocks* (bfloat16): the tokens of each expert are
sorted into blocks of equal size, padded with zero rows, and all blocks go through one batched product;
one small product per expert would lose most of its time in calls, and oneDNN's bfloat16 reaches its
speed in batches alone. *Grouped* (float32): torch's grouped product over exact rows.

Neither uses an index in brackets on what needs a gradient: its backward accumulates in no fixed order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from smelt.model.product import linear

Experts = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, torch.dtype], Tensor]  # the signature of `experts`
BLOCK = 64  # rows; a constant, as the bits of a token must not hang on what it is packed with
ROW_BYTES = 16  # whose multiples the rows of a grouped product must be
FOLD = 8  # experts in one column, where there are many
MANY = 256  # experts; beyond it the best columns are found first


class Routing(NamedTuple):
    """The choice of experts for T tokens, k each."""

    indices: Tensor  # (T, k) expert of each choice
    weights: Tensor  # (T, k) float32, summing to 1 over k
    balance_loss: Tensor  # scalar, 1 where all experts get the same share
    z_loss: Tensor  # scalar
    counts: Tensor  # (E,) choices of each expert
    probabilities: Tensor  # (E,) mean over the tokens, with its gradient: the balance loss of a larger batch needs it


def route(x: Tensor, router: Tensor, active: int) -> Routing:
    """Top-k routing in float32; x is (T, H), `router` is (E, H).

    The balance loss is the Switch form (arXiv 2101.03961, Eq. 4-6) over the k choices; the z loss is
    the mean squared log-sum-exp of the logits (arXiv 2202.08906, Eq. 5).
    """
    logits = linear(x.float(), router.float())
    probabilities = logits.softmax(dim=-1)
    indices = _largest(probabilities.detach(), active)
    top = probabilities.gather(1, indices)
    experts = router.shape[0]
    counts = torch.bincount(indices.flatten(), minlength=experts)
    share = counts.float() / indices.numel()
    means = probabilities.mean(dim=0)
    balance = experts * torch.dot(share, means)
    z = logits.logsumexp(dim=-1).square().mean()
    return Routing(indices, top / top.sum(dim=-1, keepdim=True), balance, z, counts, means)


def _largest(probabilities: Tensor, count: int) -> Tensor:
    """Top-`count` expert indices, (T, count), of (T, E) in descending order; ties go to the lower index.

    A third to a fifth of the time of torch's top-k. The `count` largest of many lie in as many columns of the folded
    row, those with the largest maxima, or in the rest that does not fill a column.
    """
    experts = probabilities.shape[1]
    if probabilities.device.type != "cpu":
        return probabilities.topk(count, dim=-1).indices
    if experts <= max(MANY, FOLD * count):
        return _by_partition(probabilities, count)
    width = experts // FOLD
    columns = _by_partition(probabilities[:, : FOLD * width].unflatten(1, (FOLD, width)).amax(dim=1), count)
    inside = (columns.unsqueeze(1) + width * torch.arange(FOLD).unsqueeze(1)).flatten(1)
    candidates = torch.cat([inside, torch.arange(FOLD * width, experts).expand(len(inside), -1)], dim=1)
    return candidates.gather(1, _by_partition(probabilities.gather(1, candidates), count))


def _by_partition(values: Tensor, count: int) -> Tensor:
    """`_largest` by numpy, which partitions rows with the machine's vector instructions: of the bits, negated, which
    order as the numbers do where none is negative, with the index below."""
    keys = (-values.view(torch.int32)).long() << 32 | torch.arange(values.shape[1])
    first = np.partition(keys.numpy(), count - 1, axis=-1)[:, :count]
    return torch.from_numpy(np.sort(first, axis=-1)) & 0xFFFFFFFF


def experts(x: Tensor, indices: Tensor, weights: Tensor, w13: Tensor, w2: Tensor, precision: torch.dtype) -> Tensor:
    """Weighted sum of each token's experts.

    x is (T, H), indices and weights are (T, k), w13 is (E, H, 2W) with the gate first, w2 is (E, W, H);
    returns (T, H) in x's dtype.
    """
    if precision == torch.bfloat16:
        return _Blocks.apply(x, indices, weights, w13, w2)
    return _grouped(x, indices, weights, w13, w2)


def _grouped(x: Tensor, indices: Tensor, weights: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
    order = indices.flatten().argsort(stable=True)
    ends = torch.bincount(indices.flatten(), minlength=len(w13)).cumsum(0).to(torch.int32)
    size = x.shape[1]
    x, w13, w2 = padded(x, w13, w2)
    rows = x.index_select(0, order // indices.shape[1])
    gate, up = F.grouped_mm(rows, w13, offs=ends).chunk(2, dim=-1)
    out = F.grouped_mm(F.silu(gate) * up, w2, offs=ends)[:, :size]
    out = out.index_select(0, order.argsort()).unflatten(0, indices.shape)
    return (weights.unsqueeze(1) @ out).squeeze(1)


def padded(x: Tensor, w13: Tensor, w2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All three with a hidden size and an expert width that grouped products can take; the zeros add nothing."""
    _, width, size = w2.shape
    wide, deep = (-count % (ROW_BYTES // x.dtype.itemsize) for count in (size, width))
    if not (wide or deep):
        return x, w13, w2
    halves = F.pad(w13.unflatten(-1, (2, width)), (0, deep, 0, 0, 0, wide))
    return F.pad(x, (0, wide)), halves.flatten(-2), F.pad(w2, (0, wide, 0, deep))


class _Plan(NamedTuple):
    token: Tensor  # (blocks * BLOCK,) token of each row; T for a padding row
    pair: Tensor  # (blocks * BLOCK,) choice t*k + j of each row; T*k for a padding row
    row: Tensor  # (T*k,) row of each choice
    expert: Tensor  # (blocks,) expert of each block


def _blocks(indices: Tensor, experts: int) -> _Plan:
    """Sort the choices by expert and pad each expert's rows to whole blocks."""
    flat = indices.flatten()
    _, order = torch.sort(flat.to(torch.int16) if experts < 2**15 else flat, stable=True)
    counts = torch.bincount(flat, minlength=experts)
    blocks = (counts + BLOCK - 1) // BLOCK
    shift = (blocks * BLOCK).cumsum(0) - blocks * BLOCK - counts.cumsum(0) + counts  # padded start - sorted start
    place = torch.arange(flat.numel()) + shift.index_select(0, flat.index_select(0, order))
    pair = torch.full((int(blocks.sum()) * BLOCK,), flat.numel())
    pair.index_copy_(0, place, order)
    row = torch.empty_like(flat).index_copy_(0, order, place)
    return _Plan(pair // indices.shape[1], pair, row, torch.repeat_interleave(blocks))


def _with_zero_row(x: Tensor, dtype: torch.dtype) -> Tensor:
    out = torch.empty(x.shape[0] + 1, *x.shape[1:], dtype=dtype)
    out[:-1].copy_(x)
    out[-1].zero_()
    return out


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: Tensor, weights: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
        plan = _blocks(indices, len(w13))
        tokens, active = indices.shape
        rows = _with_zero_row(x, torch.bfloat16).index_select(0, plan.token).unflatten(0, (-1, BLOCK))
        hidden = torch.bmm(rows, w13.bfloat16().index_select(0, plan.expert))
        # In one piece each: on half rows the passes below take two to eight times as long.
        gate, up = (half.contiguous() for half in hidden.chunk(2, dim=-1))
        activation = F.silu(gate)
        out = torch.bmm(activation * up, w2.bfloat16().index_select(0, plan.expert))
        out = out.flatten(0, 1).index_select(0, plan.row).view(tokens, active, -1)
        ctx.plan = plan
        ctx.save_for_backward(rows, gate, up, activation, out, weights, w13, w2)
        return torch.bmm(weights.unsqueeze(1), out.float()).squeeze(1).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, gate, up, activation, out, weights, w13, w2 = ctx.saved_tensors
        plan: _Plan = ctx.plan
        d_weights = torch.bmm(out.float(), grad.float().unsqueeze(2)).squeeze(2)
        scale = _with_zero_row(weights.flatten(), torch.bfloat16).index_select(0, plan.pair).float()
        # A product of two bfloat16 is exact in float32, whose passes do not mind the width.
        d_out = _with_zero_row(grad, torch.bfloat16).index_select(0, plan.token).float() * scale.unsqueeze(1)
        d_out = d_out.bfloat16().unflatten(0, (-1, BLOCK))

        d_inner = torch.bmm(d_out, w2.bfloat16().index_select(0, plan.expert).transpose(1, 2))
        d_w2 = _sum_blocks(torch.bmm((activation * up).transpose(1, 2), d_out), plan.expert, len(w2))
        d_hidden = torch.cat([torch.ops.aten.silu_backward(d_inner * up, gate), d_inner * activation], dim=-1)
        d_w13 = _sum_blocks(torch.bmm(rows.transpose(1, 2), d_hidden), plan.expert, len(w13))
        d_rows = torch.bmm(d_hidden, w13.bfloat16().index_select(0, plan.expert).transpose(1, 2))
        d_x = d_rows.flatten(0, 1).index_select(0, plan.row).view(*weights.shape, -1).float().sum(dim=1)
        return d_x.to(grad.dtype), None, d_weights, d_w13, d_w2


def _sum_blocks(blocks: Tensor, expert: Tensor, experts: int) -> Tensor:
    """Weight gradients (E, ...) in float32 from those of the blocks; an expert without blocks gets exact zeros."""
    total = torch.zeros(experts, *blocks.shape[1:])
    return total.index_add_(0, expert, blocks.float())
