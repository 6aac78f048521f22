"""A table that a person wrote, CSV or Parquet, read strictly: each row keeps the number that the person sees."""

import csv
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from smelt.errors import UserError

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class TableFile(NamedTuple):
    """The columns of a file, in order, and its rows; empty cells are None."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    first: int  # number of the first row, as a spreadsheet counts

    def place(self, index: int, name: str | None = None) -> str:
        """Where row `index` (from 0) stands, and its column, for a message."""
        counted = "the header is row 1" if self.first > 1 else "counted from 1"
        return f"{self.path}: row {self.first + index} ({counted})" + (f", column {name}" if name else "")


def read_table_file(path: Path) -> TableFile:
    """Read a file by its ending. Raises UserError where it is missing, unreadable, empty or no table."""
    readers = {".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise UserError(f"{path}: a table of endpoints is a .csv or .parquet file")
    try:
        found = readers[path.suffix](path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the path is taken from the folder of the study file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not found.rows:
        raise UserError(f"{path}: no row; it needs one for each endpoint, below the names of the columns")
    return found


def check_columns(table: TableFile, known: Sequence[str], aliases: Mapping[str, str]) -> None:
    """Raise UserError on a column that is unknown (`aliases` are names that others use) or stands there twice."""
    for name in table.columns:
        if name not in known:
            near = [aliases[name.lower()]] if name.lower() in aliases else difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise UserError(f"{table.path}: unknown column {name!r}; {hint}")
        if table.columns.count(name) > 1:
            raise UserError(f"{table.path}: column {name!r} stands there twice; keep one of them")


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
    columns = tuple(name.strip() for name in lines[0])
    if len(columns) == 1 and (found := [word for sign, word in SEPARATORS.items() if sign in columns[0]]):
        raise UserError(f"{path}: its columns are separated by {found[0]}; separate them by commas")
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()  # blank lines at the end
    rows = []
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(columns):
            raise UserError(
                f"{path}: row {number} (the header is row 1) has {len(cells)} cells and the header {len(columns)}; "
                "give each column a cell, an empty one where nothing is known"
            )
        rows.append({name: cell.strip() or None for name, cell in zip(columns, cells, strict=True)})
    return TableFile(path, columns, tuple(rows), 2)


def _parquet(path: Path) -> TableFile:
    try:
        data = pq.read_table(path)
    except pa.ArrowException as error:
        raise UserError(f"{path}: no readable Parquet file ({' '.join(str(error).split())})") from None
    return TableFile(path, tuple(data.column_names), tuple(data.to_pylist()), 1)
