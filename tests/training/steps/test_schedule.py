"""The learning rate is a pure function of step and branch."""

import math

import pytest

from smelt.errors import UserError
from smelt.training.settings import PAPER_BRANCHES, TrainingSettings, paper_branches, paper_decay
from smelt.training.steps.schedule import decay_rate, stable_rate

RECIPE = TrainingSettings(steps=100, branch_steps=(5, 50, 100), decay_steps=4, learning_rate=0.2, warmup_steps=9)


def test_warm_up_is_linear_then_constant():
    rates = [stable_rate(step, RECIPE) for step in range(100)]
    assert rates[:10] == pytest.approx([0.02 * (step + 1) for step in range(10)])
    assert set(rates[9:]) == {0.2}


def test_no_warm_up_starts_at_the_peak():
    assert stable_rate(0, TrainingSettings(10, (10,), 1, 0.3, warmup_steps=0)) == 0.3


def test_decay_falls_as_a_cosine_from_the_stable_rate_and_never_ends_in_a_step_of_zero():
    rates = [decay_rate(step, 50, RECIPE) for step in range(4)]
    assert rates == pytest.approx([0.1 * (1 + math.cos(math.pi * step / 5)) for step in (1, 2, 3, 4)])
    assert 0.2 > rates[0] > rates[-1] > 0


def test_decay_from_within_the_warm_up_starts_where_the_warm_up_is():
    assert decay_rate(0, 5, RECIPE) < stable_rate(4, RECIPE) == pytest.approx(0.1)


def test_paper_proportions():
    assert paper_branches(196_075) == PAPER_BRANCHES
    assert paper_decay(196_075) == 9_537
    assert paper_branches(80) == (4, 8, 20, 41, 61, 80)
    assert paper_decay(80) == 4


def test_branch_step_beyond_the_stable_phase_is_refused():
    with pytest.raises(UserError, match="branch step 12 lies beyond the stable phase of 10 steps"):
        TrainingSettings(10, (5, 12), 2, 0.1)
    with pytest.raises(UserError, match="must grow"):
        TrainingSettings(10, (5, 5), 2, 0.1)
