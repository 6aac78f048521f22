"""Choose and pack the held-out sample on which every endpoint of a study is evaluated.

Reads the held-out stream of documents.parquet and tokenizer.json. Of each source, documents are taken in
the order of their hash until it has the tokens that the study asks for, and not many more: where documents
are long beside that number, the long ones are passed over. Then each bucket of lengths that is still empty
is given its first document. Documents of more than one context only serve a source that has too little
without them. The length of a segment decides nothing: it only says where the chosen documents are cut.

A study that sweeps learning rates has a sample of its own, the tuning split: the evaluation sample of the same corpus
is chosen first and left out, so that no rate is chosen on the text that scores it.
"""

import dataclasses
import sys
from collections.abc import Sequence

from smelt.corpus.contexts.contexts import DocumentStream, Piece, contexts_table, pieces_of
from smelt.corpus.contexts.packing import best_fit
from smelt.corpus.contexts.tokenizer import encode, load_tokenizer
from smelt.corpus.settings import Packed
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.setting import setting

BUCKETS = (32, 64, 128, 256, 512, 1024, 2048, 4096)  # upper bounds, in tokens of the whole document


@dataclasses.dataclass(frozen=True)
class Settings(Packed):
    """The evaluation sample."""

    heldout_tokens: int = setting(
        "Held-out tokens of each source in the evaluation sample, at the least.", 1000, unit="tokens", minimum=1
    )
    split: str = "evaluation"  # or "tuning": documents that the evaluation of the same corpus leaves alone


OVERSHOOT = 0.25  # of the tokens asked for, that one document may bring in excess

DocumentPieces = list[Piece]  # the pieces of one document


def bucket(tokens: int) -> int:
    """Number of the bucket of a document of so many tokens; `len(BUCKETS)` beyond the last."""
    return sum(tokens > bound for bound in BUCKETS)


def sample(documents: Sequence[DocumentPieces], settings: Settings) -> list[DocumentPieces]:
    """The documents of the split, in the order of their hashes.

    The splits of equal settings have no document in common. Raises UserError where a source has too little text.
    """
    scoring = choose(documents, dataclasses.replace(settings, split="evaluation"))
    if settings.split == "evaluation":
        return scoring
    taken = {whole[0].id for whole in scoring}
    return choose([whole for whole in documents if whole[0].id not in taken], settings)


def choose(documents: Sequence[DocumentPieces], settings: Settings) -> list[DocumentPieces]:
    """Documents with enough tokens of each source and one of each length, in the order of their hashes."""
    ordered = sorted(documents, key=lambda whole: whole[0].id)
    sources: dict[str, list[DocumentPieces]] = {}
    for whole in ordered:
        sources.setdefault(whole[0].source, []).append(whole)
    chosen: dict[str, DocumentPieces] = {}
    for source in sorted(sources):
        for whole in _of_source(source, sources[source], settings):
            chosen[whole[0].id] = whole
    filled = {bucket(whole[0].document_tokens) for whole in chosen.values()}
    for whole in ordered:
        place = bucket(whole[0].document_tokens)
        if place < len(BUCKETS) and place not in filled:
            filled.add(place)
            chosen[whole[0].id] = whole
    return [chosen[identity] for identity in sorted(chosen)]


def _of_source(source: str, documents: Sequence[DocumentPieces], settings: Settings) -> list[DocumentPieces]:
    """Documents of a source, those within a context before longer ones, in order, until they have enough tokens.

    A document that would overshoot by more than `OVERSHOOT` is passed over, as evaluation's time goes with
    the tokens; if too little is left then, the shortest document that suffices closes the gap.
    """
    enough = settings.heldout_tokens
    available = sum(whole[0].document_tokens for whole in documents)
    if available < enough:
        raise UserError(
            f"source {source!r} has {available} held-out tokens{_left(settings)}, {enough - available} fewer than"
            f" corpus.heldout_tokens ({enough}); raise corpus.megabytes or corpus.heldout_share, or lower"
            " corpus.heldout_tokens"
        )
    taken: list[DocumentPieces] = []
    passed: list[DocumentPieces] = []
    tokens = 0
    for whole in documents:
        if tokens >= enough:
            return taken
        size = whole[0].document_tokens
        if size < settings.context and tokens + size <= (1 + OVERSHOOT) * enough:
            taken.append(whole)
            tokens += size
        else:
            passed.append(whole)
    passed.sort(key=lambda whole: whole[0].document_tokens)  # stable, so by hash among equals
    while tokens < enough:
        gap = enough - tokens
        place = next((i for i, whole in enumerate(passed) if whole[0].document_tokens >= gap), len(passed) - 1)
        taken.append(passed.pop(place))
        tokens += taken[-1][0].document_tokens
    return taken


def _left(settings: Settings) -> str:
    return "" if settings.split == "evaluation" else " beside the evaluation sample"


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.corpus.contexts.heldout", __doc__, argv, Settings, ["documents", "tokenizer"], ["out"])
    context = job.settings.context
    segment = job.settings.longest_segment
    stream = DocumentStream(job.path("documents"), "heldout")
    rows = stream.read(range(stream.length))
    tokens = encode(load_tokenizer(job.path("tokenizer")), [row["text"] for row in rows])
    documents = [list(pieces_of([row], [ids], segment)) for row, ids in zip(rows, tokens, strict=True)]
    pieces = [piece for document in sample(documents, job.settings) for piece in document]
    packed = [[pieces[index] for index in row] for row in best_fit([piece.length for piece in pieces], context)]
    job.write("out", contexts_table(packed, 0, context, heldout=True))
    total = sum(len(piece.tokens) for piece in pieces)
    print(f"held-out, {job.settings.split}: {total} tokens in {len(packed)} contexts", file=sys.stderr)


if __name__ == "__main__":
    command(main)
