"""The gain under other choices: conventions of S, forms of the surface, Huber deltas."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt.scaling.endpoints.table import read_points
from smelt.scaling.fitting.fit import fit_point
from smelt.scaling.gains import sensitivity
from smelt.scaling.settings import Settings
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import SMELT
from tests.scaling.published import SPEC, SURFACES, VALUES, endpoint_rows, part, write_endpoints

# Equation 1 with the Baseline's control, of smelt's cells; what the grid of the tests carries is against its own.
S_BASELINE = {
    ("100M", "S85"): 0.855989,
    ("100M", "S95"): 0.950877,
    ("100M", "S97"): 0.971404,
    ("200M", "S85"): 0.839171,
    ("200M", "S95"): 0.944642,
    ("200M", "S97"): 0.967685,
    ("600M", "S85"): 0.844556,
    ("600M", "S95"): 0.944875,
    ("600M", "S97"): 0.967956,
    ("1.6B", "S85"): 0.843825,
    ("1.6B", "S95"): 0.946688,
    ("1.6B", "S97"): 0.969118,
}
CHANGES = {"s_convention": "own", "compute_budgets": [1e21]}


def with_conventions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The columns of all conventions; the Baseline's own control is the reference's."""
    found = []
    for row in rows:
        other = S_BASELINE[row["scale"], row["sparsity"]] if row["architecture"] == "smelt" else row["S"]
        found.append({**row, "S_own": row["S"], "S_baseline": other})
    return found


def run(folder: Path, rows: Sequence[Mapping[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    endpoints = write_endpoints(folder / "endpoints.parquet", rows)
    text = json.dumps(SPEC | CHANGES | changes)
    sensitivity.main(["--spec", text, "--endpoints", str(endpoints), "--out", str(folder / "sensitivity.parquet")])
    return pq.read_table(folder / "sensitivity.parquet").to_pylist()


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(tmp_path_factory.mktemp("exact"), with_conventions(endpoint_rows()))


def gains(rows: Sequence[Mapping[str, Any]], varied: str, value: str) -> list[float]:
    """Per cent, from dense to sparse."""
    return [100 * row["gain"] for row in rows if (row["varied"], row["value"]) == (varied, value)]


@pytest.mark.parametrize(
    ("value", "expected", "gammas"),
    [
        ("own", (17.94, 15.68, 14.57), (0.2503, 0.2371)),
        ("baseline", (18.27, 16.48, 15.63), (0.2464, 0.2371)),
        ("nominal", (17.93, 15.77, 14.75), (0.2332, 0.2244)),
    ],
)
def test_conventions_of_s(
    exact: list[dict[str, Any]], value: str, expected: tuple[float, ...], gammas: tuple[float, float]
) -> None:
    """The published surfaces at each architecture's own S, both fitted with another S."""
    assert gains(exact, "s_convention", value) == pytest.approx(expected, abs=0.03)
    row = next(row for row in exact if row["value"] == value)
    assert (row["gamma"], row["gamma_reference"]) == pytest.approx(gammas, abs=1e-4)


def test_the_nominal_s_of_one_side_alone(tmp_path: Path) -> None:
    """Most of what another convention does to one surface it does to the other, and cancels in the gain."""
    endpoints = write_endpoints(tmp_path / "endpoints.parquet", with_conventions(endpoint_rows()))
    settings = Settings(**SPEC)  # type: ignore[arg-type]
    points = read_points(endpoints, settings, "S_nominal")
    values, at_bound, _ = fit_point(points["smelt"], settings)
    assert values is not None
    assert at_bound == "none"
    found = []
    for value in VALUES.values():
        mine, other = (SMELT.slice(one, {"active": np.float64(1 - value)}) for one in (values, SURFACES["baseline"]))
        found.append(100 * float(frontier.gain(mine, other, 1e21)))
    assert found == pytest.approx((15.53, 14.80, 14.56), abs=0.03)


def test_the_studys_own_choice_is_among_the_rows(exact: list[dict[str, Any]]) -> None:
    own = [
        gains(exact, *choice) for choice in (("s_convention", "own"), ("surface", "smelt"), ("huber_delta", "0.001"))
    ]
    assert own[0] == own[1] == own[2]
    assert len(own[0]) == 3


def test_huber_deltas_are_one_without_noise(exact: list[dict[str, Any]]) -> None:
    values = [row["value"] for row in exact if row["varied"] == "huber_delta" and row["sparsity"] == "S95"]
    assert values == ["0.0003", "0.001", "0.003", "0.01"]
    for value in values:
        assert gains(exact, "huber_delta", value) == pytest.approx((17.94, 15.68, 14.57), abs=0.03)


def test_a_surface_without_its_columns_says_so(exact: list[dict[str, Any]]) -> None:
    rows = [row for row in exact if (row["varied"], row["value"]) == ("surface", "looped_depth")]
    assert len(rows) == 3
    for row in rows:
        assert row["gain"] is None
        assert row["reason"].startswith("looped_depth of all architectures: the surface looped_depth needs ")


def test_a_convention_that_is_not_known_says_so(tmp_path: Path) -> None:
    rows = [{**row, "S_baseline": None} for row in with_conventions(endpoint_rows(part(3, 2)))]
    found = run(tmp_path, rows, s_convention="own")
    missing = [row for row in found if row["value"] == "baseline"]
    assert [row["gain"] for row in missing] == [None, None]
    assert missing[0]["reason"] == (
        "smelt: the surface smelt needs S_baseline of every endpoint; "
        "baseline: the surface smelt needs S_baseline of every endpoint"
    )


def test_a_surface_that_the_points_do_not_determine(tmp_path: Path) -> None:
    found = run(tmp_path, with_conventions(endpoint_rows(part(1, 2))))
    assert found
    assert all(row["gain"] is None and row["reason"] for row in found)


def test_choices() -> None:
    found = sensitivity.choices(Settings(**(SPEC | {"s_convention": "given", "huber_delta": 0.01})))  # type: ignore[arg-type]
    columns = {one.value: one.s_column for one in found if one.varied == "s_convention"}
    assert columns == {"given": "S", "own": "S_own", "baseline": "S_baseline", "nominal": "S_nominal"}
    assert [one.value for one in found if one.varied == "huber_delta"] == ["0.0003", "0.003", "0.01"]


def test_bytes_are_the_same_twice(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run(tmp_path / folder, with_conventions(endpoint_rows(part(3, 2), noise=0.5)))
    assert (tmp_path / "a/sensitivity.parquet").read_bytes() == (tmp_path / "b/sensitivity.parquet").read_bytes()
