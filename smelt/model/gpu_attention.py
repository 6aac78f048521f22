"""Attention inside segments on a GPU, by one of three kernels.

*varlen*: flash attention over the segments' offsets; bfloat16 on a GPU, no branches. *flex*: FlexAttention with a
block mask, for branches and for float32. *plain*: a mask over all T x T pairs, on any device, for comparison alone.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from smelt.model.attention import allowed

HEAD_MULTIPLE, HEAD_LEAST = 8, 16  # of the head sizes that both kernels take; smaller heads are padded with zeros


class Packed(NamedTuple):
    """The segments of T tokens, on a device, for one of the kernels; what the others need is None."""

    positions: Tensor  # (T,) position inside the segment; a branch goes on where its context ends
    offsets: Tensor | None  # varlen: (segments + 1,) int32, where each segment starts, and T
    longest: int  # varlen: at least the longest segment, a power of two, as each value compiles a block again
    blocks: BlockMask | None  # flex
    mask: Tensor | None  # plain: (T, T) bool


def packed(
    lengths: Sequence[int],
    branches: Sequence[Sequence[int]] | None = None,
    device: str | torch.device = "cuda",
    kernel: str = "",
    precision: torch.dtype = torch.bfloat16,
) -> Packed:
    """Describe consecutive segments, as `smelt.model.attention.layout` does; without `kernel` the fastest that can."""
    device = torch.device(device)
    kernel = kernel or choose(device, branches is not None, precision)
    segment, branch, positions = _ids(lengths, branches)
    positions = to_device(positions, device)
    if kernel == "varlen":
        offsets = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        return Packed(positions, to_device(offsets, device), 1 << (max(lengths) - 1).bit_length(), None, None)
    if kernel == "flex":
        return Packed(positions, None, 0, block_mask(segment.to(device), branch.to(device)), None)
    return Packed(positions, None, 0, None, allowed(lengths, branches).to(device))


def choose(device: torch.device, branched: bool, precision: torch.dtype) -> str:
    """The kernel for segments, with branches or without."""
    if device.type != "cuda":
        return "plain"
    return "varlen" if precision in (torch.bfloat16, torch.float16) and not branched else "flex"


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy from the host without waiting for it, where there is a GPU."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def _ids(lengths: Sequence[int], branches: Sequence[Sequence[int]] | None) -> tuple[Tensor, Tensor, Tensor]:
    """(T,) each: the segment of each token, its branch (0 for the context) and its position."""
    branch, positions = [], []
    for length, parts in zip(lengths, branches or [()] * len(lengths), strict=True):
        context = length - sum(parts)
        branch += [0] * context + [number for number, part in enumerate(parts, start=1) for _ in range(part)]
        positions += [*range(context), *(context + place for part in parts for place in range(part))]
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return segment, torch.tensor(branch), torch.tensor(positions)


def block_mask(segment: Tensor, branch: Tensor) -> BlockMask:
    """The rule of `smelt.model.attention.allowed` from the ids (T,) of each token, by blocks of 128 x 128."""

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        own = (branch[key] == 0) | (branch[key] == branch[query])
        return (segment[query] == segment[key]) & (key <= query) & own

    return create_block_mask(sees, None, None, len(segment), len(segment), device=segment.device)


def attend(q: Tensor, k: Tensor, v: Tensor, segments: Packed) -> Tensor:
    """`smelt.model.attention.attend`: q (T, heads, head size), k and v (T, KV heads, head size); as q."""
    size, scale = q.shape[-1], q.shape[-1] ** -0.5
    if segments.mask is not None:
        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, segments.mask, scale=scale, enable_gqa=True)
        return out.squeeze(0).transpose(0, 1)
    missing = max(HEAD_LEAST, -(-size // HEAD_MULTIPLE) * HEAD_MULTIPLE) - size
    if missing:
        q, k, v = (F.pad(x, (0, missing)) for x in (q, k, v))
    if segments.blocks is not None:
        parts = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        run = cast(Callable[..., Any], flex_attention) if torch.compiler.is_compiling() else _compiled_flex()
        out = run(*parts, block_mask=segments.blocks, scale=scale, enable_gqa=True).squeeze(0).transpose(0, 1)
    else:
        out = _varlen(q, k, v, segments, scale)
    return out[..., :size]


def _varlen(q: Tensor, k: Tensor, v: Tensor, segments: Packed, scale: float) -> Tensor:
    options: dict[str, Any] = {"enable_gqa": True}
    if not _takes_groups():
        groups = q.shape[1] // k.shape[1]
        k, v = (x.unsqueeze(2).expand(-1, -1, groups, -1).flatten(1, 2) for x in (k, v))
        options = {}
    q, k, v = (x.contiguous() for x in (q, k, v))
    at, longest = segments.offsets, segments.longest
    assert at is not None
    return cast(Tensor, varlen_attn(q, k, v, at, at, longest, longest, scale=scale, window_size=(-1, 0), **options))


@functools.cache
def _takes_groups() -> bool:
    """Whether the installed torch has grouped queries here; 2.11 has not."""
    return "enable_gqa" in inspect.signature(varlen_attn).parameters


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    """Uncompiled, FlexAttention builds all T x T scores."""
    return torch.compile(flex_attention)
