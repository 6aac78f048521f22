"""Every surface: its formula, its coordinates, its slice and what the points must have."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.errors import UserError
from smelt.surfaces.catalogue import CHINCHILLA, LOOPED_DEPTH, LOOPED_MOE, SMELT, SURFACES, Surface
from smelt.surfaces.points import Array, Points

# Coefficients as published: Eq. 2 and its part without S; a depth law; the joint law of arXiv 2609.40316.
VALUES = {
    "smelt": np.array([1.4439, 1366, 1.975e6, 0.3703, 0.1530, 0.6594]),
    "chinchilla": np.array([1.8172, 477.8, 2143, 0.3473, 0.3672]),
    "looped_depth": np.array([1.4, 500, 1.9e6, 0.35, 0.65, 0.46]),
    "looped_moe": np.array(
        # E, A, K, a, c; what the expansion changes of A, a, K, c; kappa1, kappa2, theta; the expansion's ends
        [
            *(1.3555, 0.8085, 3.4291, 0.1951, 0.7548),
            *(-0.1935, -0.0137, -0.2056, 0.0881),
            *(0.3682, 1.4037, 0.3286, 1.3174, 57.12),
        ]
    ),
}


def variables(count: int, seed: int = 0) -> dict[str, Array]:
    """Endpoints of mixed shapes."""
    random = np.random.default_rng(seed)
    visits = random.integers(1, 5, count).astype(float)
    active = 10 ** random.uniform(8, 9.2, count)
    expansion = 2.0 ** random.integers(0, 6, count)
    return {
        "flops": 6 * active * (1 + 0.5 * (visits - 1)),
        "tokens": 10 ** random.uniform(10, 11.7, count),
        "active": 1 / expansion,
        "params": active * (0.2 + 0.8 * expansion),
        "active_params": active,
        "looped_params": active * random.uniform(0.3, 0.7, count),
        "visits": visits,
        "expansion": expansion,
    }


def points(loss: Array, columns: Mapping[str, Array]) -> Points:
    """Points that are a cell each."""
    labels = np.array([f"{place}" for place in range(loss.size)])
    return Points("one", np.arange(loss.size), np.full(loss.size, "one"), labels, labels, loss, columns)


def written_out(name: str, at: Mapping[str, Array]) -> Array:
    """The formulas once more, in plain numbers."""
    v = dict(zip(SURFACES[name].coefficients, VALUES[name], strict=True))
    flops, tokens, visits = at["flops"], at["tokens"], at["visits"]
    if name == "smelt":
        return v["E"] + v["A"] * at["active"] ** v["b"] / flops ** v["a"] + v["K"] / tokens ** v["c"]
    if name == "chinchilla":
        return v["E"] + v["A"] / flops ** v["a"] + v["K"] / tokens ** v["c"]
    if name == "looped_depth":
        size = at["active_params"] - at["looped_params"] + visits ** v["phi"] * at["looped_params"]
        return v["E"] + v["A"] * size ** -v["a"] + v["K"] * tokens ** -v["c"]
    m = at["active_params"] / at["params"]
    kappa1, kappa2 = v["kappa1"] * m ** -v["theta"], v["kappa2"] * m ** -v["theta"]
    size = (at["active_params"] + kappa1 * at["looped_params"] * (1 - np.exp(-(visits - 1) / kappa2))) / 1e9
    start, most = v["expansion_start"], v["expansion_max"]
    expert = 1 / (1 / (at["expansion"] - 1 + 1 / (1 / start - 1 / most)) + 1 / most)
    capacity = v["A"] * expert ** v["A_expansion"] * size ** (-v["a"] + v["a_expansion"] * np.log(expert))
    data = v["K"] * expert ** v["K_expansion"] * (tokens / 1e9) ** (-v["c"] + v["c_expansion"] * np.log(expert))
    return v["E"] + capacity + data


@pytest.mark.parametrize("name", SURFACES)
def test_prediction_is_the_formula(name: str) -> None:
    at = variables(40)
    surface = SURFACES[name]
    np.testing.assert_allclose(surface.predict(VALUES[name], at), written_out(name, at), rtol=1e-12)
    many = np.stack([VALUES[name], VALUES[name] * 1.01])
    both = surface.predict(many[:, None], at)
    assert both.shape == (2, 40)
    np.testing.assert_array_equal(both[0], surface.predict(VALUES[name], at))


@pytest.mark.parametrize("name", SURFACES)
def test_slopes_are_those_of_the_log_terms(name: str) -> None:
    """Against complex steps, which are exact to rounding."""
    surface, at = SURFACES[name], variables(40)
    logged = [parameter.log for parameter in surface.parameters]
    middle = np.where(logged, np.log(np.where(logged, VALUES[name], 1)), VALUES[name])
    names = surface.coefficients
    jets = surface.terms(dict(zip(names, middle, strict=True)), at)
    for place, coefficient in enumerate(names):
        moved = middle.astype(np.complex128)
        moved[place] += 1e-40j
        for level, (_, slopes), (stepped, _) in zip(
            ("A", "K"), jets, surface.terms(dict(zip(names, moved, strict=True)), at), strict=True
        ):
            expected = np.broadcast_to(np.imag(stepped) / 1e-40, 40)
            found = np.broadcast_to(1.0 if coefficient == level else slopes.get(coefficient, 0.0), 40)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SURFACES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_coefficients_go_there_and_back(name: str, seed: int) -> None:
    surface, at = SURFACES[name], variables(30, seed)
    design = surface.design(points(surface.predict(VALUES[name], at), at))
    values = VALUES[name] * np.exp(0.1 * np.random.default_rng(seed).standard_normal((5, VALUES[name].size)))
    np.testing.assert_allclose(surface.to_values(surface.to_theta(values, design), design), values, rtol=1e-9)


@pytest.mark.parametrize("name", SURFACES)
def test_a_section_is_the_surface_at_one_shape(name: str) -> None:
    surface, at = SURFACES[name], variables(8)
    for row in range(8):
        one = {key: column[row : row + 1] for key, column in at.items()}
        cut = surface.slice(VALUES[name], one)
        for grow, more in ((1.0, 1.0), (3.0, 1.0), (1.0, 5.0)):
            sizes = ("flops", "params", "active_params", "looped_params")
            grown = one | {key: one[key] * grow for key in sizes} | {"tokens": one["tokens"] * more}
            loss = cut.E + cut.A / grown["flops"] ** cut.a + cut.K / grown["tokens"] ** cut.c
            np.testing.assert_allclose(loss, surface.predict(VALUES[name], grown), rtol=1e-12)


def test_sections_of_draws() -> None:
    drawn = VALUES["smelt"] * np.linspace(0.9, 1.1, 7)[:, None]
    cut = SMELT.slice(drawn, {"active": np.float64(0.05)})
    np.testing.assert_allclose(cut.A, drawn[:, 1] * 0.05 ** drawn[:, 4], rtol=1e-12)
    assert cut.E.shape == cut.c.shape == (7,)


def test_capacity_in_parameters_where_there_are_no_flops() -> None:
    at = {key: column for key, column in variables(20).items() if key in ("params", "tokens")}
    expected = 1.8172 + 477.8 * at["params"] ** -0.3473 + 2143 * at["tokens"] ** -0.3672
    np.testing.assert_allclose(CHINCHILLA.predict(VALUES["chinchilla"], at), expected, rtol=1e-12)
    cut = CHINCHILLA.slice(VALUES["chinchilla"], at)
    np.testing.assert_allclose(cut.A * (6 * at["params"]) ** -cut.a, 477.8 * at["params"] ** -0.3473, rtol=1e-12)


def test_a_surface_says_what_it_lacks() -> None:
    at = {key: column for key, column in variables(5).items() if key in ("flops", "tokens", "active")}
    for surface, missing in ((LOOPED_DEPTH, "active_params, looped_params, visits"), (LOOPED_MOE, "params")):
        with pytest.raises(UserError, match=f"{surface.name}.*needs .*{missing}"):
            surface.design(points(np.full(5, 2.0), at))


@pytest.mark.parametrize(
    ("surface", "changes", "held"),
    [
        (SMELT, {}, {}),
        (SMELT, {"active": 0.05}, {"b": (0.0, "b is held at 0: there is one sparsity")}),
        (LOOPED_DEPTH, {"visits": 1.0}, {"phi": (0.0, "phi is held at 0: all endpoints have the same visits")}),
        (CHINCHILLA, {"active": 0.05, "visits": 1.0}, {}),
    ],
)
def test_what_nothing_can_determine_is_held(
    surface: Surface, changes: Mapping[str, float], held: Mapping[str, tuple[float, str]]
) -> None:
    at = variables(20)
    at |= {key: np.full(20, value) for key, value in changes.items()}
    mine = points(np.full(20, 2.0), at)
    assert surface.fixed(mine) == held
    design = surface.design(mine, {key: value for key, (value, _) in held.items()})
    assert [surface.coefficients[place] for place in np.flatnonzero(~design.free)] == list(held)


def test_levels_cannot_be_held() -> None:
    with pytest.raises(ValueError, match="A is a level"):
        SMELT.design(points(np.full(20, 2.0), variables(20)), {"A": 3.0})
