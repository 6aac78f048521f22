"""Losses become endpoints: means, tokens, and the checks of what cannot be compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.scaling.ablations import learning_rate
from smelt.scaling.endpoints import breakdown, collect
from smelt.scaling.endpoints.table import ENDPOINTS, check_endpoints, read_points
from smelt.scaling.settings import Settings
from smelt.tables import from_rows
from tests.scaling.published import SPEC, endpoint_rows, write_endpoints, write_losses

COLUMNS: dict[str, list[Any]] = {
    "document": ["d1", "d2", "d3"],
    "source": ["long", "long", "short"],
    "tokens": [300, 100, 10],
    "loss": [600.0, 280.0, 50.0],
}


def run(**changes: Any) -> dict[str, Any]:
    return {
        "run": "smelt-H64-S95",
        "architecture": "smelt",
        "scale": "H64",
        "sparsity": "S95",
        "seed": 0,
        "flops_per_token": 2.5e6,
        "params": 1000,
        "kv_bytes_per_token": 512,
        "S": 0.951,
        "S_own": None,
        "S_baseline": 0.951,
        "S_nominal": 0.95,
        "batch_contexts": 2,
        "decay_steps": 4,
        "active_params": 400,
        "looped_params": 150,
        "visits": 2,
        "expansion": 12.5,
        "branch_steps": [],
    } | changes


def collected(folder: Path, runs: Sequence[dict[str, Any]], files: Sequence[Path]) -> list[dict[str, Any]]:
    out = folder / "endpoints.parquet"
    text = json.dumps({"context": 4096, "s_convention": "baseline", "runs": list(runs)})
    collect.main(["--spec", text, "--losses", *map(str, files), "--out", str(out)])
    return pq.read_table(out).to_pylist()


def test_row_of_an_endpoint(tmp_path: Path) -> None:
    losses = write_losses(
        tmp_path / "losses.parquet", "smelt-H64-S95", {10: COLUMNS, 25: COLUMNS | {"loss": [300.0, 140.0, 25.0]}}
    )
    rows = collected(tmp_path, [run()], [losses])
    assert [row["branch_step"] for row in rows] == [10, 25]
    first = rows[0]
    assert first["tokens"] == (10 + 4) * 2 * 4096
    assert first["training_flops"] == 2.5e6 * first["tokens"]
    assert first["loss"] == pytest.approx((880 / 400 + 5) / 2)  # source by source
    assert first["loss_token_mean"] == pytest.approx(930 / 410)
    assert rows[1]["loss"] == pytest.approx(first["loss"] / 2)
    assert (first["source"], first["S"], first["params"]) == ("trained", 0.951, 1000)
    assert (first["S_own"], first["S_baseline"], first["S_nominal"]) == (None, 0.951, 0.95)
    assert (first["active_params"], first["looped_params"], first["visits"], first["expansion"]) == (400, 150, 2, 12.5)
    assert pq.read_schema(tmp_path / "endpoints.parquet").names == ENDPOINTS.names


def test_bytes_are_the_same_and_carry_their_origin(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", "smelt-H64-S95", {10: COLUMNS})
    collected(tmp_path, [run()], [losses])
    first = (tmp_path / "endpoints.parquet").read_bytes()
    collected(tmp_path, [run()], [losses])
    assert (tmp_path / "endpoints.parquet").read_bytes() == first
    origin = read_provenance(tmp_path / "endpoints.parquet")
    assert origin["module"] == "smelt.scaling.endpoints.collect"
    assert origin["spec"]["runs"][0]["run"] == "smelt-H64-S95"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": [300, 100, 11]}, "covers other text"),
        ({"document": ["d1", "d2", "d4"]}, "source short, document d"),
        ({"source": ["long", "short", "short"]}, "covers other text"),
        ({"loss": [600.0, float("nan"), 50.0]}, "row 5, column loss"),
        ({"loss": [600.0, -1.0, 50.0]}, "row 5, column loss"),
        ({"tokens": [300, 0, 10]}, "row 5, column tokens"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    losses = write_losses(tmp_path / "losses.parquet", "smelt-H64-S95", {10: COLUMNS, 25: COLUMNS | change})
    with pytest.raises(UserError, match=words):
        collected(tmp_path, [run()], [losses])
    assert not (tmp_path / "endpoints.parquet").exists()


def test_a_document_that_stands_there_twice(tmp_path: Path) -> None:
    twice = COLUMNS | {"document": ["d1", "d1", "d3"], "tokens": [100, 100, 10]}
    with pytest.raises(UserError, match="document d1, piece 0 appears twice"):
        collected(tmp_path, [run()], [write_losses(tmp_path / "losses.parquet", "smelt-H64-S95", {10: twice})])


def test_other_text_in_another_run(tmp_path: Path) -> None:
    one = write_losses(tmp_path / "a" / "losses.parquet", "smelt-H64-S95", {10: COLUMNS})
    fewer = {key: values[:2] for key, values in COLUMNS.items()}
    other = write_losses(tmp_path / "b" / "losses.parquet", "smelt-H32-S95", {10: fewer})
    with pytest.raises(UserError, match=r"b/losses\.parquet, branch at step 10: covers other text than"):
        collected(tmp_path, [run(), run(run="smelt-H32-S95", scale="H32")], [one, other])


def swapped(folder: Path) -> tuple[list[dict[str, Any]], list[Path]]:
    """Two runs and their files in the wrong order."""
    runs = [run(run="baseline-H16-S85", architecture="baseline"), run(run="smelt-H16-S85")]
    files = [write_losses(folder / one["run"] / "losses.parquet", one["run"], {10: COLUMNS}) for one in runs]
    assert len(collected(folder, runs, files)) == 2
    return runs, files[::-1]


SWAPPED = (
    r"smelt-H16-S85/losses\.parquet holds run smelt-H16-S85, expected baseline-H16-S85; "
    r".*baseline-H16-S85/losses\.parquet holds run baseline-H16-S85, expected smelt-H16-S85; give the files"
)


def test_two_files_that_are_swapped_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=SWAPPED):
        collected(tmp_path, *swapped(tmp_path))


def test_swapped_files_are_an_error_of_the_breakdown_and_of_the_learning_rates_too(tmp_path: Path) -> None:
    runs, files = swapped(tmp_path)
    endpoints = {"context": 4096, "s_convention": "baseline", "runs": runs}
    losses = ["--losses", *map(str, files)]
    outs = ["--sources", str(tmp_path / "sources"), "--lengths", str(tmp_path / "lengths")]
    with pytest.raises(UserError, match=SWAPPED):
        breakdown.main(["--spec", json.dumps(endpoints), *losses, *outs])
    rates = {"reference": "baseline", "rates": [0.01, 0.01], "endpoints": endpoints}
    with pytest.raises(UserError, match=SWAPPED):
        learning_rate.main(["--spec", json.dumps(rates), *losses, "--out", str(tmp_path / "rates")])


def test_a_file_holds_one_run_and_says_which(tmp_path: Path) -> None:
    path = write_losses(tmp_path / "losses.parquet", "smelt-H64-S95", {10: COLUMNS, 25: COLUMNS})
    data = pq.read_table(path)
    pq.write_table(data.drop_columns("run"), path)
    with pytest.raises(UserError, match=r"no column 'run'.*; evaluate run smelt-H64-S95 again"):
        collected(tmp_path, [run()], [path])
    mixed = pa.array(["smelt-H64-S95"] * 3 + ["smelt-H32-S95"] * 3)
    pq.write_table(data.set_column(0, "run", mixed), path)
    with pytest.raises(UserError, match="holds the runs smelt-H64-S95, smelt-H32-S95; expected smelt-H64-S95 alone"):
        collected(tmp_path, [run()], [path])
    pq.write_table(data.slice(0, 0), path)
    with pytest.raises(UserError, match="no losses; evaluate run smelt-H64-S95 again"):
        collected(tmp_path, [run()], [path])


def test_branches_and_runs_are_counted(tmp_path: Path) -> None:
    losses = write_losses(tmp_path / "losses.parquet", "smelt-H64-S95", {10: COLUMNS, 25: COLUMNS})
    with pytest.raises(UserError, match=r"expected 1\.\.3"):
        collected(tmp_path, [run(branch_steps=[10, 20, 25])], [losses])
    with pytest.raises(UserError, match=r"branch steps \[10, 25\]; expected \[10, 20\]"):
        collected(tmp_path, [run(branch_steps=[10, 20])], [losses])
    with pytest.raises(UserError, match="2 runs in the spec but 1 files"):
        collected(tmp_path, [run(), run()], [losses])
    with pytest.raises(UserError, match="row 3 repeats row 1"):
        collected(tmp_path, [run(), run()], [losses, losses])


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("loss", float("nan"), "row 3, column loss: nan"),
        ("loss", 0.0, "row 3, column loss"),
        ("loss", None, "row 3, column loss"),
        ("flops_per_token", -1.0, "row 3, column flops_per_token"),
        ("tokens", 0, "row 3, column tokens"),
        ("S", 1.0, "row 3, column S"),
        ("S", -0.1, "row 3, column S"),
        ("S", float("nan"), "row 3, column S"),
        ("branch_step", 10_000, "row 3 repeats row 1"),
    ],
)
def test_bad_endpoints(tmp_path: Path, column: str, value: Any, words: str) -> None:
    rows = endpoint_rows()
    rows[2] = rows[2] | {column: value}
    path = write_endpoints(tmp_path / "endpoints.parquet", rows)
    with pytest.raises(UserError, match=words):
        read_points(path, Settings(**SPEC))  # type: ignore[arg-type]


def test_a_looped_control_may_lie_below_zero() -> None:
    rows = [row | {"sparsity": "S0", "S": -0.09} for row in endpoint_rows()[:1]]
    check_endpoints(from_rows(rows, ENDPOINTS), "endpoints.parquet")


def test_no_endpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no endpoint"):
        read_points(write_endpoints(tmp_path / "endpoints.parquet", []), Settings(**SPEC))  # type: ignore[arg-type]
