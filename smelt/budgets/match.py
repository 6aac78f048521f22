"""What a twin must meet, and what one is: the words that the search, the studies and the tables share."""

import dataclasses

from smelt.errors import UserError
from smelt.model.settings import ModelSettings


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Largest mismatch accepted on each budget, as a fraction of the reference's."""

    flops: float = 0.04
    params: float = 0.04
    kv: float = 0.04

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise UserError(f"tolerance: {name} is {value!r}; it must be greater than 0")


@dataclasses.dataclass(frozen=True)
class Match:
    """A twin, its budgets as ratios to the reference's, and the lattice that it lies on."""

    model: ModelSettings
    flops_ratio: float
    params_ratio: float
    kv_ratio: float
    multiple: int
