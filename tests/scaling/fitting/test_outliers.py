"""Endpoints far off their surface: found wherever they stand in the grid, and rarely where there are none."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from smelt.scaling.fitting.fit import cells_of, fit_surfaces
from smelt.scaling.fitting.intervals import LeftOut
from smelt.scaling.fitting.outliers import outlying
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import SMELT
from smelt.surfaces.points import Array, Points
from tests.scaling.published import RMSE, VALUES, endpoint_rows, part, points, run_stage

SETTINGS = Settings("s", "smelt", VALUES, fit_starts=4, bootstrap_draws=1)
POINTS = points(endpoint_rows(), "smelt")
CELLS = cells_of({"smelt": POINTS})
CELL = np.array([CELLS.index(cell) for cell in POINTS.cells])


def found(loss: Array, of: Points = POINTS) -> list[str]:
    """What is outlying where the points have these losses."""
    changed = dataclasses.replace(of, loss=loss)
    fitted = fit_surfaces({"smelt": changed}, SETTINGS)["smelt"]
    values = None if fitted.fit is None else fitted.fit.values
    return outlying(changed, SMELT, values, LeftOut(cells_of({"": of}), fitted.without_cells.draws))


def noise(seed: int, common: float = 0.0) -> Array:
    """Noise of the published RMSE in nats, a share of its variance common to the endpoints of a cell."""
    random = np.random.default_rng(seed)
    alone, shared = random.normal(size=CELL.size), random.normal(size=len(CELLS))[CELL]
    return RMSE["smelt"] * (np.sqrt(1 - common) * alone + np.sqrt(common) * shared)


def test_noise_is_not_outlying() -> None:
    assert found(POINTS.loss) == []  # residuals at rounding
    wrong = [seed for seed in range(20) if found(POINTS.loss + noise(seed, 0.8 * (seed % 2)))]
    assert wrong == []


@pytest.mark.parametrize("cell", [("1.6B", "S97"), ("200M", "S95"), ("100M", "S85")])
@pytest.mark.parametrize("factor", [0.8, 1.3, 5.0])
def test_a_run_that_is_off_is_named_wherever_it_stands(cell: tuple[str, str], factor: float) -> None:
    """100M S85 is the corner that draws the surface to itself."""
    loss = (POINTS.loss + noise(1, 0.5)) * np.where(CELLS.index(cell) == CELL, factor, 1)
    (said,) = found(loss)
    assert said.startswith(f"smelt: outlying endpoints, 6 of 6 in {' '.join(cell)} (loss ")
    assert said.endswith("; leave them out or measure them again")


def test_a_run_that_is_slightly_off_is_named_as_a_whole() -> None:
    """4 % are too little for each endpoint, but not for all six of a cell."""
    (said,) = found(POINTS.loss * np.where(CELLS.index(("600M", "S95")) == CELL, 1.04, 1) + noise(2) / 3)
    assert "6 of 6 in 600M S95" in said


def test_single_endpoints_are_counted_by_cell() -> None:
    loss = POINTS.loss + noise(3)
    loss[[2, 3, 20]] *= 1.2
    (said,) = found(loss)
    assert "2 of 6 in" in said
    assert "1 of 6 in" in said


def test_few_points_say_nothing() -> None:
    """An exact fit of nearly as many coefficients puts one residual beyond all spread."""
    few = points(endpoint_rows(part(2, 2)), "smelt")
    columns = {key: getattr(few, key)[::3] for key in ("rows", "names", "scale", "sparsity", "loss")}
    columns["variables"] = {name: column[::3] for name, column in few.variables.items()}
    few = dataclasses.replace(few, **columns)
    assert outlying(few, SMELT, np.ones(6)) == []
    assert outlying(POINTS, SMELT, None) == []


def test_every_row_that_rests_on_an_outlying_run_says_so_and_is_not_resolved(tmp_path: Any) -> None:
    """Of measured endpoints too: the stage's own jobs."""
    rows = [
        row
        | ({"loss": 11.0} if (row["architecture"], row["scale"], row["sparsity"]) == ("smelt", "600M", "S97") else {})
        for row in endpoint_rows(noise=0.2)
    ]
    sound = run_stage(tmp_path / "sound", endpoint_rows(noise=0.2), compute_budgets=[1e20])
    assert all(row["resolved"] for row in sound["ce_gain"])
    tables = run_stage(tmp_path / "wrong", rows, compute_budgets=[1e20])
    assert tables["ce_gain"]
    for row in tables["ce_gain"]:
        assert not row["resolved"]
        assert "smelt: outlying endpoints, 6 of 6 in 600M S97 (loss 11, expected 1.7" in row["reason"]
    for name in ("allocation", "coefficients"):
        for row in tables[name]:
            assert ("outlying" in (row["reason"] or "")) == (row["architecture"] == "smelt")
