"""Tables in memory: pandas DataFrames of Arrow types, from one reader, back to Parquet and CSV.

A table on disk is Parquet with a declared schema and its provenance (smelt.artifacts). In memory it is a DataFrame
whose columns are Arrow's, so that an integer with a missing value stays an integer and a missing value is never NaN.
Jobs that handle no table (training, packing) do not import this module, and so do not load pandas.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt import artifacts

FLOAT_FORMAT = "%.10g"  # of a number in a CSV: ten significant digits, without trailing zeros


def read(path: str | Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The Parquet artifact at `path` as a DataFrame of Arrow types, its rows in the file's order.

    `columns` are the ones to read, in that order; all by default.
    Raises UserError where the file is missing, is no Parquet, or lacks a column.
    """
    return from_arrow(artifacts.read_table(path, columns))


def from_arrow(data: pa.Table) -> pd.DataFrame:
    """An Arrow table as a DataFrame of Arrow types; a missing value stays a missing value."""
    return data.to_pandas(types_mapper=pd.ArrowDtype)


def from_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pd.DataFrame:
    """Rows (mappings) as a DataFrame with exactly the columns of `schema`, None being a missing value.

    Raises ValueError where a row has other keys than the schema.
    """
    return from_arrow(artifacts.table(list(rows), schema))


def to_arrow(data: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """A DataFrame as an Arrow table with exactly the columns of `schema`, in its order; NaN becomes a missing value.

    Raises ValueError where the columns are not those of the schema.
    """
    if set(data.columns) != set(schema.names) or len(data.columns) != len(schema.names):
        raise ValueError(f"table does not fit the schema: {sorted(set(data.columns) ^ set(schema.names))}")
    return pa.Table.from_arrays([_array(data[field.name], field) for field in schema], schema=schema)


def _array(column: pd.Series, field: pa.Field) -> pa.Array:
    values = pa.array(column, from_pandas=True)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return values.cast(field.type)


def numbers(data: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A numeric column as float64, (rows,), with missing values as NaN: for code that computes with numpy."""
    return data[name].to_numpy(dtype=np.float64, na_value=np.nan)


def rows(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries of plain Python values, missing ones as None: for messages and for a row by itself.

    Grouping, joining and ranking are pandas', not loops over this list.
    """
    names = [str(name) for name in data.columns]
    columns = [_plain_values(data.iloc[:, position]) for position in range(len(names))]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain_values(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, pd.ArrowDtype):  # pandas would look at each value by itself
        values: list[Any] = pa.array(column).to_pylist()
        return values
    return [None if value is pd.NA else value for value in column.tolist()]


def write_csv(data: pd.DataFrame, path: str | Path) -> None:
    """Write `data` as CSV for people: numbers with up to ten significant digits, missing values empty.

    The same table gives the same bytes: rows in their order, lines ended by a line feed, true and false in lower case.
    """
    with artifacts.replacing(path) as temporary:
        data.apply(_printed).to_csv(temporary, index=False, float_format=FLOAT_FORMAT, lineterminator="\n")


def _printed(column: pd.Series) -> pd.Series:
    kind = column.dtype
    if isinstance(kind, pd.ArrowDtype) and pa.types.is_boolean(kind.pyarrow_dtype):
        return column.map({True: "true", False: "false"})
    if isinstance(kind, pd.ArrowDtype) and pa.types.is_floating(kind.pyarrow_dtype):
        return column.astype(object).where(column.notna(), None).astype(np.float64)
    return column


def first_rows(data: pd.DataFrame, names: Sequence[str]) -> NDArray[np.int64]:
    """For each row the position of the first one with the same values in `names`, (rows,); missing values are equal."""
    group = data.groupby(list(names), sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    return np.asarray(first[group], dtype=np.int64)
