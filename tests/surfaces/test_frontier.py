"""Closed forms: the paper's numbers, minimum, inversion, windows."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.surfaces import frontier
from smelt.surfaces.frontier import Slice
from smelt.surfaces.points import Array
from tests.scaling.published import SURFACES, VALUES, endpoint_rows, points

GAINS = {  # per cent, from the published coefficients
    1e20: (9.86, 7.70, 6.66),
    1e21: (17.94, 15.68, 14.57),
    1e22: (23.37, 20.76, 19.48),
}


def cut(name: str, sparsity: float) -> Slice:
    """A published surface at one sparsity."""
    E, A, K, a, b, c = SURFACES[name]
    return Slice(E, A * (1 - sparsity) ** b, K, a, c)


BASELINE, SMELT = cut("baseline", 0.95), cut("smelt", 0.95)


@st.composite
def sections(draw: st.DrawFn) -> Slice:
    bounds = ((0.5, 3), (10, 1e4), (10, 1e7), (0.1, 0.9), (0.1, 0.9))
    return Slice(*(np.float64(draw(st.floats(*pair))) for pair in bounds))  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", GAINS)
def test_published_gains(budget: float) -> None:
    found = [100 * float(frontier.gain(cut("smelt", S), cut("baseline", S), budget)) for S in VALUES.values()]
    assert found == pytest.approx(GAINS[budget], abs=0.02)


def test_published_allocation_and_exponents() -> None:
    for name, expected in (("baseline", (56.5, 78.2, 91.1)), ("smelt", (56.1, 75.3, 86.4))):
        found = [float(frontier.tokens_per_parameter(cut(name, value), 1e21)) for value in VALUES.values()]
        assert found == pytest.approx(expected, abs=0.06)
    assert float(frontier.gamma(BASELINE)) == pytest.approx(0.2371, abs=5e-5)
    assert float(frontier.gamma(SMELT)) == pytest.approx(0.2503, abs=5e-5)


def test_published_data_terms_cross() -> None:
    tokens = float(frontier.data_crossover(SMELT, BASELINE))
    assert tokens == pytest.approx(1.62e10, rel=2e-3)
    terms = [one.K * tokens**-one.c for one in (SMELT, BASELINE)]
    assert terms[0] == pytest.approx(terms[1], rel=1e-12)
    assert np.isnan(frontier.data_crossover(SMELT, SMELT))


def crossing(sparsity: float, low: float, high: float) -> float:
    """Where the published gain changes sign, by bisection."""
    signs = [float(frontier.gain(cut("smelt", sparsity), cut("baseline", sparsity), C)) > 0 for C in (low, high)]
    assert signs[0] != signs[1]
    for _ in range(80):
        middle = np.sqrt(low * high)
        here = float(frontier.gain(cut("smelt", sparsity), cut("baseline", sparsity), middle)) > 0
        low, high = (middle, high) if here == signs[0] else (low, middle)
    return float(low)


def test_the_published_surfaces_give_no_licence_to_extrapolate() -> None:
    """SMELT's E is above the Baseline's: its gain is positive only between two budgets."""
    starts = [crossing(value, 1e18, 1e21) for value in VALUES.values()]
    assert starts == pytest.approx([1.10e19, 1.73e19, 2.16e19], rel=0.01)
    ends = [crossing(value, 1e22, 1e27) for value in VALUES.values()]
    assert ends == pytest.approx([1.8e25, 8.5e24, 6.0e24], rel=0.02)


@settings(max_examples=60, deadline=None)
@given(section=sections(), log_c=st.floats(25, 55))
def test_optimum_is_the_minimum_at_fixed_compute(section: Slice, log_c: float) -> None:
    compute = float(np.exp(log_c))
    flops, tokens = frontier.optimum(section, compute)
    assert flops * tokens == pytest.approx(compute, rel=1e-9)
    best = float(frontier.loss(section, flops, tokens))
    assert best == pytest.approx(float(frontier.frontier_loss(section, compute)), rel=1e-9)
    around = flops * np.exp(np.linspace(-3, 3, 601))
    assert best <= frontier.loss(section, around, compute / around).min() * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(section=sections(), log_c=st.floats(25, 50))
def test_inverse_of_the_frontier(section: Slice, log_c: float) -> None:
    loss = frontier.frontier_loss(section, np.exp(log_c))
    if loss - section.E > 1e-6 * loss:
        assert float(frontier.log_compute(section, loss)) == pytest.approx(log_c, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(section=sections(), log_c=st.floats(25, 45))
def test_no_gain_over_itself(section: Slice, log_c: float) -> None:
    loss = float(frontier.frontier_loss(section, np.exp(log_c)))
    if loss - section.E > 1e-4 * loss:
        assert float(frontier.gain(section, section, float(np.exp(log_c)))) == pytest.approx(0, abs=1e-6)


def test_many_surfaces_at_once() -> None:
    """One call serves all draws: every entry is what it would be alone."""
    levels: Array = np.linspace(1.3, 1.5, 7)
    drawn = SMELT._replace(E=levels)
    found = frontier.gain(drawn, BASELINE, 1e21)
    alone = [float(frontier.gain(SMELT._replace(E=level), BASELINE, 1e21)) for level in levels]
    assert found.tolist() == alone


def test_a_loss_that_the_reference_never_reaches_gives_the_whole_gain() -> None:
    better = SMELT._replace(E=np.float64(1.2))
    assert frontier.frontier_loss(better, 1e24) < BASELINE.E
    assert float(frontier.gain(better, BASELINE, 1e24)) == 1
    assert np.isposinf(frontier.log_compute(BASELINE, frontier.frontier_loss(better, 1e24)))


def test_a_hopeless_target_gives_a_finite_gain() -> None:
    worse = BASELINE._replace(a=np.float64(0.01), c=np.float64(0.01))
    assert np.isfinite(frontier.gain(worse, BASELINE, 1e21))


def test_windows() -> None:
    trained = frontier.trained(points(endpoint_rows(), "baseline"))
    assert trained.compute == pytest.approx((1.296e19, 2.206e21), rel=2e-3)
    # The optimum leaves the trained F a little below the end of the compute window.
    places = {
        5e18: "extrapolated",
        1e20: "inside",
        8e20: "inside",
        1.1e21: "edge",
        1.7e21: "edge",
        2e21: "extrapolated",
        3e21: "extrapolated",
    }
    dense = cut("baseline", 0.85)
    assert {compute: frontier.window(dense, trained, compute) for compute in places} == places
    edge, beyond = (frontier.optimum(dense, compute)[0] / trained.flops[1] for compute in (1.7e21, 2e21))
    assert 1.4 < edge < frontier.FARTHEST < beyond
    assert frontier.weakest("inside", "edge") == "edge"
    assert frontier.weakest("extrapolated", "inside") == "extrapolated"


@pytest.mark.parametrize(
    ("flops", "tokens", "words"),
    [
        (120.0, 1e9, "optimum at 1.2e+02 FLOPs a token, 20,000 times below the smallest network trained"),
        (9.6e6, 1e9, "optimum at 9.6e+06 FLOPs a token, 2 times above the largest network trained"),
        (4.848e6, 1e9, "optimum at 4.8e+06 FLOPs a token, 1 % above the largest network trained"),
        (3e6, 1e7, "optimum at 1.0e+07 tokens, 10 times below the shortest training"),
        (3e6, 3e10, "optimum at 3.0e+10 tokens, 3 times above the longest training"),
        (3e6, 1e9, "optimum at 3.0e+06 FLOPs a token, inside the trained (F, D)"),
    ],
)
def test_where_an_optimum_lies_in_words(flops: float, tokens: float, words: str) -> None:
    sizes, lengths = (np.array(values) for values in zip(*itertools.product((2.4e6, 4.8e6), (1e8, 1e10)), strict=True))
    assert frontier.whereabouts(flops, tokens, trained_on(sizes, lengths)) == words


def test_off_a_ladder_of_sizes_is_outside_in_words() -> None:
    sizes = np.array([1e6, 4e6, 1.6e7])
    words = frontier.whereabouts(4e6, 3.2e8, trained_on(sizes, 20 * sizes))
    assert words == "optimum at 4.0e+06 FLOPs a token and 3.2e+08 tokens, 2 times outside the trained (F, D)"


def trained_on(flops: Array, tokens: Array) -> frontier.Trained:
    some = points(endpoint_rows(), "baseline")
    return frontier.trained(dataclasses.replace(some, variables={"flops": flops, "tokens": tokens}))
