"""Distance of a point (F, D) from what was trained: known shapes, and the same answer as a linear program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from smelt.surfaces.hull import factor_outside, hull

GRID = np.array([(f, d) for f in (1e6, 4e6, 1.6e7) for d in (1e8, 1e9, 1e10)]).T
LADDER = np.array([(f, 20 * f) for f in (1e6, 4e6, 1.6e7)]).T


@pytest.mark.parametrize(
    ("flops", "tokens", "factor"),
    [
        (4e6, 1e9, 1),
        (1e6, 1e8, 1),  # a corner
        (2.5e5, 1e9, 4),
        (4e6, 3e10, 3),
        (3.2e7, 3e10, 3),  # both beyond: the larger one
        (np.nan, 1e9, np.nan),
    ],
)
def test_a_grid_is_its_box(flops, tokens, factor):
    assert factor_outside(hull(*GRID), np.array(flops), np.array(tokens)) == pytest.approx(factor, nan_ok=True)


def test_off_a_ladder_is_outside_even_within_its_box():
    corners = hull(*LADDER)
    assert factor_outside(corners, np.array(4e6), np.array(8e7)) == pytest.approx(1)
    # D four times above the ladder: F and D each miss by a factor of two.
    assert factor_outside(corners, np.array(4e6), np.array(3.2e8)) == pytest.approx(2)


def test_one_endpoint_is_a_point():
    assert factor_outside(hull(np.array([1e6]), np.array([1e9])), np.array(3e6), np.array(1e9)) == pytest.approx(3)


coordinates = st.tuples(st.floats(-4, 4), st.floats(-4, 4)).map(lambda point: tuple(round(x, 2) for x in point))


@settings(max_examples=60, deadline=None)
@given(st.lists(coordinates, min_size=1, max_size=9), coordinates)
def test_the_distance_is_that_of_a_linear_program(points, point):
    trained = np.array(points)
    count = len(points)
    # Least t with |x - sum w_i p_i| <= t in both coordinates, w >= 0, sum w = 1.
    sides = [sign * np.append(trained[:, axis], -sign) for axis in (0, 1) for sign in (1, -1)]
    bounds = [sign * point[axis] for axis in (0, 1) for sign in (1, -1)]
    solved = linprog(
        np.append(np.zeros(count), 1), A_ub=np.array(sides), b_ub=bounds, A_eq=[[1] * count + [0]], b_eq=[1]
    )
    found = factor_outside(hull(*np.exp(trained).T), *(np.array(np.exp(x)) for x in point))
    assert np.log(found) == pytest.approx(solved.fun, abs=1e-6)
