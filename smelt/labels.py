"""What a cell, a run and an endpoint are called."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from smelt.errors import UserError

CONTROL = "S0"  # label of the fully active control, which no fit uses unless it is named, or is all there is

KEYS = ("architecture", "scale", "sparsity", "seed", "branch_step")  # of an endpoint
Row = dict[str, Any]
Cell = tuple[str, str]  # scale, sparsity


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
