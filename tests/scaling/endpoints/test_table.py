"""Which endpoints the stage fits."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.errors import UserError
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.settings import Settings
from smelt.surfaces.points import joined
from tests.scaling.published import SPEC, endpoint_rows, write_endpoints

ROOT = Path(__file__).parents[3]


def read(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return dict(read_points(write_endpoints(folder / "endpoints.parquet", rows), Settings(**(SPEC | changes))))


def test_controls_and_early_branches_stay_out(tmp_path: Path) -> None:
    rows = endpoint_rows()
    rows += [row | {"sparsity": "S0", "S": 0.0} for row in rows if row["sparsity"] == "S85"]
    points = read(tmp_path, rows, skip_branches=2)
    assert list(points) == ["baseline", "smelt"]
    for one in points.values():
        assert one.loss.size == 12 * 4
        assert set(one.sparsity) == {"S85", "S95", "S97"}
        assert one.tokens.min() > 5e10


def test_the_control_is_fitted_where_it_is_all_there_is(tmp_path: Path) -> None:
    rows = [row | {"sparsity": "S0", "S": 0.0} for row in endpoint_rows() if row["sparsity"] == "S85"]
    points = read(tmp_path, rows, sparsity_values={"S0": 0.0})
    assert points["smelt"].loss.size == 24
    assert set(points["smelt"].active) == {1.0}


def test_variables_are_those_that_no_endpoint_lacks(tmp_path: Path) -> None:
    rows = [row | {"visits": 2, "S_own": 0.9 if row["architecture"] == "smelt" else None} for row in endpoint_rows()]
    rows[0]["visits"] = None
    points = read(tmp_path, rows)
    assert set(points["smelt"].variables) == {"active", "flops", "tokens", "params", "visits"}
    assert set(points["baseline"].variables) == {"active", "flops", "tokens", "params"}
    together = joined(points)
    assert set(together.variables) == {"active", "flops", "tokens", "params"}
    assert (together.architecture, together.loss.size) == ("all", 144)
    assert list(together.names) == ["baseline"] * 72 + ["smelt"] * 72
    assert np.array_equal(together.flops[72:], points["smelt"].flops)
    other = read_points(tmp_path / "endpoints.parquet", Settings(**SPEC), "S_own")
    assert "active" not in other["baseline"].variables
    assert other["smelt"].active == pytest.approx(0.1)


def test_reference_comes_first(tmp_path: Path) -> None:
    assert list(read(tmp_path, endpoint_rows(), reference="smelt")) == ["smelt", "baseline"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fit_sparsities": ("S90",)}, "no 'S90'"),
        ({"sparsity_values": {"S85": 0.85}}, "'S95' has no value"),
        ({"skip_branches": 6}, "no endpoint is left"),
        ({"reference": "dense"}, "reference architecture 'dense'"),
    ],
)
def test_what_cannot_be_fitted(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(tmp_path, endpoint_rows(), **changes)


def dense_and_sparse(sparsities: dict[str, str]) -> list[dict[str, Any]]:
    """The baseline dense, smelt at S85, with these labels of their sparsity."""
    return [
        row | {"sparsity": sparsities[row["architecture"]], "S": 0.0 if row["architecture"] == "baseline" else row["S"]}
        for row in endpoint_rows()
        if row["sparsity"] == "S85"
    ]


def test_a_dense_reference_is_paired_by_a_common_label(tmp_path: Path) -> None:
    """Where it has the label S0 it is not fitted by default, and the error says what to set."""
    values = {"S0": 0.0, "S85": 0.85, "paired": 0.4}
    apart, paired = (
        dense_and_sparse(labels)
        for labels in ({"baseline": "S0", "smelt": "S85"}, {"baseline": "paired", "smelt": "paired"})
    )
    with pytest.raises(
        UserError, match=r"'baseline' are at S0, .* such as paired; or set .*fit_sparsities: \[S0, S85\]"
    ):
        read(tmp_path, apart, sparsity_values=values)
    assert list(read(tmp_path, apart, sparsity_values=values, fit_sparsities=("S0", "S85"))) == ["baseline", "smelt"]
    found = read(tmp_path, paired, sparsity_values=values)
    assert set(found["baseline"].cells) == set(found["smelt"].cells)
    elsewhere = [row for row in endpoint_rows() if row["architecture"] == "smelt" or row["sparsity"] == "S95"]
    with pytest.raises(UserError, match=r"'baseline' is left to fit; all are at S95: extend scaling\.fit_sparsities"):
        read(tmp_path, elsewhere, fit_sparsities=("S85",))


def test_nothing_here_loads_torch() -> None:
    modules = "smelt.scaling.endpoints.collect, smelt.scaling.endpoints.user_table, smelt.scaling.endpoints.simulate"
    modules += ", smelt.scaling.fitting.fit, smelt.scaling.gains.gain"
    modules += ", smelt.reporting.tables, smelt.reporting.figures.scaling.draw, smelt.reporting.figures.training_curves"
    code = f"import sys, {modules}; sys.exit(bool({{'torch', 'snakemake'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
