"""The looped MoE Transformer: a decoder that walks its execution plan.

Shapes: T tokens of one or several packed contexts, flat and without padding; H hidden size; V vocabulary.
Pre-norm RMSNorm, RoPE, grouped-query attention inside segments, top-k SwiGLU experts. Inside the span each
sublayer's write is scaled by 1/visits (Eq. 8, 9).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smelt.model.attention import Layout, attend, layout, rotary_tables, rotate
from smelt.model.execution import plan
from smelt.model.experts import Experts, Routing, experts, route
from smelt.model.product import linear
from smelt.model.settings import ModelSettings


class Output(NamedTuple):
    """What a forward pass gives; means and counts run over the steps of the plan."""

    hidden: Tensor  # (T, H), normalised: `logits` turns any of its rows into predictions
    balance_loss: Tensor
    z_loss: Tensor
    counts: Tensor  # (executed layers, E) tokens routed to each expert
    probabilities: Tensor  # (executed layers, E) of the router, mean over the tokens


class Layer(nn.Module):
    """One physical layer; looped ones are called once a visit with the same weights."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        self.run_experts: Experts = experts  # a sharded network sends tokens to where their experts are
        size, width = settings.hidden_size, settings.expert_width
        queries, keys = settings.heads * settings.head_size, settings.kv_heads * settings.head_size
        self.attention_norm = nn.Parameter(torch.ones(size))
        self.wqkv = nn.Parameter(torch.empty(queries + 2 * keys, size))
        self.wo = nn.Parameter(torch.empty(size, queries))
        self.experts_norm = nn.Parameter(torch.ones(size))
        self.router = nn.Parameter(torch.empty(settings.experts, size))
        self.w13 = nn.Parameter(torch.empty(settings.experts, size, 2 * width))
        self.w2 = nn.Parameter(torch.empty(settings.experts, width, size))
        if settings.shared_width:
            self.shared13 = nn.Parameter(torch.empty(2 * settings.shared_width, size))
            self.shared2 = nn.Parameter(torch.empty(size, settings.shared_width))

    def forward(
        self, x: Tensor, segments: Layout, rotary: tuple[Tensor, Tensor], scale: float, precision: torch.dtype
    ) -> tuple[Tensor, Routing]:
        """One visit: x (T, H) with both sublayers' writes times `scale` added, and the routing of the experts."""
        x = _add(x, self.attention(self.normalise(x, self.attention_norm), segments, rotary), scale)
        write, routing = self.mixture(self.normalise(x, self.experts_norm), precision)
        return _add(x, write, scale), routing

    def normalise(self, x: Tensor, gain: Tensor) -> Tensor:
        """RMSNorm (arXiv 1910.07467) of x (T, H) with a gain (H,)."""
        return F.rms_norm(x, (x.shape[-1],), gain, self.settings.norm_eps)

    def attention(self, x: Tensor, segments: Layout, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """The attention sublayer's write (T, H) for normalised x (T, H)."""
        s = self.settings
        qkv = linear(x, self.wqkv).unflatten(-1, (s.heads + 2 * s.kv_heads, s.head_size))
        q, k, v = qkv.split([s.heads, s.kv_heads, s.kv_heads], dim=1)
        return linear(attend(rotate(q, *rotary), rotate(k, *rotary), v, segments).flatten(1), self.wo)

    def mixture(self, x: Tensor, precision: torch.dtype) -> tuple[Tensor, Routing]:
        """The experts' write (T, H) for normalised x (T, H), and the routing behind it."""
        routing = route(x, self.router, self.settings.active_experts)
        out = self.run_experts(x, routing.indices, routing.weights, self.w13, self.w2, precision)
        if self.settings.shared_width:
            gate, up = linear(x, self.shared13).chunk(2, dim=-1)
            out = out + linear(F.silu(gate) * up, self.shared2)
        return out, routing


def _add(x: Tensor, write: Tensor, scale: float) -> Tensor:
    return x + write if scale == 1.0 else torch.add(x, write, alpha=scale)


class Transformer(nn.Module):
    """The network of `settings`; `precision` is that of the experts' products on the CPU."""

    def __init__(self, settings: ModelSettings, precision: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.settings = settings
        self.precision = precision
        self.plan = plan(settings)
        self.embedding = nn.Parameter(torch.empty(settings.vocabulary, settings.hidden_size))
        self.layers = nn.ModuleList([Layer(settings) for _ in range(settings.layers)])
        self.norm = nn.Parameter(torch.ones(settings.hidden_size))
        if not settings.tied_embeddings:
            self.head = nn.Parameter(torch.empty(settings.vocabulary, settings.hidden_size))

    def forward(
        self, tokens: Tensor, lengths: Sequence[int], branches: Sequence[Sequence[int]] | None = None
    ) -> Output:
        """Run T tokens, (T,) integers, made of consecutive segments of the given lengths and branches (`layout`)."""
        segments = layout(lengths, branches)
        rotary = rotary_tables(segments.positions, self.settings.head_size, self.settings.rope_base)
        x = F.embedding(tokens, self.embedding)
        routings = []
        for step in self.plan:
            x, routing = self.layers[step.layer](x, segments, rotary, step.residual_scale, self.precision)
            routings.append(routing)
        return Output(
            F.rms_norm(x, (x.shape[-1],), self.norm, self.settings.norm_eps),
            torch.stack([routing.balance_loss for routing in routings]).mean(),
            torch.stack([routing.z_loss for routing in routings]).mean(),
            torch.stack([routing.counts for routing in routings]),
            torch.stack([routing.probabilities for routing in routings]),
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Predictions (rows, V) in float32 from normalised hidden states (rows, H)."""
        return linear(hidden, self.embedding if self.settings.tied_embeddings else self.head).float()


def initialise(model: Transformer, seed: int) -> None:
    """Fill the weights: truncated normal with standard deviation 1/sqrt(fan-in), which is the usual 0.02 at a
    hidden size of 2,500 and keeps small networks learning; writes to the residual stream are scaled by
    1/sqrt(2 x executed layers).

    The order of draws is that of `named_parameters`, so that a seed means the same weights on every machine.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                draw(name, parameter, len(model.plan), generator)


def draw(name: str, matrix: Tensor, executed: int, generator: torch.Generator) -> None:
    """Fill one matrix of a network of so many executed layers."""
    fan_in = matrix.shape[1]  # matrices are (out, in), experts (E, in, out)
    std = fan_in**-0.5 / (math.sqrt(2 * executed) if name.endswith(("wo", "w2", "shared2")) else 1.0)
    nn.init.trunc_normal_(matrix, 0.0, std, -3 * std, 3 * std, generator=generator)


def next_token_loss(model: Transformer, hidden: Tensor, tokens: Tensor, lengths: Sequence[int]) -> Tensor:
    """Cross-entropy in nats of each target: every token of a segment but its first (BOS); (T - segments,)."""
    first = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    is_target = torch.ones(len(tokens), dtype=torch.bool)
    is_target[first] = False
    target = is_target.nonzero().squeeze(1)
    logits = model.logits(hidden.index_select(0, target - 1))
    return F.cross_entropy(logits, tokens.index_select(0, target), reduction="none")
