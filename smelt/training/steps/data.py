"""Which contexts a step reads: a pure function of the step and the seed.

A stream is a list of shards with the same number of contexts each. Both architectures of a cell and all
branches read the same contexts in the same order. A seed above 0 reads shards of other text, and permutes the contexts
inside each shard.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smelt.artifacts import read_table
from smelt.errors import UserError
from smelt.shards import SEGMENTS, TOKENS


class Batch(NamedTuple):
    """Packed contexts, flat and without padding."""

    tokens: Tensor  # (T,) int64
    lengths: list[int]  # of the segments, BOS included; they add up to T


class ContextStream:
    """The packed contexts of a stream's shards, in the order in which a seed reads them.

    Only the shards of the last batch stay in memory: a long run reads more text than a machine has memory for.
    """

    def __init__(self, shards: Sequence[str | Path], seed: int) -> None:
        self.shards = list(shards)
        self.seed = seed
        self._loaded: dict[int, list[tuple[np.ndarray, list[int]]]] = {}

    def batch(self, step: int, size: int) -> Batch:
        """The `size` contexts of step `step` (from 0). Raises UserError where the shards have too few contexts."""
        each = self.each
        needed = range(step * size, (step + 1) * size)
        numbers = range(needed[0] // each, needed[-1] // each + 1)
        self._loaded = {number: self._loaded.get(number) or self._shard(number) for number in numbers}
        chosen = [self._loaded[position // each][position % each] for position in needed]
        tokens = torch.cat([torch.from_numpy(row[: sum(lengths)].astype(np.int64)) for row, lengths in chosen])
        return Batch(tokens, [length for _, lengths in chosen for length in lengths])

    @functools.cached_property
    def each(self) -> int:
        """Contexts of a shard, the same number for all; `batch` raises UserError on a shard of another number."""
        return len(read_table(self.shards[0], []))

    def _shard(self, number: int) -> list[tuple[np.ndarray, list[int]]]:
        if number >= len(self.shards):
            raise UserError(
                f"the stream of {self.shards[0]} ends after {len(self.shards) * self.each} contexts; build more shards"
            )
        table = read_table(self.shards[number], [TOKENS, SEGMENTS])
        if len(table) != self.each:
            raise UserError(
                f"{self.shards[number]}: {len(table)} contexts, and the first shard of its stream has {self.each}; "
                "delete it and run again"
            )
        flat = table[TOKENS].combine_chunks()
        tokens = flat.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
        rows = list(zip(tokens, table[SEGMENTS].to_pylist(), strict=True))
        if self.seed:
            order = np.random.default_rng([self.seed, number]).permutation(len(rows))
            rows = [rows[i] for i in order]
        return rows
