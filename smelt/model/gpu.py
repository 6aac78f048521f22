"""The network on one GPU: the same weights and the same plan, walked by other kernels.

Products run in bfloat16, what the optimizer holds, the router, norms, softmax and the residual stream stay float32.
`experts` and `route` have the interfaces of their CPU namesakes, which are the reference; nothing here uses a sum
without a fixed order, so that under `torch.use_deterministic_algorithms` a step gives the same bits again.

Shapes as in smelt.model.transformer: T tokens of consecutive segments, H hidden size, E experts, k active ones.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from smelt.model.attention import rotary_tables, rotate
from smelt.model.experts import Routing, padded
from smelt.model.gpu_attention import Packed, attend
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Layer, Output, Transformer


@dataclasses.dataclass(frozen=True)
class Execution:
    """How the network is run; none of it is part of the model."""

    precision: torch.dtype = torch.bfloat16  # of the products
    compiled: bool = True  # whether a block is compiled; the first step of each form of it takes long
    activation_checkpointing: bool = False  # the backward pass runs each block again


class Visit(NamedTuple):
    """What one visit of a layer gives beside the routing's choices, which nothing reads afterwards."""

    x: Tensor  # (T, H) float32
    balance_loss: Tensor
    z_loss: Tensor
    counts: Tensor  # (E,)
    probabilities: Tensor  # (E,)


def install(model: Transformer, execution: Execution) -> None:
    """Let the network, and each of its layers, run by these kernels: model(tokens, packed) gives an Output.

    They stay modules that are called, so that what shards a network can gather a layer's weights around its call.
    """
    model.forward = functools.partial(forward, model)  # type: ignore[method-assign]
    for layer in model.layers:
        layer.forward = functools.partial(_through, cast(Layer, layer), execution)
        cast(Layer, layer).run_experts = experts


def forward(model: Transformer, tokens: Tensor, packed: Packed) -> Output:
    """`Transformer.forward` of tokens (T,) whose segments `packed` describes, all on the model's device."""
    settings = model.settings
    rotary = _rotary(packed.positions, settings)
    x = F.embedding(tokens, model.embedding)
    visits = []
    for step in model.plan:
        found = model.layers[step.layer](x, packed, rotary, step.residual_scale)
        x = found.x
        visits.append(found)
    return Output(
        F.rms_norm(x, (settings.hidden_size,), model.norm, settings.norm_eps),
        torch.stack([found.balance_loss for found in visits]).mean(),
        torch.stack([found.z_loss for found in visits]).mean(),
        torch.stack([found.counts for found in visits]),
        torch.stack([found.probabilities for found in visits]),
    )


def _through(
    layer: Layer, execution: Execution, x: Tensor, packed: Packed, rotary: tuple[Tensor, Tensor], scale: float
) -> Visit:
    """A visit of a layer, compiled or recomputed as `execution` says."""
    visit = _compiled() if execution.compiled else _visit
    arguments = (layer, _dynamic(x), packed, rotary, scale, execution.precision)
    if execution.activation_checkpointing and torch.is_grad_enabled():
        return cast(Visit, checkpoint(visit, *arguments, use_reentrant=False, preserve_rng_state=False))
    return visit(*arguments)


def _rotary(positions: Tensor, settings: ModelSettings) -> tuple[Tensor, Tensor]:
    """The tables of RoPE where `positions` are."""
    with torch.device(positions.device):
        return rotary_tables(positions, settings.head_size, settings.rope_base)


def _dynamic(x: Tensor) -> Tensor:
    """The number of tokens differs from batch to batch and must not compile a block again."""
    torch._dynamo.maybe_mark_dynamic(x, 0)
    return x


def _visit(
    layer: Layer, x: Tensor, packed: Packed, rotary: tuple[Tensor, Tensor], scale: float, precision: torch.dtype
) -> Visit:
    """One visit of a layer: both sublayers' writes times `scale` added to x (T, H)."""
    s = layer.settings
    inner = layer.normalise(x, layer.attention_norm)
    qkv = _linear(inner, layer.wqkv, precision).unflatten(-1, (s.heads + 2 * s.kv_heads, s.head_size))
    q, k, v = qkv.split([s.heads, s.kv_heads, s.kv_heads], dim=1)
    q, k = (rotate(part.float(), *rotary).to(precision) for part in (q, k))
    write = _linear(attend(q, k, v, packed).flatten(1), layer.wo, precision)
    x = torch.add(x, write.float(), alpha=scale)

    inner = layer.normalise(x, layer.experts_norm)
    routing = route(inner, layer.router, s.active_experts)
    write = layer.run_experts(inner, routing.indices, routing.weights, layer.w13, layer.w2, precision)
    if s.shared_width:
        gate, up = _linear(inner, layer.shared13, precision).chunk(2, dim=-1)
        write = write + _linear(F.silu(gate) * up, layer.shared2, precision).float()
    x = torch.add(x, write, alpha=scale)
    return Visit(x, routing.balance_loss, routing.z_loss, routing.counts, routing.probabilities)


@functools.cache
def _compiled() -> Callable[..., Visit]:
    """One compiled block for all layers: their weights are inputs of it, and equal shapes share its code."""
    return cast(Callable[..., Visit], torch.compile(_visit))


def _linear(x: Tensor, weight: Tensor, precision: torch.dtype) -> Tensor:
    # Cast here and not once a step: the gradients of two visits then meet in float32.
    return F.linear(x.to(precision), weight.to(precision))


def route(x: Tensor, router: Tensor, active: int) -> Routing:
    """`smelt.model.experts.route` without a wait for the device: top-k in float32, x (T, H), router (E, H)."""
    logits = F.linear(x.float(), router.float())
    probabilities = logits.softmax(dim=-1)
    indices = probabilities.detach().topk(active, dim=-1).indices
    top = probabilities.gather(1, indices)
    experts_count = router.shape[0]
    _, ends = _by_expert(indices, experts_count)
    counts = ends.diff(prepend=ends.new_zeros(1)).long()
    share = counts.float() / indices.numel()
    means = probabilities.mean(dim=0)
    balance = experts_count * (share * means).sum()
    z = logits.logsumexp(dim=-1).square().mean()
    return Routing(indices, top / top.sum(dim=-1, keepdim=True), balance, z, counts, means)


def experts(x: Tensor, indices: Tensor, weights: Tensor, w13: Tensor, w2: Tensor, precision: torch.dtype) -> Tensor:
    """`smelt.model.experts.experts` by grouped products over exact rows, products in `precision`; float32 (T, H).

    No row lies behind the last expert's: such rows would stay undefined, in the gradients too.
    """
    size = x.shape[1]
    order, ends = _by_expert(indices, len(w13))
    x, w13, w2 = padded(x.to(precision), w13.to(precision), w2.to(precision))
    rows = _ToRows.apply(x, order, indices.shape[1])
    gate, up = F.grouped_mm(rows, w13, offs=ends).chunk(2, dim=-1)
    out = F.grouped_mm(F.silu(gate) * up, w2, offs=ends)[:, :size]
    out = _FromRows.apply(out, order).unflatten(0, indices.shape)
    return (weights.unsqueeze(2) * out.float()).sum(dim=1)


def _by_expert(indices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The choices t * k + j in the order of their experts, and (E,) int32 where each expert's rows end."""
    flat, order = indices.flatten().sort(stable=True)
    ends = torch.searchsorted(flat, torch.arange(count, device=flat.device), right=True)
    return order, ends.to(torch.int32)


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


class _ToRows(torch.autograd.Function):
    """Tokens (T, H) as rows by expert (T * k, H); backward unsorts and sums over the k choices, in their order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, active: int) -> Tensor:
        ctx.save_for_backward(order)
        ctx.active = active
        return x.index_select(0, order // active)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (order,) = ctx.saved_tensors
        rows = grad.index_select(0, _inverse(order)).unflatten(0, (-1, ctx.active))
        return rows.float().sum(dim=1).to(grad.dtype), None, None


class _FromRows(torch.autograd.Function):
    """Rows by expert back in the order of the choices: a permutation both ways."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows.index_select(0, _inverse(order))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (order,) = ctx.saved_tensors
        return grad.index_select(0, order), None
