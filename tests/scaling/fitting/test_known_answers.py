"""Answers that are known: published data where they are at hand, and data that are made here."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.scaling.fitting import point_fit, refit, resampling
from smelt.scaling.fitting.objective import objective
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import CHINCHILLA, SMELT
from smelt.surfaces.points import Array, Points
from tests.scaling.published import SPEC, SURFACES, endpoint_rows, points
from tests.surfaces.test_catalogue import points as points_at

DATA = Path(__file__).parents[2] / "data" / "fits"
DELTA = 1e-3


def using(**changes: Any) -> Settings:
    return dataclasses.replace(Settings(**SPEC), **changes)  # type: ignore[arg-type]


def columns(name: str) -> dict[str, list[str]]:
    with (DATA / name).open() as text:
        rows = list(csv.DictReader(text))
    return {key: [row[key] for row in rows] for key in rows[0]}


@pytest.fixture(scope="module")
def chinchilla() -> Points:
    """The points read off the figure of Hoffmann et al., without the five of largest loss."""
    table = {key: np.array(values, dtype=np.float64) for key, values in columns("chinchilla_points.csv").items()}
    keep = table["loss"] < np.sort(table["loss"])[-5]
    return points_at(table["loss"][keep], {key: table[key][keep] for key in ("params", "tokens")})


def test_chinchilla_minimum_from_one_start(chinchilla: Points) -> None:
    design = CHINCHILLA.design(chinchilla)
    fit = point_fit.fit(chinchilla, CHINCHILLA, design, using(fit_starts=1))
    assert chinchilla.loss.size == 240
    assert fit.objective <= 1.018275e-3
    np.testing.assert_allclose(fit.values, [1.81722, 477.826, 2143.417, 0.34731, 0.36717], rtol=1e-5)
    # What is often quoted is the minimum of another objective, with the E of this one.
    quoted = CHINCHILLA.to_theta(np.array([1.8172, 482.01, 2085.43, 0.3478, 0.3658]), design)
    there = objective(quoted[None], design, np.ones((1, 240)), DELTA)[0] * DELTA**2
    assert there / fit.objective - 1 == pytest.approx(0.0045, abs=2e-4)


def test_chinchilla_standard_errors(chinchilla: Points) -> None:
    """The published ones, from the published draws of single points."""
    random = np.random.RandomState(42)  # as the replication seeds and draws
    drawn = np.array([np.bincount(random.choice(240, size=240), minlength=240) for _ in range(4000)], dtype=float)
    design = CHINCHILLA.design(chinchilla)
    fit = point_fit.fit(chinchilla, CHINCHILLA, design, using(fit_starts=1))
    found = refit.refit(fit.theta, design, drawn, using())
    assert found.minimum.converged.all()
    errors = CHINCHILLA.to_values(found.minimum.theta, design).std(axis=0)
    np.testing.assert_allclose(errors, [0.02566, 124.52, 1293.28, 0.01540, 0.02060], rtol=1e-3)


def test_olmo_ladder_predicts_13b() -> None:
    table = columns("olmo_ladder.csv")
    numbers = {key: np.array(table[key], dtype=np.float64) for key in ("params", "tokens", "c4_loss_last5")}
    trained = np.array(table["peer_role"]) == "train"
    target = np.array([run == "13B-5T" for run in table["run"]])
    mine = points_at(numbers["c4_loss_last5"][trained], {key: numbers[key][trained] for key in ("params", "tokens")})
    fit = point_fit.fit(mine, CHINCHILLA, CHINCHILLA.design(mine), using(fit_starts=1))
    assert trained.sum() == 16
    assert fit.objective == pytest.approx(3.29986e-5, rel=1e-5)
    predicted = CHINCHILLA.predict(fit.values, {key: numbers[key][target] for key in ("params", "tokens")})
    assert predicted.item() == pytest.approx(2.3444, abs=1e-4)


# The same kinds of facts from data that are made here.


def made(seed: int, count: int = 240) -> Points:
    """Points of mixed sizes around a published surface, with errors of 0.3 % and a few outliers."""
    random = np.random.default_rng(seed)
    at = {"params": 10 ** random.uniform(7.8, 10.2, count), "tokens": 10 ** random.uniform(9, 11.5, count)}
    error = 0.003 * random.standard_t(3, count)
    return points_at(CHINCHILLA.predict(TRUTH, at) * np.exp(error), at)


TRUTH = np.array([1.8172, 477.8, 2143.0, 0.3473, 0.3672])


@pytest.mark.parametrize("seed", range(3))
def test_one_start_finds_what_sixty_find(seed: int) -> None:
    mine = made(seed)
    design = CHINCHILLA.design(mine)
    one, sixty = (point_fit.fit(mine, CHINCHILLA, design, using(fit_starts=starts)) for starts in (1, 60))
    assert one.objective == pytest.approx(sixty.objective, rel=1e-11)
    assert sixty.start_share == 1
    tight = min(
        point_fit.lbfgsb(start, design, np.ones(240), DELTA)[1] for start in point_fit.random_starts(design, 10)
    )
    assert one.objective / DELTA**2 == pytest.approx(tight, rel=1e-9)


def test_coefficients_and_standard_errors_of_made_points() -> None:
    """The truth lies within three standard errors, and those are what a brute-force refit finds."""
    mine = made(11)
    design = CHINCHILLA.design(mine)
    fit = point_fit.fit(mine, CHINCHILLA, design, using(fit_starts=1))
    drawn = resampling.draw_weights({"one": mine}, using(bootstrap_draws=400, resample="endpoints"))["one"]
    found = refit.refit(fit.theta, design, drawn, using()).minimum
    assert found.converged.all()
    values = CHINCHILLA.to_values(found.theta, design)
    assert (abs(fit.values - TRUTH) < 3 * values.std(axis=0)).all()
    starts: list[Array] = [fit.theta, *point_fit.random_starts(design, 3)]
    for draw in range(0, 400, 40):
        best = min((point_fit.lbfgsb(start, design, drawn[draw], DELTA) for start in starts), key=lambda end: end[1])
        assert found.objective[draw] <= best[1] * (1 + 1e-9)
        np.testing.assert_allclose(CHINCHILLA.to_values(best[0], design), values[draw], rtol=1e-3)


@pytest.mark.parametrize("architecture", ["baseline", "smelt"])
def test_every_draw_of_the_grid_is_at_its_minimum(architecture: str) -> None:
    """Cells that agree within themselves are the hard case: no start of the reference beats any draw."""
    mine = points(_correlated(26), architecture)
    design = SMELT.design(mine)
    fit = point_fit.fit(mine, SMELT, design, using(fit_starts=16))
    drawn = resampling.draw_weights({"one": mine}, using(bootstrap_draws=400))["one"]
    drawn = drawn[refit.identified(mine, design, drawn)]
    found = refit.refit(fit.theta, design, drawn, using()).minimum
    assert found.converged.all()
    starts = [fit.theta, *point_fit.random_starts(design, 3)]
    for draw in range(0, len(drawn), 60):
        best = min(point_fit.lbfgsb(start, design, drawn[draw], DELTA)[1] for start in starts)
        assert found.objective[draw] <= best * (1 + 1e-9)


def _correlated(seed: int) -> list[dict[str, Any]]:
    """The published grid with errors of which a cell's endpoints share four fifths of the variance."""
    random = np.random.default_rng(seed)
    shared: dict[tuple[str, ...], float] = {}
    rows = endpoint_rows()
    for row in rows:
        key = (row["architecture"], row["scale"], row["sparsity"])
        common = shared.setdefault(key, random.standard_normal())
        row["loss"] += 0.008 * (np.sqrt(0.8) * common + np.sqrt(0.2) * random.standard_normal())
    return rows


def test_the_published_surfaces_come_back() -> None:
    for name, values in SURFACES.items():
        mine = points(endpoint_rows(), name)
        fit = point_fit.fit(mine, SMELT, SMELT.design(mine), using(fit_starts=1))
        np.testing.assert_allclose(fit.values, values, rtol=1e-7)
