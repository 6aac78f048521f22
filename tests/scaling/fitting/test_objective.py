"""The objective of every surface, its gradient and its Hessian."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from smelt.scaling.fitting import point_fit
from smelt.scaling.fitting.objective import (
    derivatives,
    evaluate,
    log_residuals,
    objective,
    point_losses,
    value_and_gradient,
)
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import SURFACES, Design
from smelt.surfaces.form import Parameter, log_linear
from smelt.surfaces.points import Array
from tests.surfaces.test_catalogue import VALUES, points, variables

DELTA = 1e-3


def case(name: str, seed: int, spread: float = 0.05) -> tuple[Design, Array, Array]:
    """Noisy points, three places near the truth and weights."""
    random, surface, at = np.random.default_rng(seed), SURFACES[name], variables(60, seed)
    loss = surface.predict(VALUES[name], at) * np.exp(0.005 * random.standard_normal(60))
    design = surface.design(points(loss, at))
    theta = surface.to_theta(VALUES[name], design) + spread * random.standard_normal((3, VALUES[name].size))
    return design, theta, random.integers(0, 4, (3, 60)).astype(float)


@pytest.mark.parametrize("name", SURFACES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_objective_is_the_weighted_sum_of_huber_losses(name: str, seed: int) -> None:
    design, theta, weights = case(name, seed, 0.002)
    surface = SURFACES[name]
    predicted = surface.predict(surface.to_values(theta, design)[:, None], design.variables)
    residual = np.log(predicted) - design.log_loss
    huber = np.where(abs(residual) <= DELTA, residual**2 / 2, DELTA * (abs(residual) - DELTA / 2))
    found = objective(theta, design, weights, DELTA) * DELTA**2
    np.testing.assert_allclose(found, (weights * huber).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(log_residuals(theta[1], design), residual[1], atol=1e-14)
    np.testing.assert_allclose(point_losses(theta, design, DELTA).T * DELTA**2, huber, rtol=1e-7, atol=1e-18)


# With a delta as wide as 10 every residual lies inside, with 1e-6 none: both branches without their kinks.
@pytest.mark.parametrize("delta", [10.0, 1e-6])
@pytest.mark.parametrize("name", SURFACES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_derivatives_agree_with_central_differences(name: str, delta: float, seed: int) -> None:
    design, theta, weights = case(name, seed)
    assume(all((abs(log_residuals(at, design)) > 3e-5).all() for at in theta))  # else a step may cross the kinks
    value, gradient, hessian = derivatives(theta, design, weights, delta)
    np.testing.assert_allclose(value, objective(theta, design, weights, delta), rtol=1e-14)
    step = 1e-6
    for place in range(theta.shape[1]):
        shift = step * np.eye(theta.shape[1])[place]
        ahead, behind = (derivatives(at, design, weights, delta) for at in (theta + shift, theta - shift))
        size = abs(gradient).max(axis=1), abs(hessian).max(axis=(1, 2))
        assert (abs(gradient[:, place] - (ahead[0] - behind[0]) / (2 * step)) < 1e-5 * size[0]).all()
        error = abs(hessian[:, place] - (ahead[1] - behind[1]) / (2 * step)).max(axis=1)
        assert (error < 1e-5 * np.maximum(size[1], size[0])).all()


@pytest.mark.parametrize("name", SURFACES)
def test_one_fit_and_many_agree(name: str) -> None:
    design, theta, weights = case(name, 7)
    value, gradient, hessian = derivatives(theta, design, weights, DELTA)
    for row in range(3):
        alone = value_and_gradient(theta[row], design, weights[row], DELTA)
        assert alone[0] == pytest.approx(value[row], rel=1e-13)
        np.testing.assert_allclose(alone[1], gradient[row], rtol=1e-10, atol=1e-9 * abs(gradient[row]).max())
    np.testing.assert_allclose(hessian, np.swapaxes(hessian, 1, 2), atol=1e-12 * abs(hessian).max())


@pytest.mark.parametrize("name", SURFACES)
def test_smooth_hessian_bounds_the_exact_one(name: str) -> None:
    design, theta, weights = case(name, 3, 0.01)
    exact = evaluate(theta.T, design, weights.T, DELTA)
    smooth = evaluate(theta.T, design, weights.T, DELTA, smooth=True)
    np.testing.assert_array_equal(exact.gradient, smooth.gradient)
    least = np.linalg.eigvalsh(np.moveaxis(smooth.hessian - exact.hessian, -1, 0))[:, 0]
    assert (least > -1e-9 * abs(smooth.hessian).max()).all()


def test_a_surface_of_ones_own_is_one_object() -> None:
    """One exponent in both terms, which Eq. 2 does not have: its derivatives follow from the data that define it."""
    tied = log_linear(
        "tied",
        (*SURFACES["chinchilla"].parameters[:3], Parameter("a", "exponent of both terms", (0, 4), (0.05, 1.0))),
        capacity={"a": ("flops", -1)},
        data={"a": ("tokens", -1)},
    )
    at, truth = variables(60), np.array([1.4, 300.0, 900.0, 0.33])
    mine = points(tied.predict(truth, at), at)
    design = tied.design(mine)
    theta = tied.to_theta(truth, design) + 0.05 * np.random.default_rng(0).standard_normal((2, 4))
    weights, step = np.ones((2, 60)), 1e-6
    _, gradient, hessian = derivatives(theta, design, weights, 10.0)
    for place in range(4):
        shift = step * np.eye(4)[place]
        ahead, behind = (derivatives(side, design, weights, 10.0) for side in (theta + shift, theta - shift))
        np.testing.assert_allclose(gradient[:, place], (ahead[0] - behind[0]) / (2 * step), rtol=1e-5)
        np.testing.assert_allclose(hessian[:, place], (ahead[1] - behind[1]) / (2 * step), rtol=1e-5, atol=1e-7)
    fit = point_fit.fit(mine, tied, design, Settings("one", "one", {}, fit_starts=4))
    np.testing.assert_allclose(fit.values, truth, rtol=1e-6)
