"""Packed contexts as a table: the tokens of each row, and what its segments are."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smelt import shards
from smelt.artifacts import read_table
from smelt.corpus.contexts.packing import cut, fill_rows
from smelt.errors import UserError

BOS = 0  # token that begins each segment; padding is 0 too, behind the last segment's length


@dataclasses.dataclass(slots=True)  # not frozen: there are many, and freezing triples the cost of making one
class Piece:
    """A document, or one piece of a cut one. `position` is the document's place in its stream."""

    position: int
    number: int
    cut: bool
    id: str
    source: str
    category: str
    document_tokens: int
    tokens: np.ndarray = dataclasses.field(repr=False, compare=False)

    @property
    def length(self) -> int:
        """Tokens of the segment, BOS included."""
        return len(self.tokens) + 1

    @property
    def key(self) -> bytes:
        """A hash of the piece, which orders what must not be ordered by length or source."""
        return hashlib.sha256(f"{self.id}/{self.number}".encode()).digest()


def contexts_table(rows: Sequence[Sequence[Piece]], first: int, context: int, heldout: bool = False) -> pa.Table:
    """The rows as a table, numbered from `first`."""
    flat = [piece for row in rows for piece in row]
    starts = np.cumsum([0, *(len(row) for row in rows)])
    indices = [range(start, end) for start, end in itertools.pairwise(starts.tolist())]
    tokens = fill_rows(indices, [piece.tokens for piece in flat], context, BOS)
    columns: dict[str, list] = {
        shards.SEGMENTS: [len(piece.tokens) + 1 for piece in flat],
        shards.DOCUMENTS: [piece.id for piece in flat],
        shards.SOURCES: [piece.source for piece in flat],
        shards.CATEGORIES: [piece.category for piece in flat],
        shards.PIECES: [piece.number for piece in flat],
        shards.CUT: [piece.cut for piece in flat],
        shards.DOCUMENT_TOKENS: [piece.document_tokens for piece in flat],
    }
    form = shards.schema(context, tokens.dtype, heldout)
    offsets = pa.array(starts, pa.int32())
    arrays = [
        pa.array(range(first, first + len(rows)), pa.int32()),
        pa.FixedSizeListArray.from_arrays(pa.array(tokens.ravel()), context),
        *(
            pa.ListArray.from_arrays(offsets, pa.array(columns[name], form.field(name).type.value_type))
            for name in form.names[2:]
        ),
    ]
    return pa.Table.from_arrays(arrays, schema=form)


def pieces_of(rows: Sequence[dict], tokens: Sequence[np.ndarray], segment: int) -> Iterator[Piece]:
    """The pieces of documents (rows of documents.parquet with their tokens), in order.

    Each fits into a segment of `segment` tokens, BOS included.
    """
    for row, ids in zip(rows, tokens, strict=True):
        whole = len(ids)
        about = (row["id"], row["source"], row["category"], whole)
        if whole < segment:
            yield Piece(row["position"], 0, False, *about, ids)
            continue
        start = 0
        for number, length in enumerate(cut(whole, segment)):
            yield Piece(row["position"], number, True, *about, ids[start : start + length])
            start += length


class DocumentStream:
    """One stream of documents.parquet, of which only the row groups that are asked for are read.

    `start` is the share of the stream that is passed over at first and read at its end: documents are interleaved,
    so that a stretch has the mix of the whole wherever it begins. Positions count from the start.
    """

    COLUMNS = ("position", "id", "source", "category", "bytes", "text")

    def __init__(self, path: str | Path, name: str, start: float = 0.0) -> None:
        index = read_table(path, ["stream"])["stream"]
        self.length = pc.sum(pc.equal(index, name)).as_py() or 0
        if not self.length:
            raise UserError(f"{path}: the {name} stream holds no document")
        self._start = int(start * self.length)
        self._first = pc.index(index, name).as_py()  # rows are sorted by stream and position
        self._file = pq.ParquetFile(path)
        sizes = [self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])

    def read(self, positions: Sequence[int]) -> list[dict]:
        """Documents at these positions, in the order given."""
        wanted = (np.asarray(positions, dtype=np.int64) + self._start) % self.length + self._first
        groups = np.unique(np.searchsorted(self._starts, wanted, side="right") - 1)
        found: dict[int, dict] = {}
        for group in groups.tolist():
            table = self._file.read_row_group(group, columns=list(self.COLUMNS))
            inside = wanted[(wanted >= self._starts[group]) & (wanted < self._starts[group + 1])]
            rows = table.take(inside - self._starts[group]).to_pylist()
            found.update(zip(inside.tolist(), rows, strict=True))
        return [{**found[row], "position": place} for row, place in zip(wanted.tolist(), positions, strict=True)]
