"""Held-out losses of each run by source and by length of document, one group of rows for each endpoint.

Reads results/evaluation/<run>/losses.parquet of every run; writes source_losses.parquet (the token-weighted
cross-entropy of each source, whose mean over the sources is the endpoint's loss) and length_losses.parquet (the
same by the documents' own number of tokens; all pieces of a document count under its whole length). All endpoints
must cover the same sources and lengths, which is checked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt import tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import KEY_FIELDS, RUN_KEYS
from smelt.scaling.endpoints.collect import Settings
from smelt.scaling.endpoints.losses import means_by, read_losses

BOUNDS = (32, 64, 128, 256, 512, 1024, 2048, 4096)  # of the buckets of length, the last token included
ENDPOINT = ["run_number", "branch_step"]
Check = Callable[[str, pd.DataFrame, str, pd.DataFrame], None]

SOURCE_LOSSES = pa.schema(
    [
        *KEY_FIELDS,
        field("source", pa.string(), "source of the documents"),
        field("category", pa.string(), "category of the source"),
        field("tokens", pa.int64(), "targets of the source"),
        field("loss", pa.float64(), "token-weighted held-out loss of the source, nats per token"),
    ]
)
LENGTH_LOSSES = pa.schema(
    [
        *KEY_FIELDS,
        field("bucket", pa.int32(), "most tokens of a document in the bucket; missing: longer than all buckets"),
        field("tokens", pa.int64(), "targets of the bucket"),
        field("documents", pa.int32(), "documents of the bucket"),
        field("loss", pa.float64(), "token-weighted held-out loss, nats per token; missing without documents"),
    ]
)


def split(settings: Settings, paths: Sequence[Path]) -> tuple[pa.Table, pa.Table]:
    """The tables of losses by source (SOURCE_LOSSES) and by length (LENGTH_LOSSES), as the runs and steps are ordered.

    Raises UserError where a file holds another run than the spec says, a loss cannot be used, a source has two
    categories, or the endpoints cover different sources, categories or lengths.
    """
    losses = read_losses([run.run for run in settings.runs], paths)
    names = {
        endpoint: f"{paths[endpoint[0]]}, branch at step {endpoint[1]}"
        for endpoint in losses[ENDPOINT].drop_duplicates().sort_values(ENDPOINT).itertuples(index=False, name=None)
    }
    sources, lengths = by_source(losses, names), by_length(losses)
    _check_alike(sources, names, _check_sources)
    _check_alike(lengths, names, _check_lengths)
    runs = pd.DataFrame([{name: getattr(run, name) for name in RUN_KEYS} for run in settings.runs])
    keys = runs.assign(run_number=range(len(runs)))
    by_key = [part.merge(keys, on="run_number").drop(columns="run_number") for part in (sources, lengths)]
    return tables.to_arrow(by_key[0], SOURCE_LOSSES), tables.to_arrow(by_key[1], LENGTH_LOSSES)


def by_source(losses: pd.DataFrame, names: dict[Any, str]) -> pd.DataFrame:
    """Tokens and loss of each endpoint and source; `names` are the endpoints for a message."""
    labels = losses[[*ENDPOINT, "source", "category"]].drop_duplicates().sort_values([*ENDPOINT, "source", "category"])
    twice = labels[labels.duplicated([*ENDPOINT, "source"], keep=False)]
    if len(twice):
        number, step, source = twice[[*ENDPOINT, "source"]].iloc[0]
        categories = " and ".join(
            twice[(twice[ENDPOINT] == [number, step]).all(axis=1) & (twice["source"] == source)]["category"]
        )
        raise UserError(
            f"{names[number, step]}: source {source!r} stands in the categories {categories}; it can have only one"
        )
    return means_by(losses, [*ENDPOINT, "source"]).merge(labels, on=[*ENDPOINT, "source"])


def buckets(tokens: NDArray[Any]) -> NDArray[np.int64]:
    """Number of the bucket of documents of so many tokens; `len(BOUNDS)` beyond the last."""
    return np.asarray(np.searchsorted(np.array(BOUNDS), tokens, side="left"), dtype=np.int64)


def by_length(losses: pd.DataFrame) -> pd.DataFrame:
    """Tokens, documents and loss of each endpoint and bucket, empty buckets too."""
    pieces = losses.assign(number=buckets(tables.numbers(losses, "document_tokens")))
    documents = pieces.drop_duplicates([*ENDPOINT, "document"]).groupby([*ENDPOINT, "number"]).size()
    every = pieces[ENDPOINT].drop_duplicates().sort_values(ENDPOINT).merge(_all_buckets(), how="cross")
    filled = every.merge(means_by(pieces, [*ENDPOINT, "number"]), how="left", on=[*ENDPOINT, "number"])
    filled = filled.merge(documents.rename("documents").reset_index(), how="left", on=[*ENDPOINT, "number"])
    counts = {"tokens": "int64", "documents": "int64"}
    return filled.fillna(dict.fromkeys(counts, 0)).astype(counts).drop(columns="number")


def _all_buckets() -> pd.DataFrame:
    return tables.from_arrow(pa.table({"number": range(len(BOUNDS) + 1), "bucket": [*BOUNDS, None]}))


def _check_alike(data: pd.DataFrame, names: dict[Any, str], check: Check) -> None:
    """Call `check(name, rows, other name, other rows)` for the first endpoint and each one."""
    groups = {endpoint: part.reset_index(drop=True) for endpoint, part in data.groupby(ENDPOINT, sort=True)}
    first = next(iter(groups))
    for endpoint, part in groups.items():
        check(names[first], groups[first], names[endpoint], part)


def _check_sources(name: str, sources: pd.DataFrame, other: str, others: pd.DataFrame) -> None:
    """Raise UserError, naming category or source, unless both endpoints cover the same sources to the same extent."""
    for label in ("category", "source"):
        here, there = set(sources[label]), set(others[label])
        if here != there:
            missing = sorted(here ^ there)[0]
            lacking, having = (other, name) if missing in here else (name, other)
            raise UserError(f"{lacking}: no document of {label} {missing!r}, which {having} has; evaluate both again")
    different = (sources[["category", "tokens"]] != others[["category", "tokens"]]).any(axis=1)
    if different.any():
        row, its = (tables.rows(part[different])[0] for part in (sources, others))
        counts = f"{its['tokens']} tokens ({its['category']}) but {row['tokens']} ({row['category']})"
        raise UserError(f"{other}: source {row['source']!r} has {counts} in {name}; evaluate both again")


def _check_lengths(name: str, lengths: pd.DataFrame, other: str, others: pd.DataFrame) -> None:
    different = (lengths[["documents", "tokens"]] != others[["documents", "tokens"]]).any(axis=1)
    if different.any():
        row, its = (tables.rows(part[different])[0] for part in (lengths, others))
        label = f"above {BOUNDS[-1]} tokens" if row["bucket"] is None else f"up to {row['bucket']} tokens"
        counts = f"{its['documents']} ({its['tokens']} targets) but {row['documents']} ({row['tokens']})"
        raise UserError(f"{other}: documents of {label}: {counts} in {name}; evaluate both again")


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.endpoints.breakdown", __doc__, argv, Settings, ["losses*"], ["sources", "lengths"])
    sources, lengths = split(job.settings, job.paths("losses"))
    job.write("sources", sources)
    job.write("lengths", lengths)


if __name__ == "__main__":
    command(main)
