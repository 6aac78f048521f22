"""The points that a surface is fitted to, as columns of numbers."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ALL = "all"  # the name of the points of all architectures together
# The variables that a surface may read, and the columns that hold them; `active` is 1 - S.
VARIABLES = {
    "flops": "flops_per_token",
    "tokens": "tokens",
    "params": "params",
    "active_params": "active_params",
    "looped_params": "looped_params",
    "visits": "visits",
    "expansion": "expansion",
}


@dataclasses.dataclass(frozen=True)
class Points:
    """Fitted endpoints, of one architecture or of all, as columns; `rows` are their places in the table."""

    architecture: str
    rows: NDArray[np.int64]
    names: NDArray[np.str_]  # architecture of each point
    scale: NDArray[np.str_]
    sparsity: NDArray[np.str_]
    loss: Array  # nats
    variables: Mapping[str, Array]  # "active", 1 - S, and those of VARIABLES that no point lacks

    @property
    def cells(self) -> list[tuple[str, str]]:
        """The cell, (scale, sparsity), of each point."""
        return list(zip(self.scale.tolist(), self.sparsity.tolist(), strict=True))

    @property
    def flops(self) -> Array:
        """F, FLOPs per token."""
        return self.variables["flops"]

    @property
    def active(self) -> Array:
        """1 - S."""
        return self.variables["active"]

    @property
    def tokens(self) -> Array:
        """D, tokens."""
        return self.variables["tokens"]


def joined(points: Mapping[str, Points] | Sequence[Points]) -> Points:
    """The points of all architectures together, in their order, with the variables that all have."""
    parts = list(points.values()) if isinstance(points, Mapping) else list(points)
    common = [name for name in parts[0].variables if all(name in part.variables for part in parts)]
    return Points(
        architecture=ALL,
        rows=np.concatenate([part.rows for part in parts]),
        names=np.concatenate([part.names for part in parts]),
        scale=np.concatenate([part.scale for part in parts]),
        sparsity=np.concatenate([part.sparsity for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        variables={name: np.concatenate([part.variables[name] for part in parts]) for name in common},
    )
