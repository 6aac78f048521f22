"""What the corpus came to: one row a source, one row a stream.

Reads the table of sources, documents.parquet, cleaning.parquet, tokenizer.json, the shards that the study
reads and the held-out sample; writes summary.parquet and streams.parquet, and both as tables for people.
Warns where the mean number of keys that a query sees is not the number that the study charges for it.
"""

import argparse
import dataclasses
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from smelt.artifacts import field, provenance, read_table, table, write_csv, write_table
from smelt.corpus.contexts.tokenizer import encode, load_tokenizer
from smelt.corpus.documents.clean import REASONS
from smelt.corpus.sources.registry import Source, read_sources
from smelt.errors import command
from smelt.spec import load


@dataclasses.dataclass(frozen=True)
class Settings:
    """`select` of `corpus` and `attention_keys` of `grid` in config/schema.yaml."""

    attention_keys: float
    select: tuple[str, ...] = ()


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
    width = contexts[0]["tokens"].type.list_size
    lengths = np.concatenate([part["segments"].combine_chunks().flatten().to_numpy() for part in contexts])
    causal, full = mean_keys(lengths)
    return {
        "stream": name,
        "contexts": rows,
        "tokens": int(lengths.sum()),
        "fill": float(lengths.sum() / (rows * width)),
        "segments": len(lengths),
        "cut_segments": sum(sum(part["cut"].combine_chunks().flatten().to_pylist()) for part in contexts),
        "keys_causal": causal,
        "keys_segment": full,
        "keys_charged": charged,
    }


def tokens_by_source(contexts: Sequence[pa.Table]) -> Counter[str]:
    """Tokens of each source in packed contexts, without BOS."""
    counts: Counter[str] = Counter()
    for part in contexts:
        sources = part["sources"].combine_chunks().flatten().to_pylist()
        for source, length in zip(sources, part["segments"].combine_chunks().flatten().to_pylist(), strict=True):
            counts[source] += length - 1
    return counts


def bytes_per_token(documents: pa.Table, tokenizer: Path) -> dict[str, float]:
    """Measured on the first documents of each source, in their order."""
    texts: dict[str, list[str]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for source, size, text in zip(
        documents["source"].to_pylist(), documents["bytes"].to_pylist(), documents["text"], strict=True
    ):
        if sizes[source] < MEASURED:
            sizes[source] += size
            texts[source].append(text.as_py())
    encoder = load_tokenizer(tokenizer)
    return {
        source: sizes[source] / sum(len(tokens) for tokens in encode(encoder, part)) for source, part in texts.items()
    }


def source_rows(
    sources: Sequence[Source],
    documents: pa.Table,
    cleaning: pa.Table,
    ratios: dict[str, float],
    used: dict[str, Counter[str]],
) -> list[dict]:
    counts: Counter[str] = Counter(documents["source"].to_pylist())
    sizes: Counter[str] = Counter()
    for source, size in zip(documents["source"].to_pylist(), documents["bytes"].to_pylist(), strict=True):
        sizes[source] += size
    dropped = {(row["source"], row["reason"]): row["documents"] for row in cleaning.to_pylist()}
    rows = []
    for source in sources:
        name = source.source
        mean = sizes[name] / counts[name]
        rows.append(
            {
                "source": name,
                "category": source.category,
                "licence": source.licence,
                "documents": counts[name],
                "bytes": sizes[name],
                "mean_bytes": mean,
                "bytes_per_token": ratios[name],
                "mean_tokens": mean / ratios[name],
                **{f"{stream}_tokens": used[stream][name] for stream in ("stable", "decay", "heldout")},
                **{reason: dropped.get((name, reason), 0) for reason in REASONS},
            }
        )
    return rows


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings as JSON")
    for name in ("sources", "documents", "cleaning", "tokenizer", "heldout"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("stable", "decay"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True, help="shards that the study reads")
    for name in ("summary", "streams"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="output")
        parser.add_argument(f"--{name}-table", type=Path, nargs=2, required=True, help="output: CSV and Parquet")
    arguments = parser.parse_args(argv)
    settings = load(Settings, arguments.spec)
    sources = read_sources(arguments.sources, settings.select)
    paths = {"stable": arguments.stable, "decay": arguments.decay, "heldout": [arguments.heldout]}
    columns = ["tokens", "segments", "sources", "cut"]
    contexts = {name: [read_table(path, columns) for path in files] for name, files in paths.items()}
    documents = read_table(arguments.documents, ["source", "bytes", "text"])
    used = {name: tokens_by_source(parts) for name, parts in contexts.items()}
    ratios = bytes_per_token(documents, arguments.tokenizer)
    rows = source_rows(sources, documents, read_table(arguments.cleaning), ratios, used)
    streams = [stream_row(name, parts, settings.attention_keys) for name, parts in contexts.items()]
    inputs = [arguments.sources, arguments.documents, arguments.cleaning, arguments.tokenizer]
    origin = provenance(
        "smelt.corpus.summary", dataclasses.asdict(settings), [*inputs, *(p for files in paths.values() for p in files)]
    )
    for data, file, copies in (
        (table(rows, SOURCES), arguments.summary, arguments.summary_table),
        (table(streams, STREAMS), arguments.streams, arguments.streams_table),
    ):
        write_table(data, file, origin)
        write_csv(data, copies[0])
        write_table(data, copies[1], origin)
    warn(streams[0])


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
