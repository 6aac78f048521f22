"""Held-out losses of each run by source and by length of document, one group of rows for each endpoint.

Reads results/evaluation/<run>/losses.parquet of every run; writes source_losses.parquet (the token-weighted
cross-entropy of each source, whose mean over the sources is the endpoint's loss) and length_losses.parquet (the
same by the documents' own number of tokens; all pieces of a document count under its whole length). All endpoints
must cover the same sources and lengths, which is checked.
"""

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smelt import artifacts, spec
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.labels import KEYS
from smelt.scaling.endpoints.collect import Run, Settings
from smelt.scaling.endpoints.table import ENDPOINTS, column

BOUNDS = (32, 64, 128, 256, 512, 1024, 2048, 4096)  # of the buckets of length, the last token included
COLUMNS = ("branch_step", "document", "source", "category", "tokens", "document_tokens", "loss")

SOURCE_LOSSES = pa.schema(
    [
        *(ENDPOINTS.field(name) for name in KEYS),
        field("source", pa.string(), "source of the documents"),
        field("category", pa.string(), "category of the source"),
        field("tokens", pa.int64(), "targets of the source"),
        field("loss", pa.float64(), "token-weighted held-out loss of the source, nats per token"),
    ]
)
LENGTH_LOSSES = pa.schema(
    [
        *(ENDPOINTS.field(name) for name in KEYS),
        field("bucket", pa.int32(), "most tokens of a document in the bucket; missing: longer than all buckets"),
        field("tokens", pa.int64(), "targets of the bucket"),
        field("documents", pa.int32(), "documents of the bucket"),
        field("loss", pa.float64(), "token-weighted held-out loss, nats per token; missing without documents"),
    ]
)


class Endpoint(NamedTuple):
    """The losses of one endpoint, and where they stand."""

    place: str
    key: dict[str, Any]
    losses: pa.Table


def split(settings: Settings, paths: Sequence[Path]) -> tuple[pa.Table, pa.Table]:
    """The tables of losses by source and by length, ordered as the runs are, branches by their step.

    Raises UserError where files and runs differ in number, a loss cannot be used, a source stands in two
    categories, or the endpoints cover different sources, categories or lengths.
    """
    if len(settings.runs) != len(paths):
        raise UserError(f"{len(settings.runs)} runs in the spec but {len(paths)} files of losses; give one for each")
    by_source: list[dict[str, Any]] = []
    by_length: list[dict[str, Any]] = []
    first: tuple[str, list[dict[str, Any]], list[dict[str, Any]]] | None = None
    for run, path in zip(settings.runs, paths, strict=True):
        for endpoint in _endpoints(spec.load(Run, dict(run)), path):
            sources, lengths = _by_source(endpoint), _by_length(endpoint)
            first = first or (endpoint.place, sources, lengths)
            _same_sources(first[0], first[1], endpoint.place, sources)
            _same_lengths(first[0], first[2], endpoint.place, lengths)
            by_source += [endpoint.key | row for row in sources]
            by_length += [endpoint.key | row for row in lengths]
    return artifacts.table(by_source, SOURCE_LOSSES), artifacts.table(by_length, LENGTH_LOSSES)


def _endpoints(run: Run, path: Path) -> Iterator[Endpoint]:
    data = artifacts.read_table(path, COLUMNS)
    if data.num_rows == 0:
        raise UserError(f"{path}: no losses; evaluate run {run.run} again")
    for name, least in (("loss", 0.0), ("tokens", 1.0), ("document_tokens", 1.0)):
        values = column(data, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
        if wrong.size:
            place, found = f"row {wrong[0] + 1}, column {name}", values[wrong[0]]
            raise UserError(f"{path}: {place}: {found}; expected a finite number of at least {least:g}")
    steps = column(data, "branch_step").astype(int)
    about = {name: getattr(run, name) for name in KEYS[:-1]}
    for step in np.unique(steps).tolist():
        yield Endpoint(
            f"{path}, branch at step {step}", {**about, "branch_step": step}, data.filter(pa.array(steps == step))
        )


def _by_source(endpoint: Endpoint) -> list[dict[str, Any]]:
    labels = sorted(set(zip(*(endpoint.losses[name].to_pylist() for name in ("source", "category")), strict=True)))
    categories = dict(labels)
    if len(categories) < len(labels):
        names = [source for source, _ in labels]
        twice = next(name for name, after in itertools.pairwise(names) if name == after)
        found = " and ".join(category for source, category in labels if source == twice)
        raise UserError(f"{endpoint.place}: source {twice!r} stands in the categories {found}; it can have only one")
    _, which = np.unique(np.array(endpoint.losses["source"].to_pylist()), return_inverse=True)
    tokens = np.bincount(which, weights=column(endpoint.losses, "tokens"))
    losses = np.bincount(which, weights=column(endpoint.losses, "loss"))
    return [
        {"source": source, "category": category, "tokens": int(count), "loss": float(total / count)}
        for (source, category), count, total in zip(labels, tokens, losses, strict=True)
    ]


def buckets(tokens: NDArray[Any]) -> NDArray[np.int64]:
    """Number of the bucket of documents of so many tokens; `len(BOUNDS)` beyond the last."""
    return np.asarray(np.searchsorted(np.array(BOUNDS), tokens, side="left"), dtype=np.int64)


def _by_length(endpoint: Endpoint) -> list[dict[str, Any]]:
    place = buckets(column(endpoint.losses, "document_tokens"))
    _, one = np.unique(np.array(endpoint.losses["document"].to_pylist()), return_index=True)
    size = len(BOUNDS) + 1
    documents = np.bincount(place[one], minlength=size)
    tokens = np.bincount(place, weights=column(endpoint.losses, "tokens"), minlength=size)
    losses = np.bincount(place, weights=column(endpoint.losses, "loss"), minlength=size)
    return [
        {
            "bucket": bound,
            "tokens": int(tokens[i]),
            "documents": int(documents[i]),
            "loss": float(losses[i] / tokens[i]) if tokens[i] else None,
        }
        for i, bound in enumerate([*BOUNDS, None])
    ]


def _same_sources(place: str, sources: list[dict[str, Any]], other: str, others: list[dict[str, Any]]) -> None:
    """Raise UserError, naming category or source, unless both endpoints cover the same sources to the same extent."""
    for name in ("category", "source"):
        mine, theirs = {row[name] for row in sources}, {row[name] for row in others}
        if mine != theirs:
            missing = sorted(mine ^ theirs)[0]
            lacking, having = (other, place) if missing in mine else (place, other)
            raise UserError(f"{lacking}: no document of {name} {missing!r}, which {having} has; evaluate both again")
    for row, twin in zip(sources, others, strict=True):
        if (row["category"], row["tokens"]) != (twin["category"], twin["tokens"]):
            counts = f"{twin['tokens']} tokens ({twin['category']}) but {row['tokens']} ({row['category']})"
            raise UserError(f"{other}: source {row['source']!r} has {counts} in {place}; evaluate both again")


def _same_lengths(place: str, lengths: list[dict[str, Any]], other: str, others: list[dict[str, Any]]) -> None:
    for row, twin in zip(lengths, others, strict=True):
        if (row["documents"], row["tokens"]) != (twin["documents"], twin["tokens"]):
            named = f"up to {row['bucket']} tokens" if row["bucket"] else f"above {BOUNDS[-1]} tokens"
            counts = f"{twin['documents']} ({twin['tokens']} targets) but {row['documents']} ({row['tokens']})"
            raise UserError(f"{other}: documents of {named}: {counts} in {place}; evaluate both again")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="the runs, as for the table of endpoints, as JSON")
    parser.add_argument("--losses", required=True, nargs="+", type=Path, help="losses.parquet of each run, in order")
    parser.add_argument("--sources", required=True, type=Path, help="where to write the losses by source")
    parser.add_argument("--lengths", required=True, type=Path, help="where to write the losses by length")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    tables = split(settings, arguments.losses)
    origin = artifacts.provenance("smelt.scaling.endpoints.breakdown", dataclasses.asdict(settings), arguments.losses)
    for data, path in zip(tables, (arguments.sources, arguments.lengths), strict=True):
        artifacts.write_table(data, path, origin)


if __name__ == "__main__":
    command(main)
