"""Packages to the clean documents that a study reads, each in one of three streams.

Reads the table of sources and the packages that `fetch` put into the cache; writes documents.parquet,
sorted by stream and position, and cleaning.parquet, the count of everything that was dropped. No
document stands in two streams, no document of the held-out stream has a near-duplicate in the other two, or more of its
passages there than the study allows.
"""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from smelt.artifacts import field, table, write_table
from smelt.corpus.documents.clean import Document, Tally, read_source
from smelt.corpus.documents.neighbours import Index, signature
from smelt.corpus.documents.overlap import overlaps
from smelt.corpus.documents.select import STREAMS, allot, interleave, source_weights, stream, stream_shares
from smelt.corpus.documents.settings import Settings
from smelt.corpus.sources.registry import Source, read_sources
from smelt.errors import UserError, command
from smelt.job import read_job


@dataclasses.dataclass(frozen=True)
class Options:
    """Where the packages are, and how many processes read them; neither decides a byte."""

    packages: Path
    processes: int = 1


DOCUMENTS = pa.schema(
    [
        field("id", pa.string(), "sha256 of the text in UTF-8"),
        field("source", pa.string(), "source of the table of sources"),
        field("category", pa.string(), "category of the source"),
        field("stream", pa.string(), "stable, decay or heldout"),
        field("position", pa.int32(), "order within the stream, from 0"),
        field("bytes", pa.int32(), "length of the text in bytes of UTF-8"),
        field("text", pa.string(), "the document"),
    ]
)
CLEANING = pa.schema(
    [
        field("source", pa.string(), "source of the table of sources"),
        field("reason", pa.string(), "why documents were dropped (or counted)"),
        field("documents", pa.int64(), "number of documents"),
        field("bytes", pa.int64(), "their length in bytes of UTF-8"),
    ]
)
SOURCE_DOCUMENTS = 8  # at the least in a source's share of the text: a longer document would distort a small study
HELDOUT_DOCUMENTS = 8  # of each source at the least, where it has so many
ROW_GROUP = 128  # documents: what reading a small window costs at least


def read_all(sources: Sequence[Source], packages: Path, processes: int) -> tuple[list[Document], Tally]:
    """The clean documents of all sources, in the table's order; a text that two sources hold stays in the first."""
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            results = list(pool.map(read_source, sources, [packages / source.file for source in sources]))
    else:
        results = [read_source(source, packages / source.file) for source in sources]
    tally = Tally()
    documents: dict[str, Document] = {}
    for found, dropped in results:
        tally.update(dropped)
        for document in found:
            if document.id in documents:
                tally.add(document.source, "duplicate", len(document.text))
            else:
                documents[document.id] = document
    return list(documents.values()), tally


def choose(
    documents: Iterable[Document], sources: Sequence[Source], settings: Settings, tally: Tally
) -> dict[str, list[Document]]:
    """The documents of each stream: in the order of their hash, until each source's share is full."""
    pools = _pools(documents, sources, settings, tally)
    shares = stream_shares(settings.heldout_share, settings.decay_share)
    budgets = {name: _budgets(pools[name], sources, settings, shares[name]) for name in STREAMS}
    index = Index()
    chosen: dict[str, list[Document]] = {name: [] for name in STREAMS}
    # Stable first, held-out last: the index that held-out documents meet holds all of the training text.
    for name in ("stable", "decay"):
        for source, candidates in pools[name].items():
            chosen[name] += _take(candidates, budgets[name][source], tally)
        signatures = [(document, signature(document.text)) for document in chosen[name]]
        for document, minhash in signatures:
            if name == "decay" and index.has_twin(minhash):
                tally.add(document.source, "decay_near_duplicate", len(document.text))
        for document, minhash in signatures:
            index.add(document.id, minhash)
    contained = _contained(pools["heldout"], chosen, settings.heldout_overlap)
    for source, candidates in pools["heldout"].items():
        chosen["heldout"] += _take_heldout(candidates, budgets["heldout"][source], tally, index, contained)
    return chosen


def _contained(candidates: dict[str, list[Document]], chosen: dict[str, list[Document]], most: float) -> frozenset[str]:
    """Ids of the held-out candidates of which a larger share than `most` stands in the training text."""
    if most >= 1:
        return frozenset()
    documents = [document for pool in candidates.values() for document in pool]
    training = (document.text for name in ("stable", "decay") for document in chosen[name])
    found = overlaps([document.text for document in documents], training)
    return frozenset(document.id for document, overlap in zip(documents, found, strict=True) if overlap.share > most)


def _pools(
    documents: Iterable[Document], sources: Sequence[Source], settings: Settings, tally: Tally
) -> dict[str, dict[str, list[Document]]]:
    """Candidates by stream and source, in the order of their hash, without those too long for a small study."""
    weights = source_weights({source.source: source.category for source in sources}, settings.weights)
    pools: dict[str, dict[str, list[Document]]] = {name: {source: [] for source in weights} for name in STREAMS}
    for document in sorted(documents):
        share = settings.megabytes * 1e6 * weights[document.source]
        if share and len(document.text) > share / SOURCE_DOCUMENTS:
            tally.add(document.source, "overlong", len(document.text))
        else:
            side = stream(document.id, settings.heldout_share, settings.decay_share)
            pools[side][document.source].append(document)
    return pools


def _budgets(
    pools: dict[str, list[Document]], sources: Sequence[Source], settings: Settings, share: float
) -> dict[str, float]:
    """Bytes of each source in a stream that has this share of the text."""
    available = {source: sum(len(document.text) for document in pool) for source, pool in pools.items()}
    if not settings.megabytes:
        return {source: float(size) for source, size in available.items()}
    weights = source_weights({source.source: source.category for source in sources}, settings.weights)
    return allot(settings.megabytes * 1e6 * share, weights, available)


def _take(candidates: Sequence[Document], budget: float, tally: Tally) -> list[Document]:
    """Documents in order until their bytes reach the budget."""
    taken: list[Document] = []
    size = 0
    for document in candidates:
        if size < budget:
            taken.append(document)
            size += len(document.text)
        else:
            tally.add(document.source, "not_needed", len(document.text))
    return taken


def _take_heldout(
    candidates: Sequence[Document], budget: float, tally: Tally, train: Index, contained: frozenset[str]
) -> list[Document]:
    """Like `_take`, without the near-duplicates of training documents and those that are `contained` in them.

    A document fills no more than a part of the budget: some long ones are no sample of a source, and what
    is held out beyond the budget costs nothing.
    """
    taken: list[Document] = []
    size = 0.0
    for document in candidates:
        if size >= budget:
            tally.add(document.source, "not_needed", len(document.text))
        elif train.has_twin(signature(document.text)):
            tally.add(document.source, "near_duplicate", len(document.text))
        elif document.id in contained:
            tally.add(document.source, "overlap", len(document.text))
        else:
            taken.append(document)
            size += min(len(document.text), budget / HELDOUT_DOCUMENTS)
    return taken


def check_streams(chosen: dict[str, list[Document]], sources: Sequence[Source]) -> None:
    """Raise UserError for a source that has no document left in one of the streams that need it."""
    for name in ("heldout", "stable"):
        filled = {document.source for document in chosen[name]}
        empty = [source.source for source in sources if source.source not in filled]
        if empty:
            raise UserError(
                f"source {empty[0]!r} has no document in the {name} stream: it is too small, repeats itself, or its"
                " documents are too long for this study; leave it out with corpus.select, or raise corpus.megabytes"
                " (or corpus.heldout_share, corpus.heldout_overlap)"
            )


def documents_table(chosen: dict[str, list[Document]], sources: Sequence[Source]) -> pa.Table:
    """All streams as rows of documents.parquet, sorted by stream and position."""
    categories = {source.source: source.category for source in sources}
    rows = [
        (name, position, document) for name in STREAMS for position, document in enumerate(interleave(chosen[name]))
    ]
    columns = [
        [document.id for *_, document in rows],
        [document.source for *_, document in rows],
        [categories[document.source] for *_, document in rows],
        [name for name, *_ in rows],
        [position for _, position, _ in rows],
        [len(document.text) for *_, document in rows],
        pa.array([document.text for *_, document in rows], pa.binary()).cast(pa.string()),
    ]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, kind.type)
        for column, kind in zip(columns, DOCUMENTS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=DOCUMENTS)


def cleaning_table(tally: Tally) -> pa.Table:
    rows = [
        {"source": source, "reason": reason, "documents": count, "bytes": tally.bytes[source, reason]}
        for (source, reason), count in sorted(tally.documents.items())
    ]
    return table(rows, CLEANING)


def main(argv: Sequence[str]) -> None:
    reads, writes = ["sources", "receipt"], ["documents", "cleaning"]
    job = read_job("smelt.corpus.documents.documents", __doc__, argv, Settings, reads, writes, Options)
    sources = read_sources(job.path("sources"), job.settings.select)
    documents, tally = read_all(sources, job.options.packages, job.options.processes)
    chosen = choose(documents, sources, job.settings, tally)
    check_streams(chosen, sources)
    write_table(documents_table(chosen, sources), job.path("documents"), job.origin, ROW_GROUP)
    job.write("cleaning", cleaning_table(tally))
    for name in STREAMS:
        size = sum(len(document.text) for document in chosen[name])
        print(f"{name}: {len(chosen[name])} documents, {size / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    command(main)
