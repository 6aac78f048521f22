"""Scores of endpoints on downstream tasks: the columns of their table, and its reader.

A table of scores is a CSV or Parquet file with one row for each endpoint, metric and task. The rows whose task is
empty are the metric's own score, the aggregate over its tasks; the others are optional and refine it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from smelt.errors import UserError
from smelt.labels import KEYS, SCORES, Row, key
from smelt.user_files.table import TableFile, check_columns, read_table_file

NEEDED = (*KEYS, "metric", "score", "higher_is_better")  # in every row
ABSENT = ("seed", "task", "category", "chance", "standard_error", "items")  # columns that a file may lack
# Names that others give them, in small letters.
ALIASES = {
    "arch": "architecture",
    "model": "architecture",
    "step": "branch_step",
    "benchmark": "metric",
    "name": "metric",
    "value": "score",
    "accuracy": "score",
    "acc": "score",
    "random_baseline": "chance",
    "baseline": "chance",
    "stderr": "standard_error",
    "se": "standard_error",
    "n": "items",
}
SAME = ("category", "chance", "higher_is_better")  # for all endpoints of a metric's task


def read_scores(path: str | Path, endpoints: pa.Table) -> list[Row]:
    """The checked rows of a table of scores, an empty text for an empty task or category.

    Raises UserError, naming row and column, on anything that would make a comparison meaningless: see
    docs/calibration.md.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise UserError(f"{path}: scores are a .csv or .parquet file; rename or convert it")
    table = read_table_file(path)
    check_columns(table, SCORES.names, ALIASES)
    if missing := [name for name in SCORES.names if name not in table.columns and name not in ABSENT]:
        raise UserError(f"{path}: the column {missing[0]!r} is missing; it has {', '.join(table.columns)}")
    rows = [_parsed(table, index) for index in range(len(table.rows))]
    _check_endpoints(rows, table, endpoints)
    _check_repeats(rows, table)
    _check_agreement(rows, table)
    _check_tasks(rows, table)
    return rows


def named(endpoint: Sequence[Any]) -> str:
    """An endpoint in words."""
    return ", ".join(
        f"{name} {'(empty)' if value is None else value}" for name, value in zip(KEYS, endpoint, strict=True)
    )


def _parsed(table: TableFile, index: int) -> Row:
    """The values of a row in their types, missing ones as None (an empty text for task and category)."""
    found: Row = {}
    for column in SCORES:
        value = table.rows[index].get(column.name)
        read, expected = _READERS[column.type]
        try:
            found[column.name] = None if value is None or value == "" else read(value)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{table.place(index, column.name)}: {value!r}; expected {expected}") from None
    if "seed" not in table.columns:
        found["seed"] = 0
    for name in NEEDED:
        if found[name] is None:
            raise UserError(f"{table.place(index, name)}: empty; every row needs one")
    found |= {name: found[name] or "" for name in ("task", "category")}
    for name, allowed, expected in _LIMITS:
        if found[name] is not None and not allowed(found[name]):
            raise UserError(f"{table.place(index, name)}: {found[name]}; expected {expected}")
    if found["chance"] is not None and found["higher_is_better"] and found["score"] > 1:
        raise UserError(
            f"{table.place(index, 'score')}: {found['score']}; where there is a chance level, expected a fraction "
            "(27.6 points are 0.276)"
        )
    if found["category"] and not found["task"]:
        raise UserError(
            f"{table.place(index, 'category')}: {found['category']!r} without a task; only tasks have a category"
        )
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    return int(float(value))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if found is None:
        raise ValueError
    return found


_WHOLE = (_whole, "a whole number")
_READERS: dict[pa.DataType, tuple[Callable[[Any], Any], str]] = {
    pa.string(): (_text, "text"),
    pa.int32(): _WHOLE,
    pa.int64(): _WHOLE,
    pa.float64(): (_number, "a finite number"),
    pa.bool_(): (_truth, "true or false"),
}
_LIMITS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("chance", lambda value: 0 <= value < 1, "a fraction in [0, 1): 25 % is 0.25"),
    ("standard_error", lambda value: value >= 0, "a number of at least 0"),
    ("items", lambda value: value >= 1, "a number of at least 1"),
)


def _check_endpoints(rows: Sequence[Row], table: TableFile, endpoints: pa.Table) -> None:
    """Every row belongs to exactly one endpoint."""
    counts = Counter(key(row) for row in endpoints.select(KEYS).to_pylist())
    labels = {name: set(endpoints[name].to_pylist()) for name in KEYS}
    for index, row in enumerate(rows):
        count = counts[key(row)]
        if count > 1:
            raise UserError(
                f"{table.place(index)}: {count} endpoints are {named(key(row))}; give them labels of their own"
            )
        if not count:
            strange = next((name for name in KEYS if row[name] not in labels[name]), None)
            raise UserError(
                f"{table.place(index, strange)}: no endpoint is {named(key(row))}; take the labels as they stand in "
                "the study's table of endpoints"
            )


def _check_repeats(rows: Sequence[Row], table: TableFile) -> None:
    seen: dict[tuple[Any, ...], int] = {}
    for index, row in enumerate(rows):
        first = seen.setdefault((*key(row), row["metric"], row["task"]), index)
        if first != index:
            what = f"{row['metric']} {row['task']}".strip()
            raise UserError(
                f"{table.place(index)} repeats row {table.first + first} ({named(key(row))}, {what}); each score "
                "stands there once (average those of several seeds of the evaluation)"
            )


def _check_agreement(rows: Sequence[Row], table: TableFile) -> None:
    """Direction, chance and category belong to the task, not to the endpoint."""
    seen: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        first = seen.setdefault((row["metric"], row["task"]), index)
        for name in SAME:
            if row[name] != rows[first][name]:
                raise UserError(
                    f"{table.place(index, name)}: {row[name]!r}, but {rows[first][name]!r} in row "
                    f"{table.first + first} of the same metric and task; make them one"
                )


def _check_tasks(rows: Sequence[Row], table: TableFile) -> None:
    """An endpoint with tasks of a metric has all that others have, and the metric itself."""
    held: dict[tuple[str, tuple[Any, ...]], dict[str, int]] = {}
    known: dict[str, set[str]] = {}
    for index, row in enumerate(rows):
        held.setdefault((row["metric"], key(row)), {})[row["task"]] = index
        known.setdefault(row["metric"], set()).add(row["task"])
    for (metric, endpoint), tasks in held.items():
        place = table.place(min(tasks.values()), "task")
        if "" not in tasks:
            raise UserError(
                f"{place}: {metric} has tasks but no aggregate at {named(endpoint)}; add its row with an empty task"
            )
        if len(tasks) > 1 and (lacking := sorted(known[metric] - tasks.keys())):
            raise UserError(
                f"{place}: {named(endpoint)} has no {lacking[0]!r} of {metric}, which others have; means over "
                "different tasks say nothing, so score it too or leave it out everywhere"
            )
