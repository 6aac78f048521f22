"""Causal attention inside segments, and where each token of a packed context stands.

A context packs several documents; a token sees its own segment only, and positions restart with it.
On the CPU a mask over the whole context costs up to sixteen times the work, so segments are attended
on their own. Short ones of similar length share one call: padded on the right, a causal mask alone keeps
a pad from every real query, so that the values of a segment depend on nothing but the segment.

A segment may end in branches: continuations of one context, each of which sees the context and itself but no sister.
Its context is attended as a segment is, and the tokens of its branches meet the keys of both in a call with a mask.
"""

from collections.abc import Sequence
from itertools import accumulate
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


class Forks(NamedTuple):
    """Segments whose branches share one attention call: the queries are the branches', the keys the whole segment's."""

    queries: Tensor  # (rows, longest branches) token of each query; a pad points at the first of the segment
    keys: Tensor  # (rows, longest segment) token of each key, padded alike
    bias: Tensor  # (rows, 1, longest branches, longest segment) float32: 0 where the query sees the key, else -inf


class Layout(NamedTuple):
    """How a packed context of T tokens splits into segments."""

    positions: Tensor  # (T,) position inside the segment, from 0; a branch goes on where its context ends
    buckets: list[Bucket]
    gather: Tensor  # (rows of all buckets,) token of each row; a pad points at the context's first one
    inverse: Tensor  # (T,) where each token stands in the concatenated buckets, forks behind them
    forks: Sequence[Forks] = ()


def layout(lengths: Sequence[int], branches: Sequence[Sequence[int]] | None = None) -> Layout:
    """Split consecutive segments of the given lengths (tokens, all > 0) into attention calls.

    `branches` gives for each segment the lengths (tokens, all > 0) of the branches at its tail, its context of at least
    one token being what stands before them. One branch alone is no more than the segment's end.
    """
    tails = [list(parts) if len(parts) > 1 else [] for parts in branches or [()] * len(lengths)]
    contexts = [length - sum(parts) for length, parts in zip(lengths, tails, strict=True)]
    starts = [0, *accumulate(lengths)][:-1]
    buckets, gather, inverse = _causal(starts, contexts, sum(lengths))
    forks = _forks(starts, contexts, tails, inverse, len(gather))
    positions = [torch.arange(size) for size in contexts]
    if forks:
        pairs = zip(positions, contexts, tails, strict=True)
        positions = [torch.cat([own, *(size + torch.arange(part) for part in parts)]) for own, size, parts in pairs]
    return Layout(torch.cat(positions), buckets, gather, inverse, forks)


def _causal(starts: Sequence[int], lengths: Sequence[int], total: int) -> tuple[list[Bucket], Tensor, Tensor]:
    """The buckets of segments, `gather` and `inverse`, which of `total` tokens leaves open those of no segment."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, length in enumerate(lengths):
        padded = -(-length // GRAIN) * GRAIN
        key = (padded, 0) if length <= SHORT else (length, 1 + index)  # a long segment is a group of its own
        groups.setdefault(key, []).append(index)
    buckets, gather = [], []
    inverse = torch.empty(total, dtype=torch.long)
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
    return buckets, torch.cat(gather), inverse


def _forks(
    starts: Sequence[int], contexts: Sequence[int], tails: Sequence[Sequence[int]], inverse: Tensor, offset: int
) -> list[Forks]:
    """The calls of all branches; writes into `inverse` where their tokens stand, from `offset` on."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, parts in enumerate(tails):
        if parts:
            queries, keys = (-(-size // GRAIN) * GRAIN for size in (sum(parts), contexts[index] + sum(parts)))
            groups.setdefault((queries, keys), []).append(index)
    forks = []
    for (queries, keys), members in groups.items():
        bias = torch.full((len(members), 1, queries, keys), -torch.inf)
        first = torch.tensor([starts[index] for index in members]).unsqueeze(1)
        asked, read = first.repeat(1, queries), first.repeat(1, keys)
        for row, index in enumerate(members):
            start, context, size = starts[index], contexts[index], sum(tails[index])
            asked[row, :size] = start + context + torch.arange(size)
            read[row, : context + size] = start + torch.arange(context + size)
            inverse[start + context : start + context + size] = torch.arange(size) + offset + row * queries
            bias[row, 0, :, :context] = 0
            end = 0
            for part in tails[index]:
                own = slice(context + end, context + end + part)
                bias[row, 0, end : end + part, own] = torch.full((part, part), -torch.inf).triu(1)
                end += part
        forks.append(Forks(asked, read, bias))
        offset += len(members) * queries
    return forks


def allowed(lengths: Sequence[int], branches: Sequence[Sequence[int]] | None = None) -> Tensor:
    """What `layout` stands for, as a mask (T, T): which key (column) each query (row) sees.

    The rule of a block mask: same segment, not behind the query, and of the context (branch 0) or the query's branch.
    """
    ids = [
        [0] * (length - sum(parts)) + [1 + number for number, part in enumerate(parts) for _ in range(part)]
        for length, parts in zip(lengths, branches or [()] * len(lengths), strict=True)
    ]
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    branch = torch.tensor([number for part in ids for number in part])
    order = torch.arange(len(segment))
    own = (branch[None] == 0) | (branch[None] == branch[:, None])
    return (segment[None] == segment[:, None]) & (order[None] <= order[:, None]) & own


def attend(q: Tensor, k: Tensor, v: Tensor, segments: Layout) -> Tensor:
    """Grouped-query attention inside each segment, causal, and apart in each branch (Eq. 10 before W_O).

    q is (T, heads, head size), k and v are (T, KV heads, head size); returns (T, heads, head size).
    """
    grouped = q.shape[1] != k.shape[1]
    sizes = [bucket.rows * bucket.length for bucket in segments.buckets]
    if segments.forks:  # a token is then read more than once
        rows = [x.index_select(0, segments.gather) for x in (q, k, v)]
    else:
        rows = [_ToBuckets.apply(x, segments.gather, segments.inverse) for x in (q, k, v)]
    parts = zip(*(x.split(sizes) for x in rows), strict=True)
    outputs = []
    for (count, length), part in zip(segments.buckets, parts, strict=True):
        q_, k_, v_ = (x.unflatten(0, (count, length)).transpose(1, 2) for x in part)
        out = F.scaled_dot_product_attention(q_, k_, v_, is_causal=True, enable_gqa=grouped)
        outputs.append(out.transpose(1, 2).flatten(0, 1))
    for fork in segments.forks:
        read = ((q, fork.queries), (k, fork.keys), (v, fork.keys))
        q_, k_, v_ = (x.index_select(0, at.flatten()).unflatten(0, at.shape).transpose(1, 2) for x, at in read)
        out = F.scaled_dot_product_attention(q_, k_, v_, fork.bias, enable_gqa=grouped)
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
