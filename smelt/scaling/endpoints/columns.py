"""The columns that a user's table of endpoints may have: what they hold, in which units, and what cannot be right."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from smelt.errors import UserError
from smelt.labels import CONTROL
from smelt.scaling.settings import CONVENTIONS
from smelt.user_files.table import TableFile

Values = dict[str, list[Any]]  # by column, one value a row
LARGEST_RATIO = 1e5  # of the values of one column: beyond it one of them is in another unit


class Column(NamedTuple):
    """What a number must be: text for a message, and the check."""

    expected: str
    valid: Callable[[float], bool]


def _whole(least: int) -> Column:
    return Column(f"a whole number of at least {least}", lambda value: value == int(value) and value >= least)


POSITIVE = Column("a positive number", lambda value: value > 0)
SPARSITY = Column("a sparsity in [0, 1)", lambda value: 0 <= value < 1)
CONVENTIONAL = tuple(f"S_{convention}" for convention in CONVENTIONS)
TEXTS = ("architecture", "scale", "sparsity", "cell", "source")
NUMBERS: dict[str, Column] = {
    "flops_per_token": POSITIVE,
    "params": POSITIVE,
    "tokens": POSITIVE,
    "loss": POSITIVE,
    "S": SPARSITY,
    **dict.fromkeys(CONVENTIONAL, SPARSITY),
    "seed": _whole(0),
    "branch_step": _whole(1),
    "active_params": _whole(1),
    "looped_params": _whole(0),
    "visits": _whole(1),
    "expansion": Column("a number of at least 1", lambda value: value >= 1),
}
COLUMNS = ("architecture", "flops_per_token", "params", "tokens", "loss", *TEXTS[1:], *list(NUMBERS)[4:])
# What a column that every file needs holds.
NEEDED = {
    "architecture": "the name of the kind of model, one throughout if there is one",
    "tokens": "all the tokens that the model was trained on",
    "loss": "the held-out loss in nats per token",
}
ABBREVIATED = re.compile(r"([0-9.]+) *([kmbgt])", re.IGNORECASE)  # as 20.5B
POWERS = {"k": 3, "m": 6, "b": 9, "g": 9, "t": 12}  # of ten
# Names that others give them, in small letters.
ALIASES = {
    "arch": "architecture",
    "model": "architecture",
    "f": "flops_per_token",
    "flops": "flops_per_token",
    "n": "params",
    "parameters": "params",
    "d": "tokens",
    "l": "loss",
    "val_loss": "loss",
    "validation_loss": "loss",
    "group": "cell",
}
# Column: the least and the largest value that is not surely in another unit, and what to say of those beyond.
UNITS: dict[str, tuple[float, str, float, str]] = {
    "tokens": (
        1e4,
        "tokens are counted one by one, and this looks like billions: write {0}e9 ({0}e6 if millions)",
        1e18,
        "",
    ),
    "params": (
        1e4,
        "parameters are counted one by one, and this looks like billions: write {0}e9 ({0}e6 if millions)",
        1e16,
        "",
    ),
    "flops_per_token": (
        1e4,
        "FLOPs are counted one by one, and this looks like billions: write {0}e9 ({0}e6 if millions)",
        1e16,
        "these are surely the FLOPs of the whole training: divide them by its tokens",
    ),
    "loss": (0, "", 20, "this looks like a perplexity: write its logarithm, nats per token"),
}
# Empty cells are allowed in these, and mean that the value is not known.
NULLABLE = {"params", "active_params", "looped_params", "visits", "expansion", *CONVENTIONAL}


def parsed(table: TableFile, losses: bool = True) -> Values:
    """The columns of a file as texts and numbers, each value checked; `losses`: whether it must have them.

    Raises UserError, naming row and column, on values that cannot be right: a line for the first of each column.
    """
    _check_needed(table, losses)
    values: Values = {}
    mistakes = []
    for name in table.columns:
        try:
            values[name] = _column(table, name)
        except UserError as error:
            mistakes.append(str(error))
    if mistakes:
        raise UserError("\n".join(mistakes))
    return values


def _column(table: TableFile, name: str) -> list[Any]:
    rows = range(len(table.data))
    if name in TEXTS:
        return [_text(table, index, name) for index in rows]
    labels = table.cells("sparsity") if "sparsity" in table.columns else [None for _ in rows]
    numbers = [_number(table, index, name, labels[index] == CONTROL) for index in rows]
    _check_units(table, name, numbers)
    return numbers


def _check_needed(table: TableFile, losses: bool) -> None:
    for name, meaning in NEEDED.items():
        if name not in table.columns and (losses or name != "loss"):
            raise UserError(
                f"{table.path}: the column {name!r} is missing, {meaning}; the file has {', '.join(table.columns)}"
            )
    if not {"flops_per_token", "params", "active_params"} & set(table.columns):
        raise UserError(
            f"{table.path}: the column 'flops_per_token' is missing; give it, or 'params' ('active_params' where S is "
            "above 0), for which F is 6 FLOPs each"
        )
    if not losses and "loss" in table.columns:
        raise UserError(f"{table.path}: losses are simulated here, and it has a column 'loss'; take that out")


def _text(table: TableFile, index: int, name: str) -> str:
    value = table.data[name].iloc[index]
    if value is None or not str(value).strip():
        raise UserError(f"{table.place(index, name)}: empty; expected a name")
    return str(value).strip()


def _number(table: TableFile, index: int, name: str, control: bool) -> float | None:
    value, kind = table.data[name].iloc[index], NUMBERS[name]
    if name in NULLABLE and (value is None or (isinstance(value, float) and math.isnan(value))):
        return None
    if value is None:
        raise UserError(f"{table.place(index, name)}: empty; expected {kind.expected}")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        said = f"{value!r} is no number; expected {kind.expected}{_plain(value)}"
        raise UserError(f"{table.place(index, name)}: {said}") from None
    if kind is SPARSITY and control and -1 < number < 0:
        return number  # Eq. 1 with another architecture's control can put a looped control below zero
    if not (math.isfinite(number) and kind.valid(number)):
        raise UserError(f"{table.place(index, name)}: {value}; expected {kind.expected}{_percent(kind, number)}")
    return number


def _plain(value: Any) -> str:
    """How what is no number is written as one, where that can be said."""
    if abbreviated := ABBREVIATED.fullmatch(str(value)):
        return f": write {abbreviated[1]}e{POWERS[abbreviated[2].lower()]}"
    return " (a decimal point, no separator of thousands)" if isinstance(value, str) and "," in value else ""


def _percent(kind: Column, number: float) -> str:
    return f": a share, as {number / 100:g}" if kind is SPARSITY and 1 < number < 100 else ""


def _check_units(table: TableFile, name: str, values: list[float | None]) -> None:
    known = {index: value for index, value in enumerate(values) if value is not None}
    if name not in UNITS or not known:
        return
    least, too_small, most, too_large = UNITS[name]
    for index, value in known.items():
        if value < least or (value > most):
            advice = too_small.format(table.data[name].iloc[index]) if value < least else too_large
            raise UserError(f"{table.place(index, name)}: {value:g}; {advice or 'no training is as large'}")
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    if known[high] > LARGEST_RATIO * known[low]:
        raise UserError(
            f"{table.place(low, name)}: {known[low]:g} beside {known[high]:g} in row {table.first + high}; one of them "
            "is surely in another unit: write all in the same, plain one"
        )


def sparsity_of(table: TableFile, convention: str) -> tuple[str, str]:
    """The column that S is taken from, empty for none, and the convention that every gain states.

    A column S is taken as it is given, under no convention of ours; else that of the study's convention.
    """
    if "S" in table.columns:
        return "S", "given"
    if f"S_{convention}" in table.columns:
        return f"S_{convention}", convention
    if others := [name for name in CONVENTIONAL if name in table.columns]:
        raise UserError(
            f"{table.path}: no column S or S_{convention}, but {others[0]}; set scaling.s_convention: "
            f"{others[0].removeprefix('S_')}"
        )
    return "", "none"
