"""Tables for people: each Parquet artifact as CSV with the same rows as Parquet beside it.

Reads results/scaling/*.parquet and writes results/tables/*.{csv,parquet}, one pair for each input, under
the input's name. Where the endpoints of the study were simulated, every row of every table says so, in `source`.
"""

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from smelt import artifacts, tables
from smelt.errors import UserError, command
from smelt.job import read_job

MODULE = "smelt.reporting.tables"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all tables of a study say."""

    source: str = ""  # of simulated endpoints


def sourced(data: pa.Table, source: str) -> pa.Table:
    """A table with a column `source` that holds one text.

    The table is unchanged where it has that column or `source` is empty.
    """
    if not source or "source" in data.column_names:
        return data
    column = artifacts.field("source", pa.string(), "where the endpoints behind the row come from")
    return data.append_column(column, pa.array([source] * data.num_rows, pa.string()))


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["artifacts*"], ["csv*"])
    names = [[path.stem for path in job.paths(option)] for option in ("artifacts", "csv")]
    if names[0] != names[1]:
        raise UserError(f"--csv names {names[1]}, --artifacts names {names[0]}; name the same tables in the same order")
    for source, target in zip(job.paths("artifacts"), job.paths("csv"), strict=True):
        data = sourced(artifacts.read_table(source), job.settings.source)
        # A table's provenance names the artifact of its name alone, not all those of the job.
        origin = artifacts.provenance(MODULE, job.spec, [source])
        artifacts.write_table(data, target.with_suffix(".parquet"), origin)
        tables.write_csv(tables.from_arrow(data), target)


if __name__ == "__main__":
    command(main)
