"""Units of one column against another: what no training has is refused, what few have is a warning."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest

from smelt.errors import UserError
from smelt.scaling.endpoints import user_table
from tests.scaling.published import endpoint_rows

COLUMNS = ["architecture", "cell", "flops_per_token", "tokens", "S", "loss"]
TABLE = pd.DataFrame([row | {"cell": f"{row['scale']}-{row['sparsity']}"} for row in endpoint_rows()])[COLUMNS]
SMELT = TABLE["architecture"] == "smelt"
ACTIVE = TABLE.assign(active_params=(TABLE["flops_per_token"] / 6.3).round())
LADDER = pd.DataFrame(
    [
        {"architecture": "gpt", "params": params, "tokens": tokens, "flops_per_token": 6.0 * params, "loss": loss}
        for params, losses in {1.2e6: (9.8, 8.0, 6.8), 3e6: (8.9, 7.0, 5.9), 7e6: (8.3, 6.4, 5.3)}.items()
        for tokens, loss in zip((5e6, 2e7, 8e7), losses, strict=True)
    ]
)


def times(table: pd.DataFrame, column: str, factor: float | pd.Series, which: Any = True) -> pd.DataFrame:
    """The table with a column (of some rows) multiplied."""
    return table.assign(**{column: table[column].where(~(which & (table[column] > 0)), table[column] * factor)})


def refused(table: pd.DataFrame) -> str:
    with pytest.raises(UserError) as error:
        user_table.from_frame(table)
    return str(error.value)


@pytest.mark.parametrize("table", [TABLE, ACTIVE, LADDER, LADDER.drop(columns="params")], ids=range(4))
def test_tables_in_plain_units_pass_in_silence(table: pd.DataFrame) -> None:
    assert user_table.from_frame(table).warnings == ()


@pytest.mark.parametrize(
    "table",
    [
        LADDER.assign(tokens=20 * LADDER["params"] * (1 + LADDER.index % 3), cell="one-size"),  # F and D grow together
        LADDER.assign(flops_per_token=6 * 60 * LADDER["params"]),  # sixty visits of all layers, or a long context
        LADDER.assign(flops_per_token=6 * 0.02 * LADDER["params"]),  # nearly all parameters are an embedding
        times(TABLE, "tokens", 1e-3),  # a fifth of a token per parameter: early training
        times(TABLE, "tokens", 1e3),  # long after any optimum
    ],
    ids=range(5),
)
def test_what_is_only_unusual_is_not_refused(table: pd.DataFrame) -> None:
    user_table.from_frame(table)


def test_flops_of_the_whole_training_are_refused_with_parameters() -> None:
    message = refused(times(LADDER, "flops_per_token", LADDER["tokens"]))
    assert message == (
        "the DataFrame: row 1 (counted from 1), column flops_per_token: 3.6e+13 is proportional to tokens and 7.2e+06 "
        "times as large: the FLOPs of the whole training; divide them by tokens (and 8 more rows)"
    )


def test_flops_of_the_whole_training_are_refused_by_cell_without_parameters() -> None:
    by_size = LADDER.assign(cell=LADDER["params"].astype(str)).drop(columns="params")
    assert "column flops_per_token: 3.6e+13 is proportional to tokens" in refused(
        times(by_size, "flops_per_token", LADDER["tokens"])
    )


def test_flops_of_the_whole_training_are_refused_without_cells_or_parameters() -> None:
    whole = times(LADDER, "flops_per_token", LADDER["tokens"]).drop(columns="params")
    assert "at most 8.3e-07 tokens per parameter (6 D / F), and 0.01 are expected" in refused(whole)


def test_tokens_in_millions_are_refused_by_architecture() -> None:
    millions = times(TABLE, "tokens", 1e-6).assign(tokens=lambda data: data["tokens"].round())
    first, second = refused(millions).split("\n")
    assert first.startswith("the DataFrame: row 1 (counted from 1), column tokens: 20486; baseline has at most 0.002 ")
    assert second.startswith("the DataFrame: row 73 (counted from 1), column tokens: 20486; smelt has at most")
    one = times(TABLE, "tokens", 1e-3, SMELT)
    assert "column tokens: in every cell 0.001 times that of baseline; one of them is in another unit" in refused(one)


@pytest.mark.parametrize(("factor", "said"), [(1e3, "1.05e+03 times 6 FLOPs"), (1e-3, "0.00105 times 6 FLOPs")])
def test_flops_in_another_unit_than_parameters_are_refused(factor: float, said: str) -> None:
    message = refused(times(ACTIVE, "flops_per_token", factor))
    assert f"column flops_per_token: {said} per active parameter; a factor beyond 100 is another unit" in message


def test_swapped_columns_of_parameters_are_refused() -> None:
    swapped = ACTIVE.assign(params=ACTIVE["active_params"] / 7)
    assert "column active_params: 1.005e+08, more than the 1.435e+07 params: are the columns swapped?" in refused(
        swapped
    )


def test_a_total_of_parameters_counts_as_its_active_share() -> None:
    """With F, S says how many of all parameters are active: no warning, and no refusal at the highest S."""
    total = TABLE.assign(params=TABLE["flops_per_token"] / 6 / (1 - TABLE["S"]))
    assert user_table.from_frame(total).warnings == ()


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1 / 3, "flops_per_token is 0.35 to 0.35 times 6 FLOPs per active parameter; forward FLOPs are a third"),
        (8, "flops_per_token is 8.4 to 8.4 times 6 FLOPs per active parameter; long contexts or visits"),
    ],
)
def test_unlikely_flops_are_a_warning(factor: float, said: str) -> None:
    (warning,) = user_table.from_frame(times(ACTIVE, "flops_per_token", factor, SMELT)).warnings
    assert warning.startswith(f"smelt: {said}")


def test_all_mistakes_are_listed_a_line_for_each_column() -> None:
    wrong = TABLE.astype(object)
    wrong.loc[[3, 4], "loss"] = -1
    wrong.loc[5, "tokens"] = "many"
    tokens, loss = refused(wrong).split("\n")
    assert "row 6 (counted from 1), column tokens: 'many' is no number" in tokens
    assert "row 4 (counted from 1), column loss: -1; expected a positive number" in loss


Counted = Callable[[Mapping[str, Any]], float]


@pytest.mark.parametrize(
    ("columns", "expected", "words"),
    [
        ({"params": 8e8, "active_params": 1e8}, 6e8, "F = 6 FLOPs per active parameter and token"),
        ({"active_params": 1e8}, 6e8, "F = 6 FLOPs per active parameter and token"),
        (
            {"active_params": 1e8, "looped_params": 5e7, "visits": 3},
            12e8,
            "F = 6 FLOPs per active parameter, visit and token",
        ),
        ({"params": 1e8, "S": 0.0}, 6e8, "F = 6 FLOPs per parameter and token"),
    ],
)
def test_f_is_counted_from_the_parameters_that_a_token_passes(
    columns: dict[str, float], expected: float, words: str
) -> None:
    table = TABLE[SMELT].drop(columns=["flops_per_token", "cell"]).drop_duplicates("tokens").assign(**columns)
    rows = user_table.from_frame(table).rows
    assert {row["flops_per_token"] for row in rows} == {expected}
    assert {row["source"] for row in rows} == {f"own endpoints; {words}"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"params": 8e8},
            "column params: 8e+08 with S = 0.86: idle experts are among them and cost no FLOPs; give flops",
        ),
        ({"params": 8e8, "active_params": None}, "idle experts are among them"),
        ({"params": None, "active_params": None}, "column params: empty; expected a positive number, or active_params"),
        ({"active_params": 1e8, "visits": 2}, "column visits: 2, and which parameters a token passes again is unknown"),
    ],
)
def test_f_is_refused_where_the_active_parameters_are_unknown(columns: dict[str, Any], words: str) -> None:
    assert words in refused(TABLE.drop(columns="flops_per_token").assign(**columns))
