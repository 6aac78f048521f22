"""The table of budgets: its columns, its reasons, its bytes."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from smelt.artifacts import read_provenance, read_table
from smelt.budgets.ledger import fully_active
from smelt.budgets.table import TableSettings, budget_rows, main
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.spec import load

COLUMNS = (
    "architecture scale sparsity hidden_size layers executed_layers heads kv_heads head_size experts expert_width "
    "active_params total_params s_own s_baseline flops_per_token flops_ratio params_ratio kv_bytes_per_token kv_ratio"
).split()
BASELINE = ModelSettings(128256, 12, 1280, 20, 4, 64, 192, 432)
LOOPED = ModelSettings(128256, 12, 1056, 24, 4, 44, 288, 352, loop_start=3, loop_length=6, visits=2)
OWN_CONTROL = dataclasses.replace(LOOPED, experts=16, expert_width=212, shared_width=1200)


def run(architecture: str, model: ModelSettings, control: ModelSettings | None = None) -> dict:
    return {
        "architecture": architecture,
        "scale": "200M",
        "sparsity": "S95",
        "model": dataclasses.asdict(model),
        "control": control and dataclasses.asdict(control),
        "reference_control": dataclasses.asdict(fully_active(BASELINE)),
    }


def spec(*runs: dict) -> dict:
    return {"attention_keys": 392, "reference": "baseline", "runs": list(runs)}


def rows_of(*runs: dict) -> list[dict]:
    rows, _ = budget_rows(load(TableSettings, spec(*runs)))
    return rows


@pytest.fixture
def paper() -> dict:
    return spec(run("baseline", BASELINE), run("smelt", LOOPED, OWN_CONTROL))


def write(folder: Path, settings: dict) -> list[bytes]:
    files = [folder / "budgets.parquet", folder / "budgets.csv", folder / "ledger.parquet"]
    options = zip(("--out-parquet", "--out-csv", "--ledger"), map(str, files), strict=True)
    main(["--spec", json.dumps(settings), *(word for pair in options for word in pair)])
    return [file.read_bytes() for file in files]


def test_the_papers_worked_example(tmp_path: Path, paper: dict) -> None:
    write(tmp_path, paper)
    with (tmp_path / "budgets.csv").open() as file:
        baseline, looped = csv.DictReader(file)
    assert list(baseline)[: len(COLUMNS)] == COLUMNS
    assert (baseline["flops_ratio"], baseline["params_ratio"], baseline["kv_ratio"]) == ("1", "1", "1")
    assert (looped["executed_layers"], looped["total_params"]) == ("18", "3888809760")
    # printed in Appendix A: F 1.029, KV 1.031, S 94.7 % against its own control, 94.46 % by Eq. 1
    assert float(looped["flops_ratio"]) == pytest.approx(1.029, abs=5e-4)
    assert float(looped["kv_ratio"]) == pytest.approx(1.031, abs=5e-4)
    assert float(looped["s_own"]) == pytest.approx(0.947, abs=5e-4)
    assert float(looped["s_baseline"]) == pytest.approx(0.9446, abs=5e-5)
    assert baseline["s_own"] == baseline["s_baseline"]
    assert looped["reason"] == ""


def test_ledger_adds_up_to_the_table(tmp_path: Path, paper: dict) -> None:
    write(tmp_path, paper)
    rows = read_table(tmp_path / "budgets.parquet").to_pylist()
    ledger = read_table(tmp_path / "ledger.parquet").to_pylist()
    for row in rows:
        parts = [part for part in ledger if part["architecture"] == row["architecture"]]
        counted = [part for part in parts if part["counted"]]
        assert sum(part["training_flops"] for part in counted) == row["flops_per_token"]
        assert sum(part["params"] for part in counted) == row["total_params"]
        assert sum(part["kv_bytes"] for part in parts) == row["kv_bytes_per_token"]
    assert read_provenance(tmp_path / "ledger.parquet")["spec"]["attention_keys"] == 392


def test_same_bytes_twice(tmp_path: Path, paper: dict) -> None:
    assert write(tmp_path / "a", paper) == write(tmp_path / "b", paper)


def test_missing_values_have_reasons() -> None:
    rows = rows_of(run("smelt", LOOPED))
    assert rows[0]["s_own"] is None
    assert rows[0]["flops_ratio"] is None
    assert "no S = 0 configuration of this architecture is named" in rows[0]["reason"]
    assert "baseline has no run at this cell" in rows[0]["reason"]
    alone = run("baseline", BASELINE) | {"reference_control": None}
    rows = rows_of(alone)
    assert rows[0]["s_baseline"] is None
    assert "s_baseline" in rows[0]["reason"]


def test_bad_specs() -> None:
    with pytest.raises(UserError, match="listed twice"):
        rows_of(run("smelt", LOOPED), run("smelt", LOOPED))
    with pytest.raises(UserError, match="unknown setting 'colour'"):
        rows_of(run("smelt", LOOPED) | {"colour": "red"})
