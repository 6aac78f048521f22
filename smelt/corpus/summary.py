"""What the corpus came to: one row a source, one row a stream.

Reads the table of sources, documents.parquet, cleaning.parquet, tokenizer.json, the shards that the study
reads and the held-out sample, whose passages it looks up in the training text; writes summary.parquet and
streams.parquet, and both as tables for people. Warns where the mean number of keys that a query sees is not
the number that the study charges for it.
"""

import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import shards, tables
from smelt.artifacts import field, read_table, write_table
from smelt.corpus.contexts.contexts import DocumentStream
from smelt.corpus.contexts.tokenizer import encode, load_tokenizer
from smelt.corpus.documents.clean import REASONS
from smelt.corpus.documents.overlap import SHINGLE, Overlap, overlaps
from smelt.corpus.settings import Selected
from smelt.corpus.sources.registry import Source, read_sources
from smelt.errors import command
from smelt.job import read_job


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Selected):
    """The sources that were read, and what the study charges a query."""

    attention_keys: float


BATCH = 1024  # documents read at a time
MEASURED = 100_000  # bytes of each source on which bytes per token are measured
TOLERANCE = 0.05  # on the keys charged
SOURCES = pa.schema(
    [
        field("source", pa.string(), "source of the table of sources"),
        field("category", pa.string(), "category of the source"),
        field("licence", pa.string(), "licence of the text"),
        field("documents", pa.int64(), "documents in the three streams"),
        field("bytes", pa.int64(), "their length in bytes of UTF-8"),
        field("mean_bytes", pa.float64(), "mean length of a document in bytes"),
        field("bytes_per_token", pa.float64(), f"measured on the first {MEASURED} bytes of the source's documents"),
        field("mean_tokens", pa.float64(), "mean length of a document in tokens: mean_bytes / bytes_per_token"),
        field("stable_tokens", pa.int64(), "tokens in the study's shards of the stable stream, without BOS"),
        field("decay_tokens", pa.int64(), "tokens in the study's shards of the decay stream, without BOS"),
        field("heldout_tokens", pa.int64(), "tokens in the held-out sample, without BOS"),
        field("heldout_shingles", pa.int64(), f"runs of {SHINGLE} words in the documents of the held-out sample"),
        field("heldout_overlap", pa.float64(), "share of them that stand in the training text; none without a word"),
        *(field(reason, pa.int64(), f"documents: {meaning}") for reason, meaning in REASONS.items()),
    ]
)
STREAMS = pa.schema(
    [
        field("stream", pa.string(), "stable, decay or heldout"),
        field("contexts", pa.int64(), "packed contexts that the study reads"),
        field("tokens", pa.int64(), "tokens of the segments, BOS included"),
        field("fill", pa.float64(), "share of the contexts' places that hold a token"),
        field("segments", pa.int64(), "documents, and pieces of cut ones"),
        field("cut_segments", pa.int64(), "pieces of cut documents among them"),
        field("keys_causal", pa.float64(), "keys that a query sees under the causal segment mask, mean over tokens"),
        field("keys_segment", pa.float64(), "length of a token's segment, mean over tokens"),
        field("keys_charged", pa.float64(), "grid.attention_keys of the study"),
    ]
)


def mean_keys(lengths: np.ndarray) -> tuple[float, float]:
    """Keys a query: causal, where token i of a segment sees i keys, and the full length of its segment."""
    lengths = lengths.astype(np.float64)
    total = max(1.0, float(lengths.sum()))
    return float((lengths * (lengths + 1) / 2).sum() / total), float((lengths**2).sum() / total)


def stream_row(name: str, contexts: Sequence[pa.Table], charged: float) -> dict:
    """Facts of one stream."""
    rows = sum(part.num_rows for part in contexts)
    width = contexts[0][shards.TOKENS].type.list_size
    lengths = np.concatenate([_lengths(part) for part in contexts])
    causal, full = mean_keys(lengths)
    return {
        "stream": name,
        "contexts": rows,
        "tokens": int(lengths.sum()),
        "fill": float(lengths.sum() / (rows * width)),
        "segments": len(lengths),
        "cut_segments": sum(sum(part[shards.CUT].combine_chunks().flatten().to_pylist()) for part in contexts),
        "keys_causal": causal,
        "keys_segment": full,
        "keys_charged": charged,
    }


def tokens_by_source(contexts: Sequence[pa.Table]) -> pd.Series:
    """Tokens of each source in packed contexts, without BOS, by the name of the source."""
    sources = [part[shards.SOURCES].combine_chunks().flatten().to_pylist() for part in contexts]
    segments = pd.DataFrame(
        {"source": np.concatenate(sources), "tokens": np.concatenate([_lengths(part) - 1 for part in contexts])}
    )
    return segments.groupby("source")["tokens"].sum()


def _documents(contexts: pa.Table) -> set[str]:
    """Ids of the documents in packed contexts."""
    return set(contexts[shards.DOCUMENTS].combine_chunks().flatten().to_pylist())


def _lengths(contexts: pa.Table) -> np.ndarray:
    """Tokens of each segment, BOS included, (segments,)."""
    return np.asarray(contexts[shards.SEGMENTS].combine_chunks().flatten().to_numpy(), dtype=np.int64)


def bytes_per_token(documents: pd.DataFrame, tokenizer: Path) -> dict[str, float]:
    """Bytes per token of each source, measured on its first documents, up to MEASURED bytes, in their order."""
    sizes = documents["bytes"].astype("int64")
    before = sizes.groupby(documents["source"], sort=False).cumsum() - sizes
    encoder = load_tokenizer(tokenizer)
    return {
        str(source): int(rows["bytes"].sum()) / sum(len(tokens) for tokens in encode(encoder, rows["text"].tolist()))
        for source, rows in documents[before < MEASURED].groupby("source", sort=False)
    }


def heldout_overlaps(documents: Path, sample: Collection[str]) -> dict[str, Overlap]:
    """The overlap of the documents of the held-out sample with the training text, summed by source.

    `sample` are their ids. Training text is read batch by batch, once.
    """
    chosen = [document for document in _texts(documents, "heldout") if document["id"] in sample]
    training = (document["text"].encode() for name in ("stable", "decay") for document in _texts(documents, name))
    found: dict[str, Overlap] = {}
    for document, own in zip(chosen, overlaps([row["text"].encode() for row in chosen], training), strict=True):
        so_far = found.get(document["source"], Overlap(0, 0))
        found[document["source"]] = Overlap(so_far.shared + own.shared, so_far.shingles + own.shingles)
    return found


def _texts(documents: Path, name: str) -> Iterator[dict]:
    """The documents of a stream, in order."""
    stream = DocumentStream(documents, name)
    for start in range(0, stream.length, BATCH):
        yield from stream.read(range(start, min(start + BATCH, stream.length)))


def source_rows(
    sources: Sequence[Source],
    documents: pd.DataFrame,
    cleaning: pd.DataFrame,
    ratios: Mapping[str, float],
    used: Mapping[str, pd.Series],
    overlap: Mapping[str, Overlap],
) -> list[dict]:
    """One row of SOURCES for each source, in the order of the table of sources.

    `documents` and `cleaning` are the tables of those names, `ratios` the bytes per token of each source, `used` the
    tokens of each source by stream and `overlap` that of its held-out sample.
    """
    sizes = documents["bytes"].astype("int64").groupby(documents["source"]).agg(["size", "sum"])
    dropped = cleaning.set_index(["source", "reason"])["documents"].to_dict()
    rows = []
    for source in sources:
        name = source.source
        count, size = (int(sizes[column][name]) for column in ("size", "sum"))
        contained = overlap.get(name, Overlap(0, 0))
        rows.append(
            {
                "source": name,
                "category": source.category,
                "licence": source.licence,
                "documents": count,
                "bytes": size,
                "mean_bytes": size / count,
                "bytes_per_token": ratios[name],
                "mean_tokens": size / count / ratios[name],
                **{f"{stream}_tokens": int(used[stream].get(name, 0)) for stream in ("stable", "decay", "heldout")},
                "heldout_shingles": contained.shingles,
                "heldout_overlap": contained.share if contained.shingles else None,
                **{reason: int(dropped.get((name, reason), 0)) for reason in REASONS},
            }
        )
    return rows


def main(argv: Sequence[str]) -> None:
    streams = ("stable", "decay", "heldout")
    reads = ["sources", "documents", "cleaning", "tokenizer", "stable*", "decay*", "heldout"]
    writes = ["summary", "streams", "summary_table*", "streams_table*"]
    job = read_job("smelt.corpus.summary", __doc__, argv, Settings, reads, writes)
    columns = [shards.TOKENS, shards.SEGMENTS, shards.SOURCES, shards.CUT]
    contexts = {name: [read_table(path, columns) for path in job.paths(name)] for name in streams}
    documents = tables.read(job.path("documents"), ["source", "bytes", "text"])
    rows = source_rows(
        read_sources(job.path("sources"), job.settings.select),
        documents,
        tables.read(job.path("cleaning")),
        bytes_per_token(documents, job.path("tokenizer")),
        {name: tokens_by_source(parts) for name, parts in contexts.items()},
        heldout_overlaps(job.path("documents"), _documents(read_table(job.path("heldout"), [shards.DOCUMENTS]))),
    )
    facts = [stream_row(name, parts, job.settings.attention_keys) for name, parts in contexts.items()]
    for name, entries, schema in (("summary", rows, SOURCES), ("streams", facts, STREAMS)):
        data = tables.from_rows(entries, schema)
        csv, parquet = job.paths(f"{name}_table")
        job.write(name, tables.to_arrow(data, schema))
        tables.write_csv(data, csv)
        write_table(tables.to_arrow(data, schema), parquet, job.origin)
    warn(facts[0])


def warn(stable: dict) -> None:
    """Say so where the keys charged are not the keys seen."""
    seen, charged = stable["keys_causal"], stable["keys_charged"]
    if abs(charged / seen - 1) > TOLERANCE:
        print(
            f"warning: a query of the stable stream sees {seen:.1f} keys in the mean, grid.attention_keys charges"
            f" {charged:g} ({charged / seen - 1:+.0%}): set it to {seen:.0f} for budgets that fit this corpus",
            file=sys.stderr,
        )


if __name__ == "__main__":
    command(main)
