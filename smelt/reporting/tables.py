"""Tables for people: each Parquet artifact as CSV with the same rows as Parquet beside it.

Reads results/scaling/*.parquet and writes results/tables/*.{csv,parquet}, one pair for each input, under
the input's name. Where the endpoints of the study were simulated, every row of every table says so, in `source`.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from smelt import artifacts, spec
from smelt.errors import UserError, command


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all tables of a study say."""

    source: str = ""  # of simulated endpoints


def sourced(data: pa.Table, source: str) -> pa.Table:
    """A table with a column `source` that holds one text; as it is where it has one, or there is nothing to say."""
    if not source or "source" in data.column_names:
        return data
    column = artifacts.field("source", pa.string(), "where the endpoints behind the row come from")
    return data.append_column(column, pa.array([source] * data.num_rows, pa.string()))


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", default="{}", help="source, as JSON")
    parser.add_argument("--artifacts", required=True, nargs="+", type=Path)
    parser.add_argument("--csv", required=True, nargs="+", type=Path, help="one for each artifact")
    arguments = parser.parse_args(argv)
    names = [[path.stem for path in paths] for paths in (arguments.artifacts, arguments.csv)]
    if names[0] != names[1]:
        raise UserError(f"the tables {names[1]} do not answer to the artifacts {names[0]}; give them in the same order")
    settings = spec.load(Settings, arguments.spec)
    for source, target in zip(arguments.artifacts, arguments.csv, strict=True):
        data = sourced(artifacts.read_table(source), settings.source)
        origin = artifacts.provenance("smelt.reporting.tables", dataclasses.asdict(settings), [source])
        artifacts.write_table(data, target.with_suffix(".parquet"), origin)
        artifacts.write_csv(data, target)


if __name__ == "__main__":
    command(main)
