"""Closed forms: the paper's numbers, minimum, inversion, windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.scaling import frontier
from smelt.scaling.surface import Coefficients, predict
from tests.scaling.published import SURFACES, VALUES, endpoint_rows, points

BASELINE, SMELT = SURFACES["baseline"], SURFACES["smelt"]
GAINS = {  # per cent, from the published coefficients
    1e20: (9.86, 7.70, 6.66),
    1e21: (17.94, 15.68, 14.57),
    1e22: (23.37, 20.76, 19.48),
}


@st.composite
def surfaces(draw: st.DrawFn) -> Coefficients:
    bounds = ((0.5, 3), (10, 1e4), (10, 1e7), (0.1, 0.9), (-0.3, 0.5), (0.1, 0.9))
    return Coefficients(*(np.float64(draw(st.floats(*pair))) for pair in bounds))


@pytest.mark.parametrize("budget", GAINS)
def test_published_gains(budget: float) -> None:
    found = [100 * float(frontier.gain(SMELT, BASELINE, budget, 1 - value)) for value in VALUES.values()]
    assert found == pytest.approx(GAINS[budget], abs=0.02)


def test_published_allocation_and_exponents() -> None:
    for surface, expected in ((BASELINE, (56.5, 78.2, 91.1)), (SMELT, (56.1, 75.3, 86.4))):
        found = [float(frontier.tokens_per_parameter(surface, 1e21, 1 - value)) for value in VALUES.values()]
        assert found == pytest.approx(expected, abs=0.06)
    assert float(frontier.gamma(BASELINE)) == pytest.approx(0.2371, abs=5e-5)
    assert float(frontier.gamma(SMELT)) == pytest.approx(0.2503, abs=5e-5)


@settings(max_examples=60, deadline=None)
@given(surface=surfaces(), log_c=st.floats(25, 55), sparsity=st.floats(0, 0.99))
def test_optimum_is_the_minimum_at_fixed_compute(surface: Coefficients, log_c: float, sparsity: float) -> None:
    compute, active = np.exp(log_c), 1 - sparsity
    flops, tokens = frontier.optimum(surface, compute, active)
    assert flops * tokens == pytest.approx(compute, rel=1e-9)
    best = predict(surface, flops, active, tokens)
    assert best == pytest.approx(float(frontier.frontier_loss(surface, compute, active)), rel=1e-9)
    around = flops * np.exp(np.linspace(-3, 3, 601))
    assert best <= predict(surface, around, active, compute / around).min() * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(surface=surfaces(), log_c=st.floats(25, 50), sparsity=st.floats(0, 0.99))
def test_inverse_of_the_frontier(surface: Coefficients, log_c: float, sparsity: float) -> None:
    loss = frontier.frontier_loss(surface, np.exp(log_c), 1 - sparsity)
    if loss - surface.E > 1e-6 * loss:
        assert float(frontier.log_compute(surface, loss, 1 - sparsity)) == pytest.approx(log_c, rel=1e-6)


def test_numerical_inversion_gives_the_same_gain() -> None:
    loss, (low, high) = float(frontier.frontier_loss(SMELT, 1e21, 0.05)), (1e18, 1e26)
    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if frontier.frontier_loss(BASELINE, middle, 0.05) > loss else (low, middle)
    assert float(frontier.gain(SMELT, BASELINE, 1e21, 0.05)) == pytest.approx(1 - 1e21 / low, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(surface=surfaces(), log_c=st.floats(25, 45))
def test_no_gain_over_itself(surface: Coefficients, log_c: float) -> None:
    loss = float(frontier.frontier_loss(surface, np.exp(log_c), 0.1))
    if loss - surface.E > 1e-4 * loss:
        assert float(frontier.gain(surface, surface, float(np.exp(log_c)), 0.1)) == pytest.approx(0, abs=1e-6)


def test_a_loss_that_the_reference_never_reaches_gives_the_whole_gain() -> None:
    better = SMELT._replace(E=np.float64(1.2))
    assert frontier.frontier_loss(better, 1e24, 0.05) < BASELINE.E
    assert float(frontier.gain(better, BASELINE, 1e24, 0.05)) == 1
    assert np.isposinf(frontier.log_compute(BASELINE, frontier.frontier_loss(better, 1e24, 0.05), 0.05))


def test_a_hopeless_target_gives_a_finite_gain() -> None:
    worse = BASELINE._replace(a=np.float64(0.01), c=np.float64(0.01))
    assert np.isfinite(frontier.gain(worse, BASELINE, 1e21, 0.05))


def test_windows() -> None:
    box = frontier.box(points(endpoint_rows(), "baseline"))
    assert box.compute == pytest.approx((1.296e19, 2.206e21), rel=2e-3)
    # The optimum leaves the trained F a little below the end of the compute window.
    places = {5e18: "extrapolated", 1e20: "inside", 8e20: "inside", 1.1e21: "edge", 2e21: "edge", 3e21: "extrapolated"}
    assert {compute: frontier.window(BASELINE, box, compute, 0.15) for compute in places} == places
    assert frontier.worst("inside", "edge") == "edge"
    assert frontier.worst("extrapolated", "inside") == "extrapolated"
