"""Tables: the columns that others rely on, the same rows as CSV and as Parquet."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.reporting import tables
from tests.scaling.published import endpoint_rows, part, run_stage

NAMES = ("ce_gain", "coefficients", "allocation", "endpoints")
FIT = ("E", "A", "K", "a", "b", "c")
RELIED_ON = {
    "ce_gain": "architecture reference budget_flops sparsity gain gain_low gain_high multiplier endpoints draws "
    "s_convention window resolved reason",
    "coefficients": "architecture E A K a b c gamma rmse_nats endpoints objective at_bound "
    + " ".join(f"{name}_{end}" for name in FIT for end in ("low", "high")),
    "allocation": "budget_flops sparsity architecture flops_per_token tokens tpp tpp_low tpp_high window",
    "endpoints": "architecture scale sparsity seed branch_step tokens flops_per_token training_flops S loss "
    "loss_token_mean source params kv_bytes_per_token",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    run_stage(folder / "scaling", endpoint_rows(part(2, 2)), bootstrap_draws=10)
    inputs = [str(folder / "scaling" / f"{name}.parquet") for name in NAMES]
    tables.main(["--artifacts", *inputs, "--csv", *(str(folder / "tables" / f"{name}.csv") for name in NAMES)])
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_columns_and_rows(written: Path, name: str) -> None:
    with open(written / "tables" / f"{name}.csv", newline="") as file:
        header, *lines = list(csv.reader(file))
    relied_on = RELIED_ON[name].split()
    assert header[: len(relied_on)] == relied_on
    beside = pq.read_table(written / "tables" / f"{name}.parquet")
    assert beside.column_names == header
    assert beside.num_rows == len(lines) > 0
    assert beside.equals(pq.read_table(written / "scaling" / f"{name}.parquet"))


def test_an_empty_value_has_a_reason(written: Path) -> None:
    with open(written / "tables" / "ce_gain.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert all(row["gain_low"] == "" and row["reason"] and row["resolved"] == "false" for row in rows)


def test_origin(written: Path) -> None:
    origin = read_provenance(written / "tables" / "ce_gain.parquet")
    assert origin["module"] == "smelt.reporting.tables"
    assert list(origin["inputs"]) == ["ce_gain.parquet"]


def test_names_must_answer_to_one_another(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="in the same order"):
        tables.main(["--artifacts", "a.parquet", "b.parquet", "--csv", "b.csv", "a.csv"])
