"""Cut documents into pieces and pack the pieces into rows of one context each, best fit first.

A piece becomes a segment: BOS, then tokens of one document, as many as a segment may hold. Best-fit decreasing
puts the longest piece first, each into the row with the least room that still takes it.
"""

from collections.abc import Sequence

import numpy as np


def cut(tokens: int, segment: int) -> list[int]:
    """Tokens in each piece of a document of so many tokens: full pieces of `segment` - 1, as BOS takes one, then the
    rest."""
    longest = segment - 1
    return [min(longest, tokens - start) for start in range(0, tokens, longest)]


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Rows of indices into `lengths` that fit into `capacity`, by best-fit decreasing.

    Rows are kept by their room, and a bit set of the rooms that occur gives the least sufficient one with
    two shifts, whatever the number of rows. Equal lengths keep their order.
    """
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    for index in order:
        length = lengths[index]
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = by_room[room].pop()
            if not by_room[room]:
                rooms ^= 1 << room
            rows[row].append(index)
        else:
            room, row = capacity, len(rows)
            rows.append([index])
        room -= length
        if not by_room[room]:
            rooms ^= 1 << room
        by_room[room].append(row)
    return rows


def fill_rows(rows: Sequence[Sequence[int]], pieces: Sequence[np.ndarray], context: int, bos: int) -> np.ndarray:
    """Tokens of the rows: each piece after its BOS, padding (0) behind; one row of the result a row."""
    kind = pieces[0].dtype
    head, padding = np.array([bos], dtype=kind), np.zeros(context, dtype=kind)
    parts: list[np.ndarray] = []
    for row in rows:
        room = context
        for index in row:
            parts += (head, pieces[index])
            room -= len(pieces[index]) + 1
        parts.append(padding[:room])
    return np.concatenate(parts).reshape(len(rows), context)
