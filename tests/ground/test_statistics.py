"""Known answers: errors, intervals, centred scores, sign flips against all patterns, Holm against an example."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smelt import statistics
from smelt.statistics import holm, sign_flips, t_interval

TENTHS = st.lists(st.integers(-20, 20), min_size=1, max_size=9)


def test_a_standard_error_by_hand():
    assert statistics.standard_error(np.array([4.0, 4.2, 4.4])) == pytest.approx(0.2 / 3**0.5)
    assert statistics.standard_error(np.array([4.0])) is None


def test_the_reach_of_student_s_t_is_the_tabulated_one():
    reaches = [statistics.t_reach(1.0, count) for count in (2, 3, 11)]
    assert reaches == pytest.approx([12.706205, 4.302653, 2.228139], abs=1e-6)


def test_the_jackknife_of_a_mean_is_its_t_interval():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    left_out = np.array([np.delete(values, place).mean() for place in range(4)])
    reach = 3.182446 * values.std(ddof=1) / 2
    assert statistics.jackknife_interval(3.5, left_out) == pytest.approx((3.5 - reach, 3.5 + reach), abs=1e-6)


def test_a_percentile_interval_is_taken_column_by_column():
    low, high = statistics.percentile_interval(np.column_stack([np.arange(41.0), -np.arange(41.0)]))
    assert (low.tolist(), high.tolist()) == ([1, -39], [39, -1])


def test_a_random_answer_is_centred_to_nothing_and_a_right_one_stays():
    assert statistics.centred(np.array([0.25, 1.0, 0.0]), 0.25) == pytest.approx([0, 1, -1 / 3])
    assert statistics.centred(0.625, 0.25) == 0.5


@given(TENTHS)
def test_the_p_values_are_the_shares_of_all_patterns(tenths):
    found = sign_flips(np.array(tenths) / 10)
    patterns = itertools.product((1, -1), repeat=len(tenths))
    sums = [sum(sign * one for sign, one in zip(pattern, tenths, strict=True)) for pattern in patterns]
    observed = sum(tenths)
    assert Fraction(found.p) == Fraction(sum(one >= observed for one in sums), len(sums))
    assert Fraction(found.p_two_sided) == Fraction(sum(abs(one) >= abs(observed) for one in sums), len(sums))
    assert found.exact


def test_ten_seeds_of_one_sign_reach_the_smallest_value():
    found = sign_flips(np.linspace(0.001, 0.02, 10))
    assert (found.p, found.p_two_sided, found.patterns) == (1 / 1024, 2 / 1024, 1024)
    assert sign_flips(-np.linspace(0.001, 0.02, 10)).p == 1


def test_equal_differences_tie_in_spite_of_rounding():
    """0.1 + 0.2 - 0.3 is no zero in floating point; the patterns that tie with the observed one must count."""
    assert sign_flips(np.array([0.1, 0.2, -0.3])).p == 5 / 8
    assert sign_flips(np.full(10, 0.1) * np.array([1] * 9 + [-1])).p == 11 / 1024


def test_no_difference_at_all_is_no_evidence():
    found = sign_flips(np.zeros(4))
    assert (found.p, found.p_two_sided, found.patterns) == (1.0, 1.0, 16)
    with pytest.raises(ValueError, match="no difference"):
        sign_flips(np.zeros(0))


def test_zeros_change_nothing():
    values = np.array([0.3, -0.1, 0.4, 0.2])
    padded = np.concatenate([values, np.zeros(500)])
    assert sign_flips(padded)[:2] == sign_flips(values)[:2]


def test_many_differences_are_sampled_with_a_seed_and_come_near_the_exact_value():
    values = np.random.default_rng(0).normal(0.2, 1, size=16)
    exact = sign_flips(values)
    sampled = sign_flips(values, exact=12, flips=20_000, seed=3)
    assert exact.exact
    assert not sampled.exact
    assert sampled.patterns == 20_001
    for near, value in ((sampled.p, exact.p), (sampled.p_two_sided, exact.p_two_sided)):
        assert abs(near - value) < 4 * np.sqrt(value * (1 - value) / 20_000)
    assert exact.p_two_sided > exact.p + 0.02
    assert sampled == sign_flips(values, exact=12, flips=20_000, seed=3)
    assert sampled != sign_flips(values, exact=12, flips=20_000, seed=4)
    assert sign_flips(np.ones(100), flips=1000).p == 1 / 1001  # never 0


def test_t_intervals_are_scipys_and_missing_where_there_is_one_value():
    values = np.array([[0.1, 0.4, -0.2], [0.3, 0.5, 0.4]])
    found = t_interval(values.mean(axis=1), values.std(axis=1, ddof=1), np.array([3, 3]))
    for place, one in enumerate(values):
        expected = stats.ttest_1samp(one, 0)
        assert found.p_two_sided[place] == pytest.approx(expected.pvalue)
        ends = expected.confidence_interval(0.95)
        assert [found.low[place], found.high[place]] == pytest.approx([ends.low, ends.high])
    none = t_interval(np.array([0.3, np.nan]), np.array([np.nan, 0.1]), np.array([1, 3]))
    assert np.isnan(np.array(none)).all()
    exact = t_interval(np.array([0.3, 0.0]), np.zeros(2), np.array([3, 3]))
    assert exact.low.tolist() == exact.high.tolist() == [0.3, 0.0]
    assert exact.p_two_sided.tolist() == [0.0, 1.0]


def test_holm_against_a_worked_example():
    adjusted = holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_is_never_below_the_raw_value_nor_above_bonferroni(p_values):
    adjusted = holm(p_values)
    for raw, one in zip(p_values, adjusted, strict=True):
        assert raw <= one <= 1
    assert min(adjusted) == pytest.approx(min(1, len(p_values) * min(p_values)))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
