"""A table is the same in memory, on disk and as CSV, missing values included."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError

SCHEMA = pa.schema(
    [
        field("name", pa.string(), "a label"),
        field("count", pa.int64(), "a whole number"),
        field("share", pa.float64(), "a fraction"),
        field("resolved", pa.bool_(), "a truth"),
    ]
)
ROWS = [
    {"name": "b", "count": 2**60 + 1, "share": 1 / 3, "resolved": True},
    {"name": None, "count": None, "share": None, "resolved": None},
    {"name": "a, quoted", "count": -1, "share": 1e20, "resolved": False},
]


@pytest.fixture
def path(tmp_path):
    artifacts.write_table(artifacts.table(ROWS, SCHEMA), tmp_path / "table.parquet", {})
    return tmp_path / "table.parquet"


def test_a_table_comes_back_as_it_was_written(path):
    data = tables.read(path)
    assert tables.rows(data) == ROWS
    assert data["count"].dtype == "int64[pyarrow]"  # a missing value turns no integer into a float
    assert tables.to_arrow(data, SCHEMA).equals(artifacts.table(ROWS, SCHEMA))
    assert tables.to_arrow(data, SCHEMA).schema.field("count").metadata == {b"description": b"a whole number"}


def test_columns_are_chosen_by_name(path):
    assert list(tables.read(path, ["share", "name"])) == ["share", "name"]
    with pytest.raises(UserError, match=r"table\.parquet.*other"):
        tables.read(path, ["other"])


def test_nan_of_a_computation_is_a_missing_value(path):
    data = tables.read(path).assign(share=np.array([1.0, np.nan, 2.0]))
    assert tables.to_arrow(data, SCHEMA)["share"].to_pylist() == [1.0, None, 2.0]


def test_numbers_are_float64_with_nan():
    found = tables.numbers(tables.from_rows(ROWS, SCHEMA), "share")
    assert found.dtype == np.float64
    assert np.isnan(found).tolist() == [False, True, False]


def test_an_empty_table_keeps_its_schema():
    assert tables.to_arrow(tables.from_rows([], SCHEMA), SCHEMA).schema == artifacts.table([], SCHEMA).schema
    assert tables.to_arrow(pd.DataFrame({name: [] for name in SCHEMA.names}), SCHEMA).num_rows == 0


@pytest.mark.parametrize("change", [lambda data: data.drop(columns="share"), lambda data: data.assign(other=1)])
def test_other_columns_than_the_schema_s_are_refused(change):
    with pytest.raises(ValueError, match="does not fit the schema"):
        tables.to_arrow(change(tables.from_rows(ROWS, SCHEMA)), SCHEMA)


def test_csv_is_for_people(tmp_path):
    tables.write_csv(tables.from_rows(ROWS, SCHEMA), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_bytes() == (
        b'name,count,share,resolved\nb,1152921504606846977,0.3333333333,true\n,,,\n"a, quoted",-1,1e+20,false\n'
    )


def test_csv_quotes_names_and_leaves_missing_values_empty(tmp_path):
    data = pa.table(
        {
            "run": ["smelt, looped", 'a "b"', None],
            "loss": [1 / 3, 1e-12, None],
            "tokens": pa.array([4_000_000_000, 0, None], pa.int64()),
            "resolved": [True, False, None],
        }
    )
    tables.write_csv(tables.from_arrow(data), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == (
        b'run,loss,tokens,resolved\n"smelt, looped",0.3333333333,4000000000,true\n"a ""b""",1e-12,0,false\n,,,\n'
    )


def test_jobs_that_need_no_table_load_no_pandas():
    modules = ["smelt.training.train", "smelt.corpus.contexts.shard", "smelt.corpus.sources.fetch"]
    code = f"import importlib, sys\nfor name in {modules}:\n    importlib.import_module(name)\n"
    code += "    assert 'pandas' not in sys.modules, name"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_first_rows_point_at_the_first_of_equal_rows():
    data = tables.from_arrow(pa.table({"a": ["x", "y", "x", None, None], "b": [1, 1, 1, 2, 2]}))
    assert tables.first_rows(data, ["a", "b"]).tolist() == [0, 1, 0, 3, 3]
    assert tables.first_rows(data, ["b"]).tolist() == [0, 0, 0, 3, 3]
