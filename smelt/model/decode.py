"""Exact incremental decoding: keys and values of every executed step are kept, one slot a step.

A looped layer is executed once a visit on another residual stream, so that each visit has keys and values of its own
and a slot of its own (`Step.kv_slot`). What is cached is what attention reads: keys after RoPE, and values. Shapes: B
sequences that grow together, T new tokens of each, P tokens that the cache holds already.

The cache is bfloat16 as the budgets count it, and attention then runs in bfloat16; a float32 cache gives the logits of
the whole forward pass up to the order of the sums inside attention.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smelt.model.attention import rotary_tables, rotate
from smelt.model.execution import Step, plan
from smelt.model.product import linear
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Layer, Transformer


class Cache:
    """Keys and values of `batch` sequences of up to `length` tokens, allocated at once."""

    def __init__(
        self, settings: ModelSettings, length: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        slots = 1 + max(step.kv_slot for step in plan(settings))
        shape = (slots, batch, settings.kv_heads, length, settings.head_size)
        self.keys = torch.empty(shape, dtype=dtype)
        self.values = torch.empty(shape, dtype=dtype)
        self.filled = 0  # tokens of each sequence; lowering it forgets the last ones

    @property
    def length(self) -> int:
        """Tokens of each sequence that there is room for."""
        return self.keys.shape[3]

    @property
    def bytes(self) -> int:
        """Bytes allocated."""
        return sum(tensor.untyped_storage().nbytes() for tensor in (self.keys, self.values))

    def store(self, slot: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new tokens' keys and values, each (B, KV heads, T, head size), behind those of the slot, and
        return all of them, each (B, KV heads, P + T, head size)."""
        end = self.filled + keys.shape[2]
        for kept, new in ((self.keys, keys), (self.values, values)):
            kept[slot, :, :, self.filled : end].copy_(new)
        return self.keys[slot, :, :, :end], self.values[slot, :, :, :end]


@torch.inference_mode()
def extend(model: Transformer, tokens: Tensor, cache: Cache) -> Tensor:
    """Run the new tokens (B, T) behind what the cache holds and keep theirs too.

    Returns normalised hidden states (B, T, H); `model.logits` turns any rows of them into predictions.
    """
    batch, length = tokens.shape
    if cache.filled + length > cache.length:
        raise ValueError(f"the cache has room for {cache.length} tokens and holds {cache.filled}; {length} more came")
    s = model.settings
    positions = torch.arange(cache.filled, cache.filled + length).repeat(batch)
    rotary = rotary_tables(positions, s.head_size, s.rope_base)
    x = F.embedding(tokens.flatten(), model.embedding)
    for step in model.plan:
        layer = cast(Layer, model.layers[step.layer])
        write = _attention(layer, layer.normalise(x, layer.attention_norm), step, cache, rotary, batch)
        x = torch.add(x, write, alpha=step.residual_scale)
        write, _ = layer.mixture(layer.normalise(x, layer.experts_norm), model.precision)
        x = torch.add(x, write, alpha=step.residual_scale)
    cache.filled += length
    return F.rms_norm(x, (s.hidden_size,), model.norm, s.norm_eps).unflatten(0, (batch, length))


def _attention(layer: Layer, x: Tensor, step: Step, cache: Cache, rotary: tuple[Tensor, Tensor], batch: int) -> Tensor:
    """The attention sublayer's write (B * T, H) for normalised x (B * T, H)."""
    s = layer.settings
    qkv = linear(x, layer.wqkv).unflatten(-1, (s.heads + 2 * s.kv_heads, s.head_size))
    q, k, v = qkv.split([s.heads, s.kv_heads, s.kv_heads], dim=1)
    q, k, v = (part.unflatten(0, (batch, -1)).transpose(1, 2) for part in (rotate(q, *rotary), rotate(k, *rotary), v))
    past, new = cache.filled, q.shape[2]
    keys, values = cache.store(step.kv_slot, k, v)
    mask = torch.ones(new, past + new, dtype=torch.bool).tril(past) if past and new > 1 else None
    out = F.scaled_dot_product_attention(
        q.to(keys.dtype), keys, values, attn_mask=mask, is_causal=not past, enable_gqa=s.heads != s.kv_heads
    )
    return linear(out.to(x.dtype).transpose(1, 2).flatten(2).flatten(0, 1), layer.wo)


@torch.inference_mode()
def greedy(model: Transformer, tokens: Tensor, count: int, cache: Cache) -> Tensor:
    """Read `tokens` (B, T) behind what the cache holds and go on with the most likely one, `count` times: (B, count).

    The cache grows by T + count - 1 tokens: the last one found is never read.
    """
    found = []
    for _ in range(count):
        tokens = model.logits(extend(model, tokens, cache)[:, -1]).argmax(dim=-1, keepdim=True)
        found.append(tokens)
    return torch.cat(found, dim=1)


def for_decoding(model: Transformer) -> Transformer:
    """Hold the experts in the precision of their products, in place: the same bits, and a token no longer converts all
    experts to meet a few. The network cannot be trained any more."""
    model.requires_grad_(False)
    for layer in model.layers:
        for name in ("w13", "w2"):
            setattr(layer, name, nn.Parameter(getattr(layer, name).to(model.precision), requires_grad=False))
    return model
