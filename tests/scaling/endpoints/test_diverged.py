"""Losses that a smaller training beats by far are named when a table is read."""

import pandas as pd

from smelt.scaling.endpoints import user_table
from tests.scaling.published import endpoint_rows

COLUMNS = ["architecture", "scale", "sparsity", "flops_per_token", "tokens", "S", "loss"]
TABLE = pd.DataFrame(endpoint_rows())[COLUMNS]


def run_of(architecture: str, scale: str, sparsity: str) -> pd.Series:
    return (TABLE["architecture"] == architecture) & (TABLE["scale"] == scale) & (TABLE["sparsity"] == sparsity)


def warnings(loss: pd.Series) -> tuple[str, ...]:
    return user_table.from_frame(TABLE.assign(loss=loss)).warnings


def test_a_sound_table_says_nothing() -> None:
    assert warnings(TABLE["loss"]) == ()
    assert warnings(TABLE["loss"].where(~run_of("smelt", "1.6B", "S97"), 1.1 * TABLE["loss"])) == ()


def test_a_run_that_diverged_is_named_once() -> None:
    (said,) = warnings(TABLE["loss"].mask(run_of("smelt", "1.6B", "S97"), 11.0))
    assert said.startswith("smelt 1.6B S97, seed 0: 6 of 6 losses (up to 11) are over 1.25 times those of a smaller ")


def test_the_smallest_run_is_held_against_the_other_side_of_its_cell() -> None:
    (said,) = warnings(TABLE["loss"].mask(run_of("smelt", "100M", "S85"), 11.0))
    assert said.startswith("smelt 100M S85, seed 0: 6 of 6 losses (up to 11)")


def test_a_run_that_diverges_late_is_held_against_its_own_beginning() -> None:
    late = run_of("baseline", "600M", "S95") & (TABLE["tokens"] > 1e11)
    (said,) = warnings(TABLE["loss"].mask(late, 3.5))
    assert said.startswith("baseline 600M S95, seed 0: 3 of 6 losses (up to 3.5)")
