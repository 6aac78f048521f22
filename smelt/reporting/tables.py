"""Tables for people: each Parquet artifact as CSV with the same rows as Parquet beside it.

Reads results/scaling/*.parquet and writes results/tables/*.{csv,parquet}, one pair for each input, under
the input's name.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from smelt import artifacts
from smelt.errors import UserError, command


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", required=True, nargs="+", type=Path)
    parser.add_argument("--csv", required=True, nargs="+", type=Path, help="one for each artifact")
    arguments = parser.parse_args(argv)
    names = [[path.stem for path in paths] for paths in (arguments.artifacts, arguments.csv)]
    if names[0] != names[1]:
        raise UserError(f"the tables {names[1]} do not answer to the artifacts {names[0]}; give them in the same order")
    for source, target in zip(arguments.artifacts, arguments.csv, strict=True):
        data = artifacts.read_table(source)
        artifacts.write_table(
            data, target.with_suffix(".parquet"), artifacts.provenance("smelt.reporting.tables", {}, [source])
        )
        artifacts.write_csv(data, target)


if __name__ == "__main__":
    command(main)
