"""The registry of what the paper prints, and our value of each number, looked up in a study's tables.

The registry is a CSV file with the columns of `Entry`: what a number means, where it is printed, and the table, rows
and column that answer to it. Adding a number, or an answer to one, is an edit of that file.
"""

import csv
import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smelt.errors import UserError
from smelt.tables import numbers

KINDS = ("result", "bound", "spread", "setting")
SAME = 1e-9  # relative difference up to which two numbers are one
PAIR = ("baseline", "smelt")  # the paper's two architectures, as the tables name them


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row of the registry, as text."""

    id: str  # path of the number: section, row, column
    meaning: str  # in words, with the unit
    where: str  # section, table, figure or equation of the paper
    printed: str  # as printed, in the unit of `meaning`: the last digit says how exact it is
    kind: str  # result, bound (the paper says "below"), spread (of measured residuals) or setting (no result)
    study: str  # whose table answers to it
    table: str
    rows: str  # KEY=VALUE|VALUE, blank-separated: the rows of the table; no VALUE is an empty one
    column: str  # empty where no table answers as yet
    how: str  # a key of HOW
    scale: str  # factor from the column's unit to that of `meaning`; empty is 1
    propagates: str  # a key of printed_digits.PROPAGATES; empty where no other printed number enters
    reason: str  # why it is not applicable or not computed, where that differs from the usual

    @property
    def value(self) -> float:
        return float(Decimal(self.printed))

    @property
    def half_digit(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * float(Decimal(1).scaleb(int(Decimal(self.printed).as_tuple().exponent)))

    @property
    def filters(self) -> dict[str, list[str]]:
        return {key: values.split("|") for key, _, values in (part.partition("=") for part in self.rows.split())}

    @property
    def target(self) -> str | None:
        """The file that holds, or will hold, our value."""
        return table_file(self.study, self.table) if self.table else None


def table_file(study: str, table: str) -> str:
    """A table of a study, from the working directory."""
    return f"results/{study}/tables/{table}.csv"


class Answer(NamedTuple):
    """Our value in the unit of the entry, or why there is none."""

    value: float | None
    reason: str | None


def read_registry(path: Path) -> list[Entry]:
    """The entries in their order. Raises UserError that names line and column of a mistake."""
    names = [field.name for field in dataclasses.fields(Entry)]
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; it comes with the project") from None
    if list(reader.fieldnames or []) != names:
        raise UserError(f"{path}: expected the columns {', '.join(names)}")
    entries, seen = [], set()
    for line, row in enumerate(rows, start=2):
        if row.keys() != set(names) or None in row.values():
            raise UserError(f"{path}, line {line}: expected {len(names)} fields; quote a field that holds a comma")
        entry = Entry(**row)
        _check(entry, f"{path}, line {line}")
        if entry.id in seen:
            raise UserError(f"{path}, line {line}: id {entry.id!r} appears twice; each number has one row")
        seen.add(entry.id)
        entries.append(entry)
    return entries


def _check(entry: Entry, line: str) -> None:
    for name in ("id", "meaning", "where", "printed", "kind"):
        if not getattr(entry, name):
            raise UserError(f"{line}, column {name}: empty; every number has one")
    for name in ("printed", "scale"):
        text = getattr(entry, name)
        try:
            finite = not text or Decimal(text).is_finite()
        except InvalidOperation:
            finite = False
        if not finite:
            raise UserError(f"{line}, column {name}: {text!r} is no number")
    for name, known in (("kind", KINDS), ("how", tuple(HOW))):
        if getattr(entry, name) not in known:
            raise UserError(f"{line}, column {name}: {getattr(entry, name)!r}; expected one of {', '.join(known)}")
    if not re.fullmatch(r"(\w+=\S*( |$))*", entry.rows):
        raise UserError(f"{line}, column rows: {entry.rows!r}; expected KEY=VALUE pairs with blanks between")
    if (entry.kind == "setting") == bool(entry.table) or bool(entry.table) != bool(entry.study):
        raise UserError(f"{line}, column table: a result names the study and table that hold it, a setting none")


def look_up(entry: Entry, tables: Mapping[str, pd.DataFrame]) -> Answer:
    """Our value of an entry, from the tables that exist (name -> table).

    Raises UserError where a table lacks a column that the entry names.
    """
    if not entry.column:
        return Answer(None, entry.reason or f"no stage writes it to {entry.target} as yet")
    if entry.table not in tables:
        return Answer(None, entry.reason or f"needs {entry.target}")
    rows = tables[entry.table]
    for name in (*entry.filters, entry.column):
        if len(rows) and name not in rows.columns:
            raise UserError(f"table {entry.table}: no column {name!r}, which the registry's {entry.id} asks for")
    for name, values in entry.filters.items() if len(rows) else ():
        rows = rows[_among(rows[name], values)]
    missing = _missing(entry, rows)
    if missing:
        return Answer(None, missing)
    return Answer(float(entry.scale or 1) * HOW[entry.how](rows, entry.column), None)


def _missing(entry: Entry, rows: pd.DataFrame) -> str | None:
    """Why the selected rows give no value: one that was asked for is not among them, or holds none."""
    for name, values in entry.filters.items():
        absent = [value for value in values if rows.empty or not _among(rows[name], [value]).any()]
        if absent:
            some = "" if rows.empty else f", {absent[0]} of them"
            return f"table {entry.table} has no row with {entry.rows}{some}"
    if rows.empty:
        return f"table {entry.table} has no row"
    without = rows[rows[entry.column].isna()]
    if without.empty:
        return None
    reason = without["reason"].iloc[0] if "reason" in without.columns else None
    said = f"{entry.column} is missing" if pd.isna(reason) or not reason else reason
    return f"table {entry.table}: {said}"


def _among(column: pd.Series, values: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows hold one of the values, (rows,): numbers up to round-off, a missing value as an empty text."""
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return column.fillna("").isin(values).to_numpy(bool)
    held = column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    wanted = np.array([_number(value) for value in values])
    close = np.abs(held - wanted) <= SAME * np.maximum(np.abs(held), np.abs(wanted))
    return np.asarray((close | (np.isnan(held) & (np.array(values) == ""))).any(axis=1))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _only(rows: pd.DataFrame, column: str) -> float:
    values = rows[column].unique()
    if len(values) > 1:
        raise UserError(f"column {column}: {len(rows)} rows hold {len(values)} values where the paper has one number")
    return float(values[0])


def _pair(rows: pd.DataFrame, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Baseline's and SMELT's values; a table holds both in one order."""
    base, smelt = (numbers(rows[rows["architecture"] == name], column) for name in PAIR)
    return base, smelt


def _difference(rows: pd.DataFrame, column: str) -> float:
    base, smelt = _pair(rows, column)
    return float((smelt - base)[0])


def _largest_change(rows: pd.DataFrame, column: str) -> float:
    base, smelt = _pair(rows, column)
    return float(np.abs(smelt / base - 1).max())


# From the selected rows and the column to one number.
HOW: dict[str, Callable[[pd.DataFrame, str], float]] = {
    "": _only,
    "excess": lambda rows, column: _only(rows, column) - 1,  # of a ratio above 1
    "smallest": lambda rows, column: float(rows[column].min()),
    "largest": lambda rows, column: float(rows[column].max()),
    "mismatch": lambda rows, column: float(np.abs(numbers(rows, column) - 1).max()),  # the largest, of ratios
    "difference": _difference,
    "apart": _largest_change,
}
