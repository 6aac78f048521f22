"""Mistakes in `training`, `cells` and `runs` are named by the key that was written, and what changes nothing is one."""

import pytest

from smelt.errors import UserError
from tests.study.conftest import REMOVED
from tests.study.test_mistakes import SCALE

PAPERS = {"training/steps": 80, "training/branch_steps": REMOVED, "training/decay_steps": REMOVED}  # six branches
S85 = "runs/smelt-H16-S85"

MISTAKES = [
    # learning rates by architecture and scale
    (
        {"training/learning_rate": {"baseline": 0.1}},
        r"training\.learning_rate: no rate for architecture 'smelt'; given are baseline; add it, or write one number",
    ),
    (
        {"cells/H24-S85": {"learning_rate": {"baseline": {"H24": 0.1}}}},
        r"cells\.H24-S85\.learning_rate: no rate for architecture 'smelt'; given are baseline; add it, or write one",
    ),
    (
        {S85: {"learning_rate": {}}},
        r"runs\.smelt-H16-S85\.learning_rate: no rate for architecture 'smelt'; given are none",
    ),
    (
        {"training/learning_rate": {"baseline": {"H16": 0.1}, "smelt": 0.1}},
        r"training\.learning_rate\.baseline: no rate for scale 'H24'; given are H16; add it, or write one number",
    ),
    (
        {"training/learning_rate": {"baseline": {"H16": 0.1, "H42": 0.1}, "smelt": 0.1}},
        r"training\.learning_rate\.baseline: 'H42' is no scale of the grid; did you mean 'H24'\?",
    ),
    (
        {"training/learning_rate": {"baseline": 0.1, "smlt": 0.1}},
        r"training\.learning_rate: 'smlt' is no architecture of the grid; did you mean 'smelt'\?",
    ),
    # lists by scale
    (
        {"seeds": {"H16": [0], "H42": [0, 1]}},
        r"seeds: 'H42' is no scale of the grid; did you mean 'H24'\?",
    ),
    (
        {"seeds": {"H16": [0, 1]}},
        r"seeds: no list for scale 'H24'; add it, or write one list for all scales",
    ),
    (
        {"tuning/learning_rates": {"H16": [0.1], "H24": []}},
        r"tuning\.learning_rates: no list for scale 'H24'; add it, or write one list for all scales",
    ),
    (
        {"cells/H24-S85": {"learning_rate": {"H24": 0.1}}},
        r"cells\.H24-S85\.learning_rate: 'H24' is no architecture of the grid; known are baseline, smelt",
    ),
    (
        {S85: {"learning_rate": {16: 0.1}}},
        r"smelt-H16-S85\.learning_rate: 16 is no architecture of the grid; known are b",
    ),
    *(
        (
            {"training/learning_rate": {"baseline": rate, "smelt": 0.1}},
            r"training\.learning_rate\.baseline.*: .* is no number above 0; write one, with a point, as 1\.0e-3",
        )
        for rate in ("1e-3", -0.1, True, {"H16": {"S85": 0.1}}, {"H16": [0.1]})
    ),
    # branches
    (
        {S85: {"branch_steps": [2, 8]}},
        r"runs\.smelt-H16-S85\.branch_steps: smelt-H16-S85 has 2 branches and baseline-H16-S0 has 3; all runs branch "
        r"off equally often: give branch_steps of 3",
    ),
    (
        {**PAPERS, "cells/H24-S85": {"steps": 4}},
        r"cells\.H24-S85\.steps: .*-H24-S85 has 4 branches and .* has 6; .*: give more steps, or branch_steps of 6",
    ),
    # the warm-up
    (
        {"training/warmup_steps": 8},
        r"training\.warmup_steps: 8 with 8 steps of the stable phase, .* reaches its peak; lower it, or raise steps",
    ),
    ({"cells/H24-S85": {"warmup_steps": 9}}, r"cells\.H24-S85\.warmup_steps: 9 with 8 steps"),
    (
        {"training/warmup_steps": 7, S85: {"steps": 6, "branch_steps": [2, 5, 6]}},
        r"runs\.smelt-H16-S85\.warmup_steps: 7 with 6 steps",
    ),
    # names
    (
        {"runs/smelt-H16-S91": {"steps": 9}},
        r"runs\.smelt-H16-S91: no such run; a run is ARCHITECTURE-SCALE-SPARSITY; did you mean 'smelt-H16-S90'\?",
    ),
    ({"cells/H25-S85": {}}, r"cells\.H25-S85: no such cell; a cell is SCALE-SPARSITY; did you mean 'H24-S85'\?"),
    (
        {"grid/scales/H42": {**SCALE, "hidden_size": 48}, "cells/H25-S85": {}},
        r"cells\.H25-S85: .*; did you mean 'H24-S85'\?",  # and not H42-S85, which has as many letters of it
    ),
    ({"cells/all": {}}, r"cells\.all: no such cell; .*; known are H16-S85, H16-S90, H24-S85$"),
    (
        {"runs/H24-S85": {}},
        r"runs\.H24-S85: this is a cell; put it under cells, or name a run, ARCHITECTURE-SCALE-SPARSITY, as "
        r"baseline-H24-S85",
    ),
    (
        {"cells/smelt-H24-S85": {}},
        r"cells\.smelt-H24-S85: this is a run; put it under runs, or name a cell, SCALE-SPARSITY, as H24-S85",
    ),
    # no effect
    (
        {"cells/H16-S0": {"steps": 9}},
        r"cells\.H16-S0: it is not trained \(grid\.sparsities\.S0 says trained: false\), .* changes nothing; take it",
    ),
    ({"cells/H24-S90": {"steps": 9}}, r"cells\.H24-S90: it is not trained \(grid\.exclude leaves it out\), so that"),
    ({"runs/smelt-H16-S0": {"steps": 9}}, r"runs\.smelt-H16-S0: it is not trained \(grid\.sparsities\.S0"),
    (
        {"grid/exclude": ["smelt-H16-S85"], S85: {"learning_rate": 0.1}},
        r"runs\.smelt-H16-S85: it is not trained \(grid\.exclude",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), MISTAKES, ids=[f"{n}-{next(iter(c))}" for n, (c, _) in enumerate(MISTAKES)]
)
def test_a_mistake_names_the_key_that_was_written(read, tmp_path, changes, message):
    with pytest.raises(UserError, match=message) as error:
        read(changes)
    assert str(error.value).startswith(f"{tmp_path / 'study.yaml'}: ")
    assert "\n" not in str(error.value)


def test_a_cell_of_which_one_run_is_trained_takes_settings(read):
    study = read({"grid/exclude": ["smelt-H16-S85"], "cells/H16-S85": {"learning_rate": 0.1}})
    assert study.runs["baseline-H16-S85"].training.learning_rate == 0.1


def test_rates_of_a_cell_may_be_given_by_architecture_and_scale(read):
    study = read({"cells/H24-S85": {"learning_rate": {"baseline": 0.1, "smelt": {"H24": 0.2}}}})
    rates = {run.name: run.training.learning_rate for run in study.trained}
    assert (rates["baseline-H24-S85"], rates["smelt-H24-S85"], rates["smelt-H16-S85"]) == (0.1, 0.2, 0.02)


def test_fewer_steps_with_as_many_branches_are_no_mistake(read):
    study = read({"training/warmup_steps": 3, "cells/H24-S85": {"steps": 4, "branch_steps": [1, 2, 4]}})
    assert study.runs["smelt-H24-S85"].training.branch_steps == (1, 2, 4)
