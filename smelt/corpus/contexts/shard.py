"""Pack one numbered shard of a training stream.

Reads documents.parquet, tokenizer.json and, from the second shard on, the shard before, whose metadata
says where its documents ended and which pieces it left over. So a shard depends on nothing that lies
behind it: a longer study adds shards and changes none. A window of documents somewhat larger than the
shard is packed, the fullest rows become the shard, and the others are carried over. Each seed has streams of
its own (smelt.corpus.contexts.streams).
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smelt.artifacts import read_provenance, write_table
from smelt.corpus.contexts.contexts import DocumentStream, Piece, contexts_table, pieces_of
from smelt.corpus.contexts.packing import best_fit
from smelt.corpus.contexts.streams import stream_kind, stream_start
from smelt.corpus.contexts.tokenizer import encode, load_tokenizer
from smelt.corpus.settings import Packed
from smelt.errors import UserError, command
from smelt.job import Job, read_job
from smelt.setting import setting

SLACK = 8  # the window holds an eighth more than the shard, from which the fullest rows are taken
BATCH = 64  # documents read and encoded at a time


@dataclasses.dataclass(frozen=True)
class Settings(Packed):
    """The contexts of a stream and the shards that hold them."""

    shard_contexts: int = setting(
        "Contexts in each numbered shard of a stream; a run reads whole shards.", 32, unit="contexts", minimum=1
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """Which shard of which stream is packed."""

    stream: str = dataclasses.field(metadata={"help": "stable or decay; of a seed above 0 as stable-seed1"})
    shard: int = dataclasses.field(metadata={"help": "its number, from 0"})
    needed: int = dataclasses.field(default=0, metadata={"help": "contexts that the study needs, for the message"})


@dataclasses.dataclass(frozen=True)
class Window:
    """The pieces to pack: those carried over, then those of the next documents."""

    pieces: list[Piece]
    next: int  # position of the first document behind the window
    bytes_per_token: float


def read_window(stream: DocumentStream, encoder: "Encoder", state: dict, enough: int) -> Window:
    """Pieces of at least `enough` tokens (BOS included), or of all that the stream still has."""
    carried = {(position, number) for position, number in state["carry"]}
    positions = sorted({position for position, _ in carried})
    pieces = [piece for piece in encoder.pieces(stream, positions) if (piece.position, piece.number) in carried]
    tokens = sum(piece.length for piece in pieces)
    position = state["next"]
    while tokens < enough and position < stream.length:
        batch = range(position, min(position + BATCH, stream.length))
        for piece in encoder.pieces(stream, batch):
            # A document enters with all its pieces; the first one beyond the window's end closes it.
            if tokens >= enough and piece.number == 0:
                break
            pieces.append(piece)
            tokens += piece.length
            position = piece.position + 1
    return Window(pieces, position, encoder.bytes_per_token)


class Encoder:
    """The tokenizer with a running count of what it has read."""

    def __init__(self, path: Path, segment: int) -> None:
        self._tokenizer = load_tokenizer(path)
        self._segment = segment
        self._bytes = self._tokens = 0

    def pieces(self, stream: DocumentStream, positions: Sequence[int]) -> list[Piece]:
        if not positions:
            return []
        rows = stream.read(positions)
        tokens = encode(self._tokenizer, [row["text"] for row in rows])
        self._bytes += sum(row["bytes"] for row in rows)
        self._tokens += sum(len(ids) for ids in tokens)
        return list(pieces_of(rows, tokens, self._segment))

    @property
    def bytes_per_token(self) -> float:
        return self._bytes / max(1, self._tokens)


def choose_rows(pieces: Sequence[Piece], settings: Settings) -> tuple[list[list[Piece]], list[Piece]]:
    """The shard's rows and the pieces left over.

    Rows, and the segments in a row, stand in the order of a hash, so that neither length nor source
    orders the stream.
    """
    packed = best_fit([piece.length for piece in pieces], settings.context)
    rows = [sorted((pieces[index] for index in row), key=lambda piece: piece.key) for row in packed]
    rows.sort(key=lambda row: (-sum(piece.length for piece in row), row[0].key))
    shard = sorted(rows[: settings.shard_contexts], key=lambda row: row[0].key)
    carry = [piece for row in rows[settings.shard_contexts :] for piece in row]
    return shard, sorted(carry, key=lambda piece: (piece.position, piece.number))


def too_short(name: str, filled: int, needed: int, context: int, bytes_per_token: float) -> UserError:
    missing = (needed - filled) * context
    return UserError(
        f"the {name} stream is too short: its text fills {filled} contexts of {context} tokens and the study needs"
        f" {needed}, so {missing} tokens, about {missing * bytes_per_token / 1e6:.2f} MB of its text, are missing;"
        " raise corpus.megabytes, add sources, or train fewer steps"
    )


def main(argv: Sequence[str]) -> None:
    reads = ["documents", "tokenizer", "previous?"]
    job = read_job("smelt.corpus.contexts.shard", __doc__, argv, Settings, reads, ["out"], Options)
    settings, options = job.settings, job.options
    stream = DocumentStream(job.path("documents"), stream_kind(options.stream), stream_start(options.stream))
    size = settings.shard_contexts * settings.context
    encoder = Encoder(job.path("tokenizer"), settings.longest_segment)
    window = read_window(stream, encoder, _state(job), size + max(settings.context, size // SLACK))
    total = sum(piece.length for piece in window.pieces)
    first = options.shard * settings.shard_contexts
    if total < size:
        needed = max(options.needed, first + settings.shard_contexts)
        filled = first + total // settings.context
        raise too_short(options.stream, filled, needed, settings.context, window.bytes_per_token)
    rows, carry = choose_rows(window.pieces, settings)
    fill = sum(piece.length for row in rows for piece in row) / size
    spec = {**job.spec, "stream": options.stream, "shard": options.shard}
    carried = [[piece.position, piece.number] for piece in carry]
    origin = {**job.origin, "spec": spec, "state": {"next": window.next, "carry": carried, "fill": fill}}
    write_table(contexts_table(rows, first, settings.context), job.path("out"), origin)
    print(f"{options.stream} shard {options.shard}: {len(rows)} contexts, fill {fill:.2%}", file=sys.stderr)


def _state(job: Job[Settings]) -> dict[str, Any]:
    """Where the shard before ended: position of its next document, and the pieces that it left over."""
    if not job.options.shard:
        return {"next": 0, "carry": []}
    if len(job.paths("previous")) != 1:
        raise UserError(f"shard {job.options.shard} needs --previous, the shard before it")
    state: dict[str, Any] = read_provenance(job.path("previous"))["state"]
    return state


if __name__ == "__main__":
    command(main)
