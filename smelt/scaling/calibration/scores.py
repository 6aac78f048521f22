"""Scores of endpoints on downstream tasks: the columns of their table, and its reader.

A table of scores is a CSV or Parquet file with one row for each endpoint, metric and task. The rows whose task is
empty are the metric's own score, the aggregate over its tasks; the others are optional and refine it.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt.errors import UserError
from smelt.labels import KEYS, SCORES
from smelt.surfaces.points import Array
from smelt.tables import first_rows, numbers, rows
from smelt.user_files.table import TableFile, check_columns, read_table_file

NEEDED = (*KEYS, "metric", "score", "higher_is_better")  # in every row
ABSENT = ("seed", "task", "category", "chance", "standard_error", "items")  # columns that a file may lack
DEFAULTS: dict[str, Any] = {"seed": 0, "task": "", "category": ""}  # where the column, or of a text the cell, is empty
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


def read_scores(path: str | Path, endpoints: pd.DataFrame) -> pd.DataFrame:
    """The checked rows of a table of scores, columns as SCORES, an empty text for an empty task or category.

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
    scores = pd.DataFrame({column.name: _parsed(table, column) for column in SCORES})
    _check_values(scores, table)
    _check_endpoints(scores, table, endpoints)
    _check_repeats(scores, table)
    _check_agreement(scores, table)
    _check_tasks(scores, table)
    return scores


def named(endpoint: Iterable[Any]) -> str:
    """An endpoint in words."""
    return ", ".join(
        f"{name} {'(empty)' if pd.isna(value) else value}" for name, value in zip(KEYS, endpoint, strict=True)
    )


def _parsed(table: TableFile, column: pa.Field) -> pd.Series:
    """A column in its type, missing values as such (an empty text for task and category, 0 for the seed)."""
    name, default = column.name, DEFAULTS.get(column.name)
    cells = table.cells(name) if name in table.columns else [default for _ in range(len(table.data))]
    read, expected = _READERS[column.type]
    values = []
    for index, cell in enumerate(cells):
        try:
            values.append(None if cell is None or cell == "" else read(cell))
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{table.place(index, name)}: {cell!r}; expected {expected}") from None
        if values[-1] is None and name in NEEDED:
            raise UserError(f"{table.place(index, name)}: empty; every row needs one")
        if values[-1] is None and isinstance(default, str):
            values[-1] = default
    kind = pa.int64() if pa.types.is_integer(column.type) else column.type  # a label may be any whole number
    return pd.Series(values, dtype=pd.ArrowDtype(kind))


def _check_values(scores: pd.DataFrame, table: TableFile) -> None:
    """Each value lies in its range, and a category belongs to a task."""
    for name, allowed, expected in _LIMITS:
        values = numbers(scores, name)
        for index in np.flatnonzero(~np.isnan(values) & ~allowed(values)).tolist():
            raise UserError(f"{table.place(index, name)}: {scores[name].iloc[index]}; expected {expected}")
    of_chance = scores["higher_is_better"].to_numpy(dtype=bool) & scores["chance"].notna().to_numpy()
    for index in np.flatnonzero(of_chance & (numbers(scores, "score") > 1)).tolist():
        raise UserError(
            f"{table.place(index, 'score')}: {scores['score'].iloc[index]}; where there is a chance level, expected a "
            "fraction (27.6 points are 0.276)"
        )
    for index in np.flatnonzero(((scores["category"] != "") & (scores["task"] == "")).to_numpy(dtype=bool)).tolist():
        category = scores["category"].iloc[index]
        raise UserError(f"{table.place(index, 'category')}: {category!r} without a task; only tasks have a category")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    if abs(float(value)) >= 2**63:
        raise OverflowError
    return int(float(value))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    truth = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if truth is None:
        raise ValueError
    return truth


_WHOLE = (_whole, "a whole number")
_READERS: dict[pa.DataType, tuple[Callable[[Any], Any], str]] = {
    pa.string(): (_text, "text"),
    pa.int32(): _WHOLE,
    pa.int64(): _WHOLE,
    pa.float64(): (_number, "a finite number"),
    pa.bool_(): (_truth, "true or false"),
}
_LIMITS: tuple[tuple[str, Callable[[Array], NDArray[np.bool_]], str], ...] = (
    ("chance", lambda values: (values >= 0) & (values < 1), "a fraction in [0, 1): 25 % is 0.25"),
    ("standard_error", lambda values: values >= 0, "a number of at least 0"),
    ("items", lambda values: values >= 1, "a number of at least 1"),
)


def _check_endpoints(scores: pd.DataFrame, table: TableFile, endpoints: pd.DataFrame) -> None:
    """Every row belongs to exactly one endpoint."""
    counts = endpoints.groupby(list(KEYS), dropna=False).size().rename("count").reset_index()
    count = scores[list(KEYS)].merge(counts, how="left", on=list(KEYS))["count"].fillna(0).to_numpy(dtype=np.int64)
    for index in np.flatnonzero(count != 1).tolist():
        endpoint = scores[list(KEYS)].iloc[index]
        if count[index]:
            raise UserError(
                f"{table.place(index)}: {count[index]} endpoints are {named(endpoint)}; give them labels of their own"
            )
        unknown = next((name for name in KEYS if not (endpoints[name] == endpoint[name]).any()), None)
        raise UserError(
            f"{table.place(index, unknown)}: no endpoint is {named(endpoint)}; take the labels from the study's table "
            "of endpoints"
        )


def _check_repeats(scores: pd.DataFrame, table: TableFile) -> None:
    first = first_rows(scores, [*KEYS, "metric", "task"])
    for index in np.flatnonzero(first != np.arange(len(scores))).tolist():
        row = scores.iloc[index]
        score = f"{row['metric']} {row['task']}".strip()
        raise UserError(
            f"{table.place(index)} repeats row {table.first + first[index]} ({named(row[list(KEYS)])}, {score}); each "
            "score appears once (average those of several seeds of the evaluation)"
        )


def _check_agreement(scores: pd.DataFrame, table: TableFile) -> None:
    """Direction, chance and category belong to the task, not to the endpoint."""
    first = first_rows(scores, ["metric", "task"])
    codes = {name: pd.factorize(scores[name], use_na_sentinel=False)[0] for name in SAME}
    different = np.array([code != code[first] for code in codes.values()])  # (SAME, rows)
    for index in np.flatnonzero(different.any(axis=0)).tolist():
        name = SAME[int(different[:, index].argmax())]
        here, there = (row[name] for row in rows(scores.iloc[[index, first[index]]]))
        raise UserError(
            f"{table.place(index, name)}: {here!r}, but {there!r} in row {table.first + first[index]} of the same "
            "metric and task; make them equal"
        )


def _check_tasks(scores: pd.DataFrame, table: TableFile) -> None:
    """An endpoint with tasks of a metric has all that others have, and the metric itself."""
    known = {str(metric): set(tasks) for metric, tasks in scores.groupby("metric")["task"]}
    for (metric, *endpoint), part in scores.groupby(["metric", *KEYS], sort=False):
        tasks, place = set(part["task"]), table.place(int(part.index[0]), "task")
        if "" not in tasks:
            raise UserError(
                f"{place}: {metric} has tasks but no aggregate at {named(endpoint)}; add its row with an empty task"
            )
        if len(tasks) > 1 and (lacking := sorted(known[str(metric)] - tasks)):
            raise UserError(
                f"{place}: {named(endpoint)} has no {lacking[0]!r} of {metric}, which others have; means over "
                "different tasks say nothing, so score it too or leave it out everywhere"
            )
