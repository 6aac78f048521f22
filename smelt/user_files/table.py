"""A table that a person wrote, CSV or Parquet, read strictly: each row keeps the number that the person sees."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from smelt.errors import UserError
from smelt.user_files.names import suggestion

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class TableFile(NamedTuple):
    """The cells of a file as the person wrote them; an empty cell is None. Rows are counted from 0 inside."""

    path: Path
    data: pd.DataFrame  # object columns: texts of a CSV, values of a Parquet file
    first: int  # number of the first row, as a spreadsheet counts

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [str(name) for name in self.data.columns]

    def cells(self, name: str) -> list[Any]:
        """The cells of a column, in order."""
        return list(self.data[name])

    def place(self, index: int, name: str | None = None) -> str:
        """Where row `index` (from 0) stands, and its column, for a message."""
        counted = "the header is row 1" if self.first > 1 else "counted from 1"
        return f"{self.path}: row {self.first + index} ({counted})" + (f", column {name}" if name else "")


def read_table_file(path: Path) -> TableFile:
    """The table in a .csv or .parquet file.

    Raises UserError where the file has another ending, is missing or unreadable, or holds no row.
    """
    readers = {".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise UserError(f"{path}: a table of endpoints is a .csv or .parquet file")
    try:
        table = readers[path.suffix](path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the path is taken from the folder of the study file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    if table.data.empty:
        raise UserError(f"{path}: no row; it needs one for each endpoint, below the names of the columns")
    return table


def frame_table(data: pd.DataFrame, name: str = "the DataFrame") -> TableFile:
    """A DataFrame as if it were a file called `name`: missing values are empty cells.

    Raises UserError where it holds no row.
    """
    if data.empty:
        raise UserError(f"{name}: no row; it needs one for each endpoint")
    cells = data.reset_index(drop=True).astype(object)
    return TableFile(Path(name), cells.where(cells.notna(), None), 1)


def check_columns(table: TableFile, known: Sequence[str], aliases: Mapping[str, str]) -> None:
    """Raise UserError on an unknown column, with a hint, and on one that appears twice.

    `aliases` are names that others use, in small letters, and the known name of each.
    """
    for name in table.columns:
        if name not in known:
            alias = aliases.get(name.lower())
            hint = f"did you mean {alias!r}?" if alias else suggestion(name, known)
            raise UserError(f"{table.path}: unknown column {name!r}; {hint}")
        if table.columns.count(name) > 1:
            raise UserError(f"{table.path}: column {name!r} appears twice; keep one of them")


def _csv(path: Path) -> TableFile:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file, strict=True))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is no UTF-8 text; save the file as CSV in UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: no readable CSV ({error}); quotes must be closed") from None
    if not lines or not any(cell.strip() for cell in lines[0]):
        raise UserError(f"{path}: empty; the first row names the columns")
    columns = [name.strip() for name in lines[0]]
    if len(columns) == 1 and (signs := [word for sign, word in SEPARATORS.items() if sign in columns[0]]):
        raise UserError(f"{path}: its columns are separated by {signs[0]}; separate them by commas")
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()  # blank lines at the end
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(columns):
            raise UserError(
                f"{path}: row {number} (the header is row 1) has {len(line)} cells and the header {len(columns)}; "
                "give each column a cell, an empty one where nothing is known"
            )
    cells = [[cell.strip() or None for cell in line] for line in lines[1:]]
    return TableFile(path, pd.DataFrame(cells, columns=columns, dtype=object), 2)


def _parquet(path: Path) -> TableFile:
    try:
        data = pq.read_table(path)
    except pa.ArrowException as error:
        raise UserError(f"{path}: no readable Parquet file ({' '.join(str(error).split())})") from None
    cells = [data.column(number).to_pylist() for number in range(data.num_columns)]
    columns = [pd.Series(values, dtype=object) for values in cells]
    return TableFile(path, pd.concat(columns, axis=1, keys=data.column_names) if columns else pd.DataFrame(), 1)
