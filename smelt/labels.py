"""What a cell, a run and an endpoint are called, and the table of downstream scores that those names key."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from smelt.artifacts import field
from smelt.errors import UserError

CONTROL = "S0"  # label of the fully active control, which no fit uses unless it is named, or is all there is
SPARSITY = re.compile(r"S([0-9]{1,2}(?:[.][0-9]+)?)")  # label of a sparsity: S and the percentage

KEYS = ("architecture", "scale", "sparsity", "seed", "branch_step")  # of an endpoint
RUN_KEYS = KEYS[:-1]  # of the run that an endpoint branches off
Row = dict[str, Any]
Cell = tuple[str, str]  # scale, sparsity

KEY_FIELDS = (
    field("architecture", pa.string(), "execution plan"),
    field("scale", pa.string(), "label of the scale"),
    field("sparsity", pa.string(), "label of the sparsity"),
    field("seed", pa.int32(), "seed of initialisation and of the order of contexts"),
    field("branch_step", pa.int32(), "stable step at which the decay branches off"),
)
# One row for each endpoint, metric and task: written by the evaluation, read by the calibration against the loss.
SCORES = pa.schema(
    [
        *KEY_FIELDS,
        field("metric", pa.string(), "core, completion, mmlu, mmlu_standard, desk, desk completion or any other name"),
        field("task", pa.string(), "task of the metric; empty for the metric itself"),
        field("category", pa.string(), "category of the task; empty where it has none"),
        field("score", pa.float64(), "the score: a fraction for an accuracy, nats for a cross-entropy"),
        field("chance", pa.float64(), "score of a random answer, a fraction below 1; empty where there is none"),
        field("higher_is_better", pa.bool_(), "whether a higher score is the better one"),
        field("standard_error", pa.float64(), "standard error of the score over evaluation seeds; empty where unknown"),
        field("items", pa.int64(), "items that the score is a mean over; empty where unknown"),
    ]
)


class Key(NamedTuple):
    """Which endpoint a row belongs to."""

    architecture: str
    scale: str
    sparsity: str
    seed: int
    branch_step: int

    @property
    def cell(self) -> Cell:
        """Scale and sparsity."""
        return self.scale, self.sparsity


def key(row: Mapping[str, Any]) -> Key:
    """The endpoint that a row belongs to."""
    return Key(*(row[name] for name in KEYS))


def check_run(path: str | Path, runs: Iterable[str], expected: str) -> None:
    """Raise UserError where a file holds another run than its place says, as after an exchange of two files."""
    if others := sorted(set(runs) - {expected}):
        raise UserError(
            f"{path}: this is of run {others[0]}, expected run {expected}; files were exchanged or renamed: delete "
            "those of both runs and run again"
        )


def labelled_sparsity(label: str) -> float | None:
    """The sparsity that a label states, "S85" being 0.85; None for a label of another form."""
    match = SPARSITY.fullmatch(label)
    return float(match[1]) / 100 if match else None
