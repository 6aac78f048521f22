"""The point fit recovers what is there, certifies itself, and both solvers agree."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt.errors import UserError
from smelt.scaling.fitting import newton, point_fit, refit, resampling
from smelt.scaling.fitting.draws import (
    coefficients_schema,
    draws_schema,
    read_draws,
    read_without,
    values_of,
    without_schema,
)
from smelt.scaling.fitting.fit import fit_point, fit_surfaces, main
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import LOOPED_DEPTH, LOOPED_MOE, SMELT, SURFACES, Design
from smelt.surfaces.points import Points
from tests.scaling.published import SPEC, endpoint_rows, part, points, write_endpoints
from tests.scaling.published import SURFACES as PUBLISHED
from tests.surfaces.test_catalogue import VALUES, variables
from tests.surfaces.test_catalogue import points as points_at

DELTA = 1e-3
SETTINGS = Settings(**SPEC)  # type: ignore[arg-type]
SOLVERS = ("newton", "reference")


def using(**changes: Any) -> Settings:
    return dataclasses.replace(SETTINGS, **changes)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("architecture", ["baseline", "smelt"])
def test_recovers_the_published_coefficients(architecture: str, solver: str) -> None:
    mine = points(endpoint_rows(), architecture)
    fit = point_fit.fit(mine, SMELT, SMELT.design(mine), using(solver=solver, fit_starts=16))
    np.testing.assert_allclose(fit.values, PUBLISHED[architecture], rtol=1e-6)
    assert fit.objective < 1e-20
    assert fit.rmse_nats < 1e-9
    assert fit.inside_delta == 1
    assert fit.at_bound == ()


@pytest.fixture(scope="module")
def noisy() -> tuple[Points, Design, dict[str, point_fit.Fit]]:
    mine = points(endpoint_rows(noise=1.0, seed=5), "smelt")
    design = SMELT.design(mine)
    return (
        mine,
        design,
        {name: point_fit.fit(mine, SMELT, design, using(solver=name, fit_starts=24)) for name in SOLVERS},
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_certificate_of_a_noisy_fit(noisy: tuple[Points, Design, dict[str, point_fit.Fit]], solver: str) -> None:
    fit = noisy[2][solver]
    assert 5e-5 < fit.objective < 1e-3
    assert fit.gradient_norm < 0.01  # the objective's unit is delta^2, its curvature 1e6
    assert fit.start_share > 0.8
    assert fit.start_spread >= 0
    assert fit.iterations > 10
    assert 0.05 < fit.inside_delta < 0.6
    assert fit.rmse_nats == pytest.approx(0.0095, rel=0.4)


def test_both_solvers_find_one_minimum(noisy: tuple[Points, Design, dict[str, point_fit.Fit]]) -> None:
    fits = noisy[2]
    assert fits["newton"].objective == pytest.approx(fits["reference"].objective, rel=1e-9)
    np.testing.assert_allclose(fits["newton"].theta, fits["reference"].theta, atol=1e-4)
    assert fits["newton"].start_share == 1


def test_both_solvers_agree_on_draws(noisy: tuple[Points, Design, dict[str, point_fit.Fit]]) -> None:
    mine, design, fits = noisy
    drawn = resampling.draw_weights({"one": mine}, using(bootstrap_draws=25, seed=3))["one"]
    ends = {name: refit.refit(fits["newton"].theta, design, drawn, using(solver=name)).minimum for name in SOLVERS}
    for end in ends.values():
        assert end.converged.all()
    np.testing.assert_allclose(ends["newton"].objective, ends["reference"].objective, rtol=1e-9)
    values = [SMELT.to_values(end.theta, design)[:, [0, 3, 4, 5]] for end in ends.values()]
    np.testing.assert_allclose(*values, atol=1e-3)


def test_no_start_beats_a_draw(noisy: tuple[Points, Design, dict[str, point_fit.Fit]]) -> None:
    mine, design, fits = noisy
    drawn = resampling.draw_weights({"one": mine}, using(bootstrap_draws=6, seed=4))["one"]
    found = refit.refit(fits["newton"].theta, design, drawn, SETTINGS).minimum.objective
    for weight, value in zip(drawn, found, strict=True):
        starts = point_fit.random_starts(design, 12)
        assert value <= min(point_fit.lbfgsb(start, design, weight, DELTA)[1] for start in starts) * (1 + 1e-9)


def test_the_fit_stays_in_the_box_and_names_the_bound() -> None:
    pure = np.array([1e-9, 40.0, 900.0, 0.27, 0.12, 0.5])
    mine = points(endpoint_rows(surfaces={"baseline": pure}), "baseline")
    design = SMELT.design(mine)
    fit = point_fit.fit(mine, SMELT, design, using(fit_starts=8))
    assert "E" in fit.at_bound
    ends = newton.minimise(point_fit.random_starts(design, 8), design, np.ones((8, design.size)), DELTA)
    assert (ends.theta >= design.lower).all()
    assert (ends.theta <= design.upper).all()


def test_held_coordinates_keep_their_values(noisy: tuple[Points, Design, dict[str, point_fit.Fit]]) -> None:
    """As for subsets: the exponents of each draw stay, the levels are refitted, and no exponents do better."""
    _, design, fits = noisy
    starts = fits["newton"].theta + 0.01 * np.random.default_rng(0).standard_normal((9, 6))
    held = np.array([False, False, False, True, True, True])
    ends = newton.minimise(starts, design, np.ones((9, design.size)), DELTA, fixed=held)
    np.testing.assert_array_equal(ends.theta[:, 3:], starts[:, 3:])
    assert ends.converged.all()
    assert (ends.objective >= fits["newton"].objective / DELTA**2 * (1 - 1e-12)).all()


def test_one_sparsity_holds_b() -> None:
    mine = points(endpoint_rows(part(4, 1), noise=0.2), "baseline")
    values, at_bound, reason = fit_point(mine, SETTINGS)
    assert values is not None
    assert values[SMELT.coefficients.index("b")] == 0
    assert (at_bound, reason) == ("none", "b is held at 0: there is one sparsity")


def test_too_few_endpoints_have_no_fit() -> None:
    values, at_bound, reason = fit_point(points(endpoint_rows(part(1, 3)), "baseline"), SETTINGS)
    assert (values, at_bound) == (None, "none")
    assert reason == "18 endpoints (scales: 1, sparsities: 3, token counts: 6) do not determine 6 coefficients"


def test_starts_are_deterministic_and_inside() -> None:
    for name, surface in SURFACES.items():
        at = variables(40)
        design = surface.design(points_at(surface.predict(VALUES[name], at), at))
        starts = point_fit.random_starts(design, 64)
        np.testing.assert_array_equal(starts, point_fit.random_starts(design, 64))
        assert ((starts >= design.lower) & (starts <= design.upper)).all()
        assert len(np.unique(starts, axis=0)) == 64


@pytest.mark.parametrize("surface", [LOOPED_DEPTH, LOOPED_MOE])
def test_surfaces_with_loops_are_recovered(surface: Any) -> None:
    """From data without noise; the joint law's 14 coefficients need all axes and settle more slowly."""
    at = variables(240, 1)
    mine = points_at(surface.predict(VALUES[surface.name], at), at)
    fit = point_fit.fit(mine, surface, surface.design(mine), using(fit_starts=4))
    assert fit.rmse_nats < 1e-6
    np.testing.assert_allclose(fit.values, VALUES[surface.name], rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surface": "eq3"}, "scaling.surface: 'eq3'; expected one of smelt, chinchilla, looped_depth, looped_moe"),
        ({"solver": "adam"}, "scaling.solver: 'adam'; expected one of reference, newton"),
        ({"resample": "rows"}, "scaling.resample: 'rows'; expected one of cells, cells_by_scale, endpoints"),
    ],
)
def test_unknown_choices(changes: dict[str, str], message: str) -> None:
    mine = points(endpoint_rows(), "baseline")
    with pytest.raises(UserError, match=message):
        fit_surfaces({"baseline": mine}, using(**changes))


OUTPUTS = ("coefficients", "draws", "surfaces-without", "residuals")


def run(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Path]:
    endpoints = write_endpoints(folder / "endpoints.parquet", rows)
    paths = {name: folder / f"{name}.parquet" for name in OUTPUTS}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    main(["--spec", json.dumps(SPEC | changes), "--endpoints", str(endpoints), *options])
    return paths


def test_the_artifacts_of_the_command(tmp_path: Path) -> None:
    paths = run(tmp_path, endpoint_rows(noise=1.0, seed=2), bootstrap_draws=40)
    coefficients, drawn, without = (pq.read_table(paths[name]) for name in OUTPUTS[:3])
    assert coefficients.schema.names == coefficients_schema(SMELT).names
    assert drawn.schema.names == draws_schema(SMELT).names
    assert without.schema.names == without_schema(SMELT).names
    rows = coefficients.to_pylist()
    assert [row["architecture"] for row in rows] == ["baseline", "smelt"]
    for row in rows:
        for name in (*SMELT.coefficients, "gamma"):
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
        assert row["gamma_jackknife_low"] < row["gamma"] < row["gamma_jackknife_high"]
        assert (row["surface"], row["solver"], row["resample"], row["draws"]) == ("smelt", "newton", "cells", 40)
    assert drawn["draw"].to_pylist() == [*range(40), *range(40)]
    assert without.num_rows == 24 + 8  # cells first, then scales
    assert set(without["scale"].to_pylist()) == {"100M", "200M", "600M", "1.6B"}
    assert [value is None for value in without["sparsity"].to_pylist()] == [False] * 24 + [True] * 8
    assert without["scale"].to_pylist()[24:] == 2 * ["1.6B", "100M", "200M", "600M"]
    by_cell, by_scale = (one["smelt"] for one in read_without(paths["surfaces-without"], SMELT))
    assert (len(by_cell.units), by_scale.units) == (12, [("1.6B",), ("100M",), ("200M",), ("600M",)])
    assert np.array_equal(by_scale.refits.values[:, 0], without["E"].to_numpy()[28:])
    assert pq.read_table(paths["residuals"]).num_rows == 144
    read = read_draws(paths["draws"], SMELT)["smelt"]
    assert read.values.shape == (40, 6)
    assert read.converged.all()
    np.testing.assert_array_equal(read.values[:, 3], drawn["a"].to_numpy()[40:])
    found = values_of(rows[1], SMELT)
    assert found is not None
    assert found.tolist() == [rows[1][name] for name in "EAKabc"]


def test_same_bytes_again(tmp_path: Path) -> None:
    rows = endpoint_rows(noise=1.0, seed=2)
    first, second = (run(tmp_path / name, rows, bootstrap_draws=30) for name in ("a", "b"))
    for name in OUTPUTS:
        assert first[name].read_bytes() == second[name].read_bytes()


def test_resampled_endpoints_are_said_to_be_too_narrow(tmp_path: Path) -> None:
    paths = run(tmp_path, endpoint_rows(noise=1.0, seed=2), bootstrap_draws=40, resample="endpoints")
    assert all(
        resampling.NARROW["endpoints"] in row["reason"] for row in pq.read_table(paths["coefficients"]).to_pylist()
    )


def test_a_surface_without_s_leaves_b_missing(tmp_path: Path) -> None:
    paths = run(tmp_path, endpoint_rows(noise=1.0, seed=2), bootstrap_draws=10, surface="chinchilla")
    table = pq.read_table(paths["coefficients"])
    assert table.schema.names == coefficients_schema(SURFACES["chinchilla"]).names
    assert table["b"].null_count == 2
    assert table["a"].null_count == 0


def test_a_shared_surface_stands_with_each_architecture(tmp_path: Path) -> None:
    shape = {"baseline": (1, 0.0), "smelt": (2, 0.5)}
    rows = []
    for row in endpoint_rows(noise=1.0, seed=2):
        visits, share = shape[row["architecture"]]
        active = int(row["flops_per_token"] / 6 / (1 + share))
        rows.append(row | {"active_params": active, "looped_params": active // 2, "visits": visits})
    paths = run(tmp_path, rows, bootstrap_draws=40, surface="looped_depth")
    first, second = pq.read_table(paths["coefficients"]).to_pylist()
    assert first["architecture"] == "baseline"
    assert first | {"architecture": "smelt"} == second
    assert first["endpoints"] == 144
    assert first["phi_low"] <= first["phi"] <= first["phi_high"]
    drawn = read_draws(paths["draws"], LOOPED_DEPTH)
    np.testing.assert_array_equal(drawn["baseline"].values, drawn["smelt"].values)
    assert pq.read_table(paths["residuals"]).num_rows == 144
