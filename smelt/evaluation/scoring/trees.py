"""Trees, the unit of forward work: one context and the continuations that are scored after it.

A tree is fed as its context and, of each continuation, all tokens but the last, as a branch; the last has no successor
to predict, so that a continuation of one token adds nothing. Trees of any lengths are packed into rows of so many
tokens, best fit first. Needs no torch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Tree(NamedTuple):
    """Tokens of a context (at least one) and of its continuations (each at least one)."""

    context: Sequence[int] | NDArray[np.int32]
    continuations: Sequence[Sequence[int] | NDArray[np.int32]]


def branches(tree: Tree) -> list[int]:
    """Lengths of the branches that the tree is fed with."""
    return [len(tokens) - 1 for tokens in tree.continuations if len(tokens) > 1]


def fed(tree: Tree) -> int:
    """Tokens that go through the network."""
    return len(tree.context) + sum(branches(tree))


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Rows of indices into `lengths` that hold at most `capacity` tokens, by best-fit decreasing.

    What is longer than a row gets one of its own: a tree's longest path fits into the model's context, but all of its
    branches together need not. Equal lengths keep their order.
    """
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r: some row has room for r tokens; the least sufficient room is then two shifts away
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        length = lengths[index]
        fitting = rooms >> length
        if not fitting:
            rows.append([index])
            room, row = max(capacity - length, 0), len(rows) - 1
        else:
            found = length + (fitting & -fitting).bit_length() - 1
            row = by_room[found].pop()
            if not by_room[found]:
                rooms ^= 1 << found
            rows[row].append(index)
            room = found - length
        if not by_room[room]:
            rooms |= 1 << room
        by_room[room].append(row)
    return rows


def fill(rows: Sequence[Sequence[int]], lengths: Sequence[int], capacity: int) -> float:
    """Share of the rows' places that hold a token; a longer row counts with its own length."""
    held = [sum(lengths[index] for index in row) for row in rows]
    return sum(held) / sum(max(capacity, total) for total in held) if held else 1.0
