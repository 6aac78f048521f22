"""What the package exports: the example of its docstring, and the same gain by search."""

from functools import partial

import numpy as np
import pytest

import smelt.surfaces
from smelt.surfaces import SMELT, frontier, gain, loss, optimum, search, tokens_per_parameter

BASELINE = np.array([1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594])
LOOPED = np.array([1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011])


def test_the_example_of_the_docstring_gives_the_papers_gain() -> None:
    baseline, looped = (SMELT.slice(values, {"active": 1 - 0.85}) for values in (BASELINE, LOOPED))
    assert gain(looped, baseline, 1e20) == pytest.approx(0.0986, abs=2e-4)
    flops, tokens = optimum(looped, 1e20)
    assert flops * tokens == pytest.approx(1e20)
    assert tokens_per_parameter(looped, 1e20) == pytest.approx(6 * tokens / flops)
    searched = search.gain(partial(loss, looped), partial(loss, baseline), 1e20)
    assert gain(looped, baseline, 1e20) == pytest.approx(searched, abs=1e-8)


def test_lists_of_numbers_will_do() -> None:
    """As the docstring writes them, without numpy."""
    baseline = SMELT.slice(BASELINE.tolist(), {"active": 1 - 0.85})
    with_numpy = SMELT.slice(BASELINE, {"active": np.float64(1 - 0.85)})
    assert loss(baseline, 1e9, 1e11) == frontier.loss(with_numpy, 1e9, 1e11)


def test_every_export_is_there() -> None:
    assert all(hasattr(smelt.surfaces, name) for name in smelt.surfaces.__all__)
