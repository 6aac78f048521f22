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

from smelt.errors import UserError
from smelt.reporting.style.labels import Row

KINDS = ("result", "bound", "spread", "setting")
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


class Found(NamedTuple):
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


def _check(entry: Entry, place: str) -> None:
    for name in ("id", "meaning", "where", "printed", "kind"):
        if not getattr(entry, name):
            raise UserError(f"{place}, column {name}: empty; every number has one")
    for name in ("printed", "scale"):
        text = getattr(entry, name)
        try:
            finite = not text or Decimal(text).is_finite()
        except InvalidOperation:
            finite = False
        if not finite:
            raise UserError(f"{place}, column {name}: {text!r} is no number")
    for name, known in (("kind", KINDS), ("how", tuple(HOW))):
        if getattr(entry, name) not in known:
            raise UserError(f"{place}, column {name}: {getattr(entry, name)!r}; expected one of {', '.join(known)}")
    if not re.fullmatch(r"(\w+=\S*( |$))*", entry.rows):
        raise UserError(f"{place}, column rows: {entry.rows!r}; expected KEY=VALUE pairs with blanks between")
    if (entry.kind == "setting") == bool(entry.table) or bool(entry.table) != bool(entry.study):
        raise UserError(f"{place}, column table: a result names the study and table that hold it, a setting none")


def look_up(entry: Entry, tables: Mapping[str, Sequence[Row]]) -> Found:
    """Our value of an entry, from the tables that are there (name -> rows)."""
    if not entry.column:
        return Found(None, entry.reason or f"no stage writes it to {entry.target} as yet")
    if entry.table not in tables:
        return Found(None, entry.reason or f"needs {entry.target}")
    rows = tables[entry.table]
    for name in (*entry.filters, entry.column):
        if rows and name not in rows[0]:
            raise UserError(f"table {entry.table}: no column {name!r}, which the registry's {entry.id} asks for")
    found = [row for row in rows if all(_matches(row[key], wanted) for key, wanted in entry.filters.items())]
    missing = _missing(entry, found)
    if missing:
        return Found(None, missing)
    value = HOW[entry.how](found, entry.column)
    return Found(float(entry.scale or 1) * value, None)


def _missing(entry: Entry, found: Sequence[Row]) -> str | None:
    """Why the rows found give no value: one that was asked for is not among them, or holds none."""
    for key, wanted in entry.filters.items():
        absent = [one for one in wanted if not any(_matches(row[key], [one]) for row in found)]
        if absent:
            return f"table {entry.table} has no row with {entry.rows}" + (f", {absent[0]} of them" if found else "")
    if not found:
        return f"table {entry.table} has no row"
    reasons = [row.get("reason") or f"{entry.column} is missing" for row in found if row[entry.column] is None]
    return f"table {entry.table}: {reasons[0]}" if reasons else None


def _matches(value: object, wanted: Sequence[str]) -> bool:
    if isinstance(value, int | float):
        return any(math.isclose(value, _number(one), rel_tol=1e-9) for one in wanted)
    return ("" if value is None else value) in wanted


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _only(rows: Sequence[Row], column: str) -> float:
    values = {row[column] for row in rows}
    if len(values) > 1:
        raise UserError(f"column {column}: {len(rows)} rows hold {len(values)} values where the paper has one number")
    return float(values.pop())


def _pairs(rows: Sequence[Row], column: str) -> list[tuple[float, float]]:
    """Baseline's and SMELT's values; a table holds both in one order."""
    sides = ([row[column] for row in rows if row["architecture"] == name] for name in PAIR)
    return list(zip(*sides, strict=True))


# From the rows found and the column to one number.
HOW: dict[str, Callable[[Sequence[Row], str], float]] = {
    "": _only,
    "excess": lambda rows, column: _only(rows, column) - 1,  # of a ratio above 1
    "smallest": lambda rows, column: min(row[column] for row in rows),
    "largest": lambda rows, column: max(row[column] for row in rows),
    "mismatch": lambda rows, column: max(abs(row[column] - 1) for row in rows),  # the largest, of ratios
    "difference": lambda rows, column: next(smelt - base for base, smelt in _pairs(rows, column)),
    "apart": lambda rows, column: max(abs(smelt / base - 1) for base, smelt in _pairs(rows, column)),
}
