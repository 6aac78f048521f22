"""The point fit recovers what is there, certifies itself, and agrees with the batched solver."""

import numpy as np
import pytest

from smelt.scaling import bootstrap, newton, solve
from smelt.scaling.surface import NAMES, Coefficients, Design, build_design, to_coefficients
from tests.scaling.published import SURFACES, endpoint_rows, part, points

DELTA = 1e-3


@pytest.mark.parametrize("architecture", ["baseline", "smelt"])
def test_recovers_the_published_coefficients(architecture: str) -> None:
    mine = points(endpoint_rows(), architecture)
    design = build_design(mine)
    fit = solve.fit(mine, design, DELTA, starts=16)
    np.testing.assert_allclose(to_coefficients(fit.theta, design), SURFACES[architecture], rtol=1e-6)
    assert fit.objective < 1e-20
    assert fit.rmse_nats < 1e-9
    assert fit.inside_delta == 1
    assert fit.at_bound == ()


@pytest.fixture(scope="module")
def noisy() -> tuple[Design, solve.Fit]:
    mine = points(endpoint_rows(noise=1.0, seed=5), "smelt")
    design = build_design(mine)
    return design, solve.fit(mine, design, DELTA, starts=24)


def test_certificate_of_a_noisy_fit(noisy: tuple[Design, solve.Fit]) -> None:
    _, fit = noisy
    assert 5e-5 < fit.objective < 1e-3
    assert fit.gradient_norm < 0.01  # the objective's unit is delta^2, its curvature 1e6
    assert fit.start_share > 0.8
    assert fit.start_spread >= 0
    assert fit.iterations > 10
    assert 0.05 < fit.inside_delta < 0.6
    assert fit.rmse_nats == pytest.approx(0.0095, rel=0.4)


def test_no_start_beats_the_fit(noisy: tuple[Design, solve.Fit]) -> None:
    design, fit = noisy
    others = newton.minimise(solve.random_starts(design, 40), design, np.ones((40, design.size)), DELTA)
    assert others.objective.min() * DELTA**2 >= fit.objective * (1 - 1e-9)


def test_batched_newton_agrees_with_the_reference_solver(noisy: tuple[Design, solve.Fit]) -> None:
    design, fit = noisy
    mine = points(endpoint_rows(), "smelt")
    cells = sorted(set(mine.cells))
    weights = bootstrap.point_weights(bootstrap.cell_weights(cells, 12, seed=3), cells, mine)
    ends = bootstrap.refit(fit.theta, design, weights, DELTA)
    assert ends.converged.all()
    for draw, weight in enumerate(weights):
        starts = [fit.theta, *solve.random_starts(design, 5)]
        best = min((solve.lbfgsb(start, design, weight, DELTA) for start in starts), key=lambda end: end[1])
        assert ends.objective[draw] <= best[1] * (1 + 1e-9)
        if ends.objective[draw] >= best[1] * (1 - 1e-9):  # both in the same basin
            np.testing.assert_allclose(ends.theta[draw], best[0], atol=2e-4)


def test_newton_stays_in_the_box_and_names_the_bound() -> None:
    pure = Coefficients(*map(np.float64, (1e-9, 40.0, 900.0, 0.27, 0.12, 0.5)))
    mine = points(endpoint_rows(surfaces={"baseline": pure}), "baseline")
    design = build_design(mine)
    fit = solve.fit(mine, design, DELTA, starts=8)
    assert "E" in fit.at_bound
    ends = newton.minimise(solve.random_starts(design, 8), design, np.ones((8, design.size)), DELTA)
    assert (ends.theta >= design.lower).all()
    assert (ends.theta <= design.upper).all()


def test_one_sparsity_holds_b() -> None:
    mine = points(endpoint_rows(part(4, 1), noise=0.2), "baseline")
    fit = solve.fit(mine, build_design(mine, fix_b=True), DELTA, starts=8)
    assert fit.theta[NAMES.index("b")] == 0
    assert fit.at_bound == ()
    assert fit.rmse_nats < 0.01


def test_starts_are_deterministic_and_inside() -> None:
    design = build_design(points(endpoint_rows(), "baseline"))
    starts = solve.random_starts(design, 64)
    np.testing.assert_array_equal(starts, solve.random_starts(design, 64))
    assert ((starts >= design.lower) & (starts <= design.upper)).all()
    assert len(np.unique(starts, axis=0)) == 64
