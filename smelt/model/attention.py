"""Causal attention inside segments, and where each token of a packed context stands.

A context packs several documents; a token sees its own segment only, and positions restart with it.
On the CPU a mask over the whole context costs up to sixteen times the work, so segments are attended
on their own. Short ones of similar length share one call: padded on the right, a causal mask alone keeps
a pad from every real query, so that the values of a segment depend on nothing but the segment.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

GRAIN = 32  # short segments are padded to a multiple of it
SHORT = 256  # longest segment that is padded; beyond it the pads' quadratic cost outweighs a call


class Bucket(NamedTuple):
    """Segments that share one attention call: `rows` of `length` tokens, padded on the right."""

    rows: int
    length: int


class Layout(NamedTuple):
    """How a packed context of T tokens splits into segments."""

    positions: Tensor  # (T,) position inside the segment, from 0
    buckets: list[Bucket]
    gather: Tensor  # (rows of all buckets,) token of each row; a pad points at the context's first one
    inverse: Tensor  # (T,) where each token stands in the concatenated buckets


def layout(lengths: Sequence[int]) -> Layout:
    """Split consecutive segments of the given lengths (tokens, all > 0) into attention calls."""
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0).tolist()
    groups: dict[tuple[int, int], list[int]] = {}
    for index, length in enumerate(lengths):
        padded = -(-length // GRAIN) * GRAIN
        key = (padded, 0) if length <= SHORT else (length, 1 + index)  # a long segment is a group of its own
        groups.setdefault(key, []).append(index)
    buckets, gather = [], []
    inverse = torch.empty(sum(lengths), dtype=torch.long)
    offset = 0
    for (padded, _), members in groups.items():
        indices = torch.zeros(len(members), padded, dtype=torch.long)
        for row, index in enumerate(members):
            start, length = starts[index], lengths[index]
            indices[row, :length] = torch.arange(start, start + length)
            inverse[start : start + length] = torch.arange(length) + offset + row * padded
        buckets.append(Bucket(len(members), padded))
        gather.append(indices.flatten())
        offset += len(members) * padded
    positions = torch.cat([torch.arange(length) for length in lengths])
    return Layout(positions, buckets, torch.cat(gather), inverse)


def attend(q: Tensor, k: Tensor, v: Tensor, segments: Layout) -> Tensor:
    """Causal grouped-query attention inside each segment (Eq. 10 before W_O).

    q is (T, heads, head size), k and v are (T, KV heads, head size); returns (T, heads, head size).
    """
    sizes = [bucket.rows * bucket.length for bucket in segments.buckets]
    parts = zip(*(_ToBuckets.apply(x, segments.gather, segments.inverse).split(sizes) for x in (q, k, v)), strict=True)
    outputs = []
    for (rows, length), part in zip(segments.buckets, parts, strict=True):
        q_, k_, v_ = (x.unflatten(0, (rows, length)).transpose(1, 2) for x in part)
        out = F.scaled_dot_product_attention(q_, k_, v_, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        outputs.append(out.transpose(1, 2).flatten(0, 1))
    return _FromBuckets.apply(torch.cat(outputs), segments.inverse)


class _ToBuckets(torch.autograd.Function):
    """Rows of tokens (T, ...) in the order of the buckets, and back: two reads, no sum, as pads get no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gather: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return x.index_select(0, gather)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad.index_select(0, ctx.inverse), None, None


class _FromBuckets(torch.autograd.Function):
    """Rows of the buckets in the order of the tokens, (T, ...); a pad's gradient is zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse, ctx.rows = inverse, len(x)
        return x.index_select(0, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad.new_zeros(ctx.rows, *grad.shape[1:]).index_copy_(0, ctx.inverse, grad), None


def rotary_tables(positions: Tensor, head_size: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of RoPE (arXiv 2104.09864), each (T, 1, head size), for the rotate-half form."""
    frequencies = base ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angles = torch.outer(positions.float(), frequencies)
    angles = torch.cat([angles, angles], dim=-1).unsqueeze(1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn queries or keys (T, heads, head size) by their position."""
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines
