"""Simulated endpoints: on the surfaces, with noise as asked for, and the published study from end to end."""

import csv
import dataclasses
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt.errors import UserError
from smelt.scaling.endpoints import simulate, user_table
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.settings import Settings
from smelt.spec import canonical_json, load, plain
from smelt.study import load as studies
from smelt.workflow import scaling_specs
from tests.scaling.published import RMSE, SURFACES, surface_loss

CONFIG = studies.CONFIG
ENDPOINTS = CONFIG / "published/endpoints.csv"
RECONSTRUCTED = Path(__file__).parents[2] / "data/paper/endpoints.csv"
# Gains of the printed coefficients at 1e20, 1e21 and 1e22 FLOPs and S85, S95 and S97, %.
GAINS = [9.86, 7.70, 6.66, 17.94, 15.68, 14.57, 23.37, 20.76, 19.48]


@pytest.fixture(scope="module")
def published() -> Any:
    return studies.read(studies.find("published"))


@pytest.fixture(scope="module")
def settings(published: Any) -> simulate.Settings:
    return published.simulation


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return user_table.read(ENDPOINTS, "own", losses=False).rows


def residuals(rows: list[dict[str, Any]], settings: simulate.Settings, **changes: Any) -> dict[str, np.ndarray]:
    """Loss less that without noise by architecture, (cells, branches), in units of the rmse."""
    noisy = simulate.simulate(rows, dataclasses.replace(settings, **changes))
    differences = [a["loss"] - b["loss"] for a, b in zip(noisy, simulate.simulate(rows, settings), strict=True)]
    by_name = {
        name: [value for value, row in zip(differences, rows, strict=True) if row["architecture"] == name]
        for name in RMSE
    }
    return {name: np.array(values).reshape(-1, 6) / RMSE[name] for name, values in by_name.items()}


def test_without_noise_the_endpoints_lie_on_the_surfaces(rows: list[dict[str, Any]], settings: Any) -> None:
    found = simulate.simulate(rows, settings)
    assert len(found) == 144
    for row in found:
        expected = surface_loss(SURFACES[row["architecture"]], row["flops_per_token"], row["S"], row["tokens"])
        assert row["loss"] == pytest.approx(expected, rel=1e-12)
        assert row["source"] == "simulated from the published surfaces"


def test_the_noise_is_that_of_the_rmse_and_of_the_seed(rows: list[dict[str, Any]], settings: Any) -> None:
    one = residuals(rows, settings, noise=1.0)
    for name in RMSE:
        assert 0.8 < one[name].std() < 1.2
        assert residuals(rows, settings, noise=2.0)[name] == pytest.approx(2 * one[name], abs=1e-9)
        assert np.array_equal(residuals(rows, settings, noise=1.0)[name], one[name])
        assert not np.allclose(residuals(rows, settings, noise=1.0, seed=1)[name], one[name])
    assert abs(np.corrcoef(one["baseline"].ravel(), one["smelt"].ravel())[0, 1]) < 0.3


def test_correlated_noise_is_common_to_a_cell_of_an_architecture(rows: list[dict[str, Any]], settings: Any) -> None:
    common = residuals(rows, settings, noise=1.0, correlation=1.0)
    for values in common.values():
        assert values == pytest.approx(np.repeat(values[:, :1], 6, axis=1), abs=1e-9)
        assert values[:, 0].std() > 0.5
    assert not np.allclose(common["baseline"], common["smelt"])
    half = residuals(rows, settings, noise=1.0, correlation=0.5)["baseline"]
    assert 0.1 < half.mean(axis=1).var() < 1.2


def test_noise_can_be_common_to_a_scale_of_an_architecture(rows: list[dict[str, Any]], settings: Any) -> None:
    common = residuals(rows, settings, noise=1.0, scale_correlation=1.0)
    for values in common.values():
        by_scale = values.reshape(4, 18)
        assert by_scale == pytest.approx(np.repeat(by_scale[:, :1], 18, axis=1), abs=1e-9)
        assert by_scale[:, 0].std() > 0.2
    assert not np.allclose(common["baseline"], common["smelt"])
    both = residuals(rows, settings, noise=1.0, correlation=0.3, scale_correlation=0.7)["smelt"]
    assert both == pytest.approx(np.repeat(both[:, :1], 6, axis=1), abs=1e-9)
    cells = residuals(rows, settings, noise=1.0, correlation=1.0)["smelt"]
    assert both == pytest.approx(np.sqrt(0.3) * cells + np.sqrt(0.7) * common["smelt"], abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"surfaces": {"baseline": {}}}, "nothing for the architecture 'smelt' of the table; known are baseline"),
        ({"noise": 1.0, "without": "rmse"}, r"surfaces\.baseline\.rmse: missing; the noise is a multiple of it"),
        (
            {"noise": 1.0, "correlation": 0.6, "scale_correlation": 0.5},
            r"correlation 0\.6 and scale_correlation 0\.5 are shares of one variance and exceed 1 together; lower one",
        ),
        ({"noise": 1e4}, r"simulation\.noise: 10000\.0 makes a loss of -"),
    ],
)
def test_what_cannot_be_simulated(rows: Any, settings: Any, changes: dict[str, Any], words: str) -> None:
    surfaces = settings.surfaces
    if left_out := changes.pop("without", None):
        changes["surfaces"] = {
            name: {k: v for k, v in values.items() if k != left_out} for name, values in surfaces.items()
        }
    elif "surfaces" in changes:
        changes["surfaces"] = {"baseline": surfaces["baseline"]}
    with pytest.raises(UserError, match=words):
        simulate.simulate(rows, dataclasses.replace(settings, **changes))


def test_a_table_to_simulate_has_no_losses(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("architecture,flops_per_token,tokens,loss\nbaseline,1e9,1e10,2.5\n")
    with pytest.raises(UserError, match="losses are simulated here, and it has a column 'loss'"):
        user_table.read(tmp_path / "mine.csv", losses=False)


def test_the_files_of_the_studies_are_what_their_scripts_write(tmp_path: Path) -> None:
    for folder in ("published", "examples"):
        made = tmp_path / f"{folder}.csv"
        runpy.run_path(str(CONFIG / folder / "make_endpoints.py"))["main"](made)
        assert made.read_text() == (CONFIG / folder / "endpoints.csv").read_text()


def test_the_published_endpoints_are_those_reconstructed_elsewhere(published: Any) -> None:
    with RECONSTRUCTED.open(encoding="utf-8") as file:
        others = [row for row in csv.DictReader(file) if row["in_fit"] == "1"]
    mine = {
        (row["architecture"], row["scale"], row["sparsity"], row["branch_step"]): row for row in published.given.rows
    }
    assert len(others) == len(mine) == 144
    for other in others:
        name = {"base": "baseline"}.get(other["arch"], other["arch"])
        row = mine[name, other["scale"], f"S{other['S_label']}", int(other["step"])]
        assert row["tokens"] == int(other["D"])
        assert row["flops_per_token"] == float(other["F"])
        assert row["S"] == pytest.approx(float(other["S"]), abs=1.1e-6)
        assert row["loss"] == pytest.approx(float(other["loss_from_published_surface"]), abs=2e-6)


def test_the_published_gains(published: Any, tmp_path: Path) -> None:
    """Through the commands of the stage: the numbers of the printed coefficients, with intervals of no width."""
    from smelt.scaling.fitting import fit
    from smelt.scaling.gains import gain

    answers = ("ce_gain", "allocation", "frontier", "gain_curve", "leave_one_out", "surface_pairs")
    fitted = ("coefficients", "draws", "surfaces_without", "residuals")
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("endpoints", *fitted, *answers)}
    told, table = canonical_json(plain(scaling_specs.simulated_endpoints(published))), str(ENDPOINTS)
    simulate.main(["--spec", told, "--table", table, "--out", paths["endpoints"]])
    assert scaling_specs.fits(published).bootstrap_draws == 2000
    quick = dataclasses.replace(scaling_specs.fits(published), bootstrap_draws=50, fit_starts=8)
    told = canonical_json(plain(quick))
    fit.main(["--spec", told, *options(paths, "endpoints", *fitted)])
    read = [*options(paths, "endpoints", "coefficients", "draws"), "--without", paths["surfaces_without"]]
    gain.main(["--spec", told, *read, *options(paths, *answers)])

    rows = pq.read_table(paths["ce_gain"]).to_pylist()
    assert [100 * row["gain"] for row in rows] == pytest.approx(GAINS, abs=0.02)
    assert max(row["gain_high"] - row["gain_low"] for row in rows) < 1e-9
    assert {row["s_convention"] for row in rows} == {"own"}
    for row in pq.read_table(paths["coefficients"]).to_pylist():
        printed = SURFACES[row["architecture"]]
        assert [row[name] for name in ("E", "A", "K", "a", "b", "c")] == pytest.approx(printed, rel=1e-4)
    points = read_points(paths["endpoints"], load(Settings, told), "S_baseline")
    assert points["smelt"].active[0] == pytest.approx(1 - 0.855989)


def options(paths: dict[str, str], *names: str) -> list[str]:
    return [part for name in names for part in (f"--{name.replace('_', '-')}", paths[name])]
