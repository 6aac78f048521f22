"""The matching problem of one cell, and its answer: what the search, the studies and the tables share."""

import dataclasses
import functools

from smelt.budgets.lattice import Lattice
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.setting import setting


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Largest mismatch accepted on each budget, as a fraction of the reference's."""

    flops: float = setting("FLOPs per token.", 0.04, exclusive_minimum=0)
    params: float = setting("Non-embedding parameters.", 0.04, exclusive_minimum=0)
    kv: float = setting("KV-cache bytes per token.", 0.04, exclusive_minimum=0)

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise UserError(f"tolerance: {name} is {value!r}; it must be greater than 0")


@dataclasses.dataclass(frozen=True)
class Problem:
    """A reference, and the looped model whose three budgets shall match the reference's.

    Raises UserError where the reference itself is looped; `looped` where the span lies outside the layers.
    """

    reference: ModelSettings
    loop_start: int  # first layer of the span
    loop_length: int  # layers of the span
    visits: int
    attention_keys: float  # keys charged to a query
    tolerance: Tolerance
    lattice: Lattice
    layers: int | None = None  # physical layers of the matched model; the reference's by default

    def __post_init__(self) -> None:
        if self.reference.loop_length and self.reference.visits > 1:
            raise UserError("the reference architecture must not be looped; give it visits 1")

    @functools.cached_property
    def looped(self) -> ModelSettings:
        """The reference with the span looped and the problem's layers; no size is changed yet."""
        return dataclasses.replace(
            self.reference,
            layers=self.reference.layers if self.layers is None else self.layers,
            loop_start=self.loop_start,
            loop_length=self.loop_length,
            visits=self.visits,
        )


@dataclasses.dataclass(frozen=True)
class Match:
    """A matched model, its budgets as ratios to the reference's, and the lattice that it lies on."""

    model: ModelSettings
    flops_ratio: float
    params_ratio: float
    kv_ratio: float
    multiple: int
