"""Endpoints of one's own: what a file may say, what is made of it, and every mistake as one line."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.scaling.endpoints import user_table
from smelt.scaling.endpoints.table import ENDPOINTS, check_endpoints
from smelt.tables import from_rows
from tests.scaling.published import endpoint_rows

NEEDED = ("architecture", "cell", "flops_per_token", "tokens", "S", "loss")
ROWS = [row | {"cell": f"{row['scale']}-{row['sparsity']}"} for row in endpoint_rows()]


def text(rows: Sequence[Mapping[str, Any]] = ROWS, columns: Sequence[str] = NEEDED) -> str:
    """A CSV file of some rows and columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def changed(row: int, **values: Any) -> list[dict[str, Any]]:
    """The rows with some values of one of them, counted as a spreadsheet does, changed."""
    return [{**old, **values} if index + 2 == row else old for index, old in enumerate(ROWS)]


def read(folder: Path, content: str | bytes, name: str = "mine.csv", **options: Any) -> user_table.EndpointTable:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return user_table.read(path, **options)


def test_a_row_holds_what_the_file_says_and_what_follows_from_it(tmp_path: Path) -> None:
    given = read(tmp_path, text())
    assert given.s_convention == "given"
    assert given.sparsity_values == {"S85": 0.85, "S95": 0.95, "S97": 0.97}
    check_endpoints(from_rows(given.rows, ENDPOINTS), "mine.csv")
    for row, source in zip(given.rows, ROWS, strict=True):
        for name in ("architecture", "scale", "sparsity", "seed", "tokens", "flops_per_token", "training_flops", "S"):
            assert row[name] == source[name]
        assert row["loss"] == source["loss"]
    assert [row["branch_step"] for row in given.rows[:7]] == [1, 2, 3, 4, 5, 6, 1]  # the order of D
    assert {row["source"] for row in given.rows} == {"own endpoints"}
    assert given.rows[0]["S_nominal"] == 0.85
    assert given.rows[0]["S_own"] is given.rows[0]["params"] is given.rows[0]["visits"] is None


def test_the_command_writes_the_table_of_endpoints(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(text())
    out = tmp_path / "endpoints.parquet"
    argv = ["--spec", "{}", "--table", str(tmp_path / "mine.csv"), "--out", str(out)]
    user_table.main(argv)
    first = out.read_bytes()
    user_table.main(argv)
    assert out.read_bytes() == first
    assert pq.read_schema(out).names == ENDPOINTS.names
    assert list(read_provenance(out)["inputs"]) == ["mine.csv"]


def test_parquet_says_the_same_and_counts_its_rows_from_1(tmp_path: Path) -> None:
    def write(rows: Sequence[Mapping[str, Any]]) -> Path:
        pq.write_table(
            pa.Table.from_pylist([{key: row[key] for key in NEEDED} for row in rows]), tmp_path / "m.parquet"
        )
        return tmp_path / "m.parquet"

    assert user_table.read(write(ROWS)) == read(tmp_path, text())
    with pytest.raises(UserError, match=r"m\.parquet: row 3 \(counted from 1\), column loss: nan; expected a positive"):
        user_table.read(write(changed(4, loss=float("nan"))))


def test_a_byte_order_mark_blanks_and_empty_lines_at_the_end_do_no_harm(tmp_path: Path) -> None:
    content = "\ufeff" + text().replace(",", " , ").replace("\n", "\r\n") + "\r\n,,,,,\r\n"
    assert read(tmp_path, content) == read(tmp_path, text())


def test_active_params_alone_mean_six_flops_each_and_every_row_says_so(tmp_path: Path) -> None:
    rows = [row | {"active_params": round(row["flops_per_token"] / 6)} for row in ROWS]
    given = read(tmp_path, text(rows, [*NEEDED[:2], "active_params", *NEEDED[3:], "source"]))
    assert given.rows[0]["flops_per_token"] == pytest.approx(ROWS[0]["flops_per_token"])
    assert {row["source"] for row in given.rows} == {"trained; F = 6 FLOPs per active parameter and token"}
    both = read(tmp_path, text(rows, [*NEEDED, "active_params"]))
    assert both.rows[0]["active_params"] == round(ROWS[0]["flops_per_token"] / 6)
    assert both.rows[0]["source"] == "own endpoints"


def one(**changes: Any) -> list[dict[str, Any]]:
    return [row | changes for row in ROWS if row["architecture"] == "smelt"]


def test_with_one_architecture_every_f_and_s_is_a_cell(tmp_path: Path) -> None:
    columns = [name for name in NEEDED if name != "cell"]
    given = read(tmp_path, text(one(), columns))
    cells = {(row["scale"], row["sparsity"]) for row in given.rows}
    assert len(cells) == 12
    assert ("6.48e8", "S85") in cells  # labels of groups of S, by their means
    assert set(given.sparsity_values) == {"S85", "S95", "S97"}
    assert given.sparsity_values["S85"] == pytest.approx(0.85276, abs=1e-5)
    same_size = [row | {"flops_per_token": 1e9, "tokens": row["tokens"]} for row in one()]
    assert len({(row["scale"], row["sparsity"]) for row in read(tmp_path, text(same_size, columns)).rows}) == 12


def test_without_s_it_is_0_everywhere(tmp_path: Path) -> None:
    given = read(tmp_path, text(one(), ["architecture", "flops_per_token", "tokens", "loss"]))
    assert given.s_convention == "none"
    assert given.sparsity_values == {"S0": 0.0}
    assert {(row["S"], row["sparsity"]) for row in given.rows} == {(0.0, "S0")}


def test_the_columns_of_a_convention_and_the_labels_as_the_nominal_one(tmp_path: Path) -> None:
    rows = [row | {"S_own": row["S"] + 0.001, "S_baseline": row["S"]} for row in ROWS]
    columns = ["S_own" if name == "S" else name for name in NEEDED] + ["S_baseline"]
    assert read(tmp_path, text(rows, columns), convention="own").rows[0]["S"] == rows[0]["S"] + 0.001
    assert read(tmp_path, text(rows, columns)).s_convention == "baseline"
    without = [name for name in NEEDED if name != "S"]
    nominal = read(tmp_path, text(ROWS, without), convention="nominal")
    assert (nominal.s_convention, nominal.rows[0]["S"]) == ("nominal", 0.85)
    with pytest.raises(
        UserError, match=r"column 'S' is missing, and the labels name sparsities; .*s_convention: nominal"
    ):
        read(tmp_path, text(ROWS, without))


@pytest.mark.parametrize(
    ("sparsities", "labels"),
    [
        ([0.0, 0.85, 0.868, 0.95], ["S0", "S86", "S86", "S95"]),
        ([0.8, 0.9959, 0.998], ["S80.0", "S99.6", "S99.8"]),  # never S100
        ([0.004, 0.8], ["S0.4", "S80.0"]),  # S0 is the control
        ([0.5], ["S50"]),
    ],
)
def test_groups_of_sparsities(sparsities: list[float], labels: list[str]) -> None:
    found, values = user_table.clustered(sparsities)
    assert found == labels
    assert list(values) == sorted(set(labels))
    assert user_table.clustered(sparsities[::-1])[0] == labels[::-1]


def test_labels_of_any_form_stand_for_their_mean(tmp_path: Path) -> None:
    names = {"S85": "low", "S95": "middle", "S97": "high"}
    rows = [row | {"sparsity": names[row["sparsity"]], "cell": row["scale"] + names[row["sparsity"]]} for row in ROWS]
    given = read(tmp_path, text(rows, [*NEEDED, "sparsity"]))
    assert given.sparsity_values["low"] == pytest.approx(0.8500, abs=1e-3)
    assert given.rows[0]["scale"] == "100Mlow"
    assert given.rows[0]["S_nominal"] is None


MISTAKES = [
    # the columns
    (text(ROWS, ["architecture", *NEEDED[2:]]), "the column 'cell' is missing; with several architectures (baseline, "),
    (text(ROWS, NEEDED[1:]), "the column 'architecture' is missing, the name of the kind of model, one"),
    (
        text(ROWS, NEEDED[:-1]),
        "the column 'loss' is missing, the held-out loss in nats per token; the file has architecture, cell",
    ),
    (text(ROWS, [*NEEDED[:3], *NEEDED[4:]]), "the column 'tokens' is missing"),
    (text(ROWS, [*NEEDED[:2], *NEEDED[3:]]), "the column 'flops_per_token' is missing; give it, or 'params'"),
    (text().replace("tokens", "tokns", 1), "unknown column 'tokns'; did you mean 'tokens'?"),
    (text().replace("flops_per_token", "F", 1), "unknown column 'F'; did you mean 'flops_per_token'?"),
    (text().replace("cell", "zzz", 1), "unknown column 'zzz'; known are architecture, flops_per_token, params"),
    (text().replace("cell", "loss", 1), "column 'loss' appears twice"),
    (text(ROWS, [*NEEDED, "scale"]), "both columns 'cell' and 'scale'; give one of them"),
    (text().replace(",", ";"), "its columns are separated by semicolons; separate them by commas"),
    # the file
    ("", "empty; the first row names the columns"),
    ("\n\n", "empty; the first row names the columns"),
    (",".join(NEEDED) + "\n", "no row; it needs one for each endpoint"),
    (text().encode() + b"\xff", "is no UTF-8 text; save the file as CSV in UTF-8"),
    (text() + '"smelt', "no readable CSV"),
    (text() + "smelt,100M-S85,1e9\n", "row 146 (the header is row 1) has 3 cells and the header 6"),
    # single values
    *(
        (text(changed(4, **{name: value})), f"row 4 (the header is row 1), column {name}: {words}")
        for name, value, words in [
            ("loss", "", "empty; expected a positive number"),
            ("loss", 0, "0; expected a positive number"),
            ("loss", -1.5, "-1.5; expected a positive number"),
            ("loss", "nan", "nan; expected a positive number"),
            ("loss", "inf", "inf; expected a positive number"),
            ("loss", "2,5", "'2,5' is no number; expected a positive number (a decimal point, no separator"),
            ("loss", "low", "'low' is no number"),
            ("loss", 24.5, "24.5; this looks like a perplexity: write its logarithm"),
            ("tokens", -1, "-1; expected a positive number"),
            ("tokens", "20.5B", "'20.5B' is no number; expected a positive number: write 20.5e9"),
            ("tokens", "300 m", "'300 m' is no number; expected a positive number: write 300e6"),
            ("tokens", 20.5, "20.5; tokens are counted one by one, and this looks like billions: write 20.5e9"),
            ("flops_per_token", 0, "0; expected a positive number"),
            ("flops_per_token", 0.63, "0.63; FLOPs are counted one by one, and this looks like billions: write 0.63e9"),
            ("flops_per_token", 1e20, "1e+20; these are surely the FLOPs of the whole training: divide them"),
            ("flops_per_token", 20500, "20500 beside 1.03185e+10 in row 140; one of them is surely in another unit"),
            ("S", 1, "1; expected a sparsity in [0, 1)"),
            ("S", -0.1, "-0.1; expected a sparsity in [0, 1)"),
            ("S", 85, "85; expected a sparsity in [0, 1): a share, as 0.85"),
            ("S", "", "empty; expected a sparsity in [0, 1)"),
            ("architecture", "", "empty; expected a name"),
            ("cell", " ", "empty; expected a name"),
        ]
    ),
    (text(ROWS + ROWS[:1]), "row 146 (the header is row 1) repeats row 2 (the same architecture, cell, flops"),
    (text(changed(4, tokens=ROWS[1]["tokens"])), "row 4 (the header is row 1) repeats row 3"),
    (text(changed(4, cell="100M-S95")), "row 4 (the header is row 1), column cell: 'S95' says 0.95, but S is"),
    (text([row | {"S": 0.5} for row in ROWS]), "row 2 (the header is row 1), column cell: 'S85' says 0.85, but S is"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_names_the_file_the_row_and_the_column(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'mine.csv'}: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"params": 1.3},
            "column params: 1.3; parameters are counted one by one, and this looks like billions: write 1.3e9",
        ),
        ({"seed": 0.5}, "column seed: 0.5; expected a whole number of at least 0"),
        ({"branch_step": 3}, "repeats row 2 (the same architecture, cell, branch_step)"),
        ({"visits": 0}, "column visits: 0; expected a whole number of at least 1"),
        ({"expansion": 0.5}, "column expansion: 0.5; expected a number of at least 1"),
        ({"active_params": 10, "looped_params": 20}, "column looped_params: 20, more than the 10 active_params"),
    ],
)
def test_a_mistake_in_what_may_be_left_out(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text([row | columns for row in ROWS], [*NEEDED, *columns]))
    assert words in str(error.value)


def test_a_cell_has_one_sparsity(tmp_path: Path) -> None:
    rows = [row | {"cell": row["scale"]} for row in ROWS]
    with pytest.raises(
        UserError, match=r"column cell: '100M' holds the sparsities S8\d \(row 2\) and S9\d; a cell has"
    ):
        read(tmp_path, text(rows))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.csv", "no such file; the path is taken from the folder of the study file"),
        ("mine.txt", "a .csv or .parq"),
    ],
)
def test_no_such_file(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        user_table.read(tmp_path / name)


def test_what_is_a_folder_or_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match=r"folder\.csv: cannot be read: Is a directory"):
        user_table.read(tmp_path / "folder.csv")
    with pytest.raises(UserError, match=r"mine\.parquet: no readable Parquet file"):
        read(tmp_path, text(), name="mine.parquet")


def test_controls_below_zero_and_unknown_values(tmp_path: Path) -> None:
    """Eq. 1 with another architecture's control can put a looped control below zero; what is unknown is left empty."""
    rows = changed(2, sparsity="S0", S=-0.09, S_baseline="", visits="")
    given = read(tmp_path, text(rows, ["architecture", "scale", "sparsity", *NEEDED[2:], "S_baseline", "visits"]))
    assert (given.rows[0]["S"], given.rows[0]["S_baseline"], given.rows[0]["visits"]) == (-0.09, None, None)
    assert json.dumps(given.sparsity_values["S0"]) == "0.0"
