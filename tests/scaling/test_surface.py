"""The surface's derivatives, its coordinates and its box."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.scaling.surface import (
    Coefficients,
    bounds_hit,
    build_design,
    derivatives,
    objective,
    predict,
    to_coefficients,
    to_theta,
    value_and_gradient,
)
from tests.scaling.published import SURFACES, endpoint_rows, points

POINTS = points(endpoint_rows(noise=1.0), "baseline")
DESIGN = build_design(POINTS)
DELTA = 1e-3
BEST = to_theta(SURFACES["baseline"], DESIGN)
SHIFT = st.lists(st.floats(-0.15, 0.15), min_size=6, max_size=6)


@settings(max_examples=25, deadline=None)
@given(shift=SHIFT, seed=st.integers(0, 1000))
def test_derivatives_agree_with_finite_differences(shift: list[float], seed: int) -> None:
    theta = (BEST + np.array(shift))[None]
    weights = np.random.default_rng(seed).integers(0, 4, (1, DESIGN.size)).astype(float)
    # A wide delta keeps the points off the kinks of the second derivative.
    value, gradient, hessian = derivatives(theta, DESIGN, weights, 10.0)
    assert value[0] == pytest.approx(objective(theta, DESIGN, weights, 10.0)[0], rel=1e-12)
    step = 1e-5
    for i in range(6):
        ahead, behind = theta.copy(), theta.copy()
        ahead[0, i] += step
        behind[0, i] -= step
        up, down = (derivatives(at, DESIGN, weights, 10.0) for at in (ahead, behind))
        scale = np.abs(hessian).max()
        assert gradient[0, i] == pytest.approx((up[0][0] - down[0][0]) / (2 * step), abs=1e-6 * np.abs(gradient).max())
        np.testing.assert_allclose(hessian[0, i], (up[1][0] - down[1][0]) / (2 * step), atol=1e-6 * scale)


@settings(max_examples=25, deadline=None)
@given(shift=SHIFT)
def test_gradient_beyond_delta(shift: list[float]) -> None:
    theta = BEST + np.array(shift)
    weights = np.ones(DESIGN.size)
    _, gradient = value_and_gradient(theta, DESIGN, weights, DELTA)
    step = 1e-7
    for i in range(6):
        sides = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[i] += sign * step
            sides.append(value_and_gradient(moved, DESIGN, weights, DELTA)[0])
        assert gradient[i] == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-4 * np.abs(gradient).max() + 1)


def test_objective_is_the_sum_of_huber_losses() -> None:
    coefficients = to_coefficients(BEST + 0.01, DESIGN)
    residual = np.abs(np.log(predict(coefficients, POINTS.flops, POINTS.active, POINTS.tokens) / POINTS.loss))
    huber = np.where(residual <= DELTA, residual**2 / 2, DELTA * (residual - DELTA / 2))
    found = objective((BEST + 0.01)[None], DESIGN, np.ones((1, DESIGN.size)), DELTA)[0] * DELTA**2
    assert found == pytest.approx(huber.sum(), rel=1e-10)


RANGES = ((0.5, 3), (1, 1e6), (1, 1e9), (0.05, 1), (-0.5, 0.5), (0.05, 1))


@settings(max_examples=50, deadline=None)
@given(values=st.tuples(*(st.floats(*ends) for ends in RANGES)))
def test_coefficients_go_there_and_back(values: tuple[float, ...]) -> None:
    given_ = Coefficients(*map(np.float64, values))
    np.testing.assert_allclose(to_coefficients(to_theta(given_, DESIGN), DESIGN), given_, rtol=1e-9)


def test_bounds_are_named_only_where_free() -> None:
    fixed = build_design(POINTS, fix_b=True)
    theta = to_theta(SURFACES["baseline"], fixed)
    theta[4] = 0
    assert not bounds_hit(theta, fixed).any()
    theta[3] = 0
    assert bounds_hit(theta, fixed).tolist() == [False, False, False, True, False, False]
