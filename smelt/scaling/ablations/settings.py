"""Settings of the job that tabulates ablations. Needs no scipy."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Point:
    """A row to be: line, reference, cell and position on the axes; the plan is missing where no run is trained."""

    line: str
    reference: str
    architecture: str
    scale: str
    sparsity: str
    layers: int | None = None
    looped: int | None = None
    executed_layers: int | None = None
    visits: int | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """The points of each ablation, in the order of its rows."""

    ablations: Mapping[str, tuple[Point, ...]]
