"""People's tables: cells as they wrote them, rows as a spreadsheet counts, columns that are unknown or repeated."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt.errors import UserError
from smelt.user_files.table import check_columns, read_table_file


def written(folder, content):
    path = folder / "mine.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_cells_are_texts_empty_ones_are_none_and_rows_count_from_the_header(tmp_path):
    table = read_table_file(written(tmp_path, "\ufeffa, b\n 1 ,\n2,x\n,\n"))
    assert table.columns == ["a", "b"]
    assert (table.cells("a"), table.cells("b")) == (["1", "2"], [None, "x"])
    assert table.place(1, "b") == f"{tmp_path}/mine.csv: row 3 (the header is row 1), column b"


def test_values_of_a_parquet_file_keep_their_types_and_rows_count_from_one(tmp_path):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"a": [1, None], "b": [0.1, 2.0], "c": [True, None]}), path)
    table = read_table_file(path)
    assert (table.cells("a"), table.cells("b"), table.cells("c")) == ([1, None], [0.1, 2.0], [True, None])
    assert table.place(0) == f"{path}: row 1 (counted from 1)"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("los,tokens\n1,2\n", "unknown column 'los'; did you mean 'loss'?"),
        ("L,tokens\n1,2\n", "unknown column 'L'; did you mean 'loss'?"),
        ("zzz,tokens\n1,2\n", "unknown column 'zzz'; known are loss, tokens"),
        ("loss,loss\n1,2\n", "column 'loss' appears twice; keep one of them"),
    ],
)
def test_columns_are_known_and_appear_once(tmp_path, content, message):
    with pytest.raises(UserError) as error:
        check_columns(read_table_file(written(tmp_path, content)), ["loss", "tokens"], {"l": "loss"})
    assert str(error.value) == f"{tmp_path}/mine.csv: {message}"
