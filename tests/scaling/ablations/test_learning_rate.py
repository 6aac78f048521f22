"""The sweep of the learning rate: the best rate, whether it is bracketed, and both comparisons."""

import numpy as np
import pandas as pd
import pytest

from smelt.errors import UserError
from smelt.scaling.ablations.learning_rate import analyse, sweep, vertex

CELL = ("H64", "S85")


def analysed(losses):
    """Rows of the analysis of losses by architecture and rate, each loss that of one seed."""
    endpoints = [
        {"architecture": name, "scale": CELL[0], "sparsity": CELL[1], "learning_rate": rate, "tokens": 10, "loss": loss}
        for name, by_rate in losses.items()
        for rate, values in by_rate.items()
        for loss in values
    ]
    return analyse(pd.DataFrame(endpoints), "baseline").to_dict("records")


def rows_of(rows, architecture):
    return [row for row in rows if row["architecture"] == architecture]


def test_the_vertex_of_a_parabola_in_log_rate_is_found_exactly():
    rates = [0.002, 0.005, 0.02]
    losses = [3 + 0.4 * np.log(rate / 0.007) ** 2 for rate in rates]
    assert vertex(rates, losses) == pytest.approx(0.007)


@pytest.mark.parametrize(
    ("losses", "best", "bracketed", "reason"),
    [
        ([3.0, 2.0, 2.5], 1, True, ""),
        ([2.0, 3.0, 4.0], 0, False, "lowest"),
        ([4.0, 3.0, 2.0], 2, False, "highest"),
    ],
)
def test_an_optimum_is_given_only_where_it_is_bracketed(losses, best, bracketed, reason):
    found = sweep([0.01, 0.02, 0.04], losses)
    assert (found["best"], found["bracketed"], found["optimum"] is not None) == (best, bracketed, bracketed)
    assert reason in found["reason"]


def test_differences_under_both_rules():
    losses = {
        "baseline": {0.01: [3.0], 0.02: [3.2, 3.4], 0.04: [4.0]},
        "smelt": {0.01: [3.1], 0.02: [2.8, 3.0], 0.04: [3.5]},
    }
    rows = analysed(losses)
    looped = rows_of(rows, "smelt")
    assert [row["best"] for row in looped] == [False, True, False]
    assert [row["difference_own_rate"] for row in looped] == pytest.approx([2.9 - 3.0] * 3)
    assert [row["difference_shared_rate"] for row in looped] == pytest.approx([3.1 - 3.0] * 3)
    assert {row["difference_own_rate"] for row in rows_of(rows, "baseline")} == {0.0}
    assert [row["seeds"] for row in looped] == [1, 2, 1]


def test_a_cell_without_the_reference_is_refused():
    with pytest.raises(UserError, match="reference baseline was not trained"):
        analysed({"smelt": {0.01: [3.0]}})


def test_an_architecture_without_a_run_at_the_shared_rate_has_no_difference_there():
    rows = analysed({"baseline": {0.01: [3.0], 0.02: [2.0]}, "smelt": {0.01: [2.5]}})
    (looped,) = rows_of(rows, "smelt")
    assert looped["difference_own_rate"] == 0.5
    assert pd.isna(looped["difference_shared_rate"])
