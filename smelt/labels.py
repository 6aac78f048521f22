"""What a cell, a run and an endpoint are called."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
