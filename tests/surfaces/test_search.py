"""Search and closed forms agree on every kind of surface."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.surfaces import frontier, search
from smelt.surfaces.catalogue import SURFACES, Surface
from smelt.surfaces.points import Array

# An endpoint whose shape is held: parameters for each training FLOP per token, loops, experts.
SHAPE = {"params": 0.9, "active_params": 0.11, "looped_params": 0.05, "visits": 2.0, "expansion": 12.0, "active": 0.06}
RANGES = {
    "E": (0.5, 3),
    "A": (1, 1e4),
    "K": (10, 1e7),
    "a": (0.1, 0.9),
    "b": (-0.3, 0.5),
    "c": (0.1, 0.9),
    "phi": (-0.5, 1.5),
    "kappa1": (0.1, 1),
    "kappa2": (0.5, 3),
    "theta": (0, 0.6),
    "expansion_start": (1.1, 2),
    "expansion_max": (30, 90),
}
BILLIONS = {"A": (0.3, 2), "K": (1, 8)}  # N and D in billions


def coefficients(draw: Callable[[st.SearchStrategy[float]], float], surface: Surface) -> Array:
    ranges = RANGES | (BILLIONS if surface.name == "looped_moe" else {})
    return np.array([draw(st.floats(*ranges.get(name, (-0.03, 0.03)))) for name in surface.coefficients])


def endpoint(flops: Array, tokens: Array) -> dict[str, Array]:
    """All that a surface may read, of models of one shape and any size."""
    sizes = {name: SHAPE[name] * np.asarray(flops) for name in ("params", "active_params", "looped_params")}
    rest = {name: np.asarray(SHAPE[name]) for name in ("visits", "expansion", "active")}
    return {"flops": np.asarray(flops), "tokens": np.asarray(tokens), **sizes, **rest}


def held(surface: Surface, values: Array) -> frontier.Slice:
    one = {name: np.atleast_1d(value) for name, value in endpoint(np.array(1e9), np.array(1e10)).items()}
    return surface.slice(values, one)


def loss_of(surface: Surface, values: Array) -> search.Loss:
    return lambda flops, tokens: surface.predict(values, endpoint(flops, tokens))


@pytest.mark.parametrize("name", SURFACES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_closed_forms_are_what_a_search_finds(name: str, data: st.DataObject) -> None:
    surface = SURFACES[name]
    target, reference = (coefficients(data.draw, surface) for _ in range(2))
    reference[0] = target[0] + data.draw(st.floats(-0.1, 0.02))
    compute = float(np.exp(data.draw(st.floats(35, 52))))
    ones = held(surface, target), held(surface, reference)
    log_flops, least = search.optimum(loss_of(surface, target), float(np.log(compute)))
    assert least == pytest.approx(float(frontier.frontier_loss(ones[0], compute)), rel=1e-12)
    assert log_flops == pytest.approx(float(np.log(frontier.optimum(ones[0], compute)[0])), abs=1e-4)
    multiplier = float(frontier.log_multiplier(*ones, compute))
    found = search.gain(loss_of(surface, target), loss_of(surface, reference), compute)
    if -30 < multiplier < 100:  # where the gain is not a number of many digits
        assert found == pytest.approx(float(frontier.gain(*ones, compute)), rel=1e-7, abs=1e-9)


def test_a_loss_out_of_reach() -> None:
    low, high = (frontier.Slice(*map(np.float64, (level, 1e3, 1e6, 0.4, 0.7))) for level in (1.2, 1.5))
    losses = partial(frontier.loss, low), partial(frontier.loss, high)
    assert search.gain(*losses, 1e24) == 1
    assert search.log_compute(losses[1], 1.4, 50.0) == np.inf
    assert search.log_compute(losses[0], 1e200, 50.0) == -np.inf
