"""The sections `scaling` and `simulation`: what is compared, and surfaces to simulate endpoints from."""

import dataclasses
from collections.abc import Mapping

from smelt.setting import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Surface:
    """A loss surface of Eq. 2."""

    E: float = setting("Irreducible loss.", unit="nats", exclusive_minimum=0)
    A: float = setting("Level of the capacity term.", exclusive_minimum=0)
    K: float = setting("Level of the data term.", exclusive_minimum=0)
    a: float = setting("Exponent of F.", minimum=0)
    b: float = setting("Exponent of 1 - S.")
    c: float = setting("Exponent of D.", minimum=0)
    rmse: float | None = setting("Standard deviation that noise is a multiple of.", None, exclusive_minimum=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulation:
    """What is simulated."""

    endpoints: str = setting(
        "Table of endpoints without losses, a path from the study file's folder (columns as in docs/endpoints.md)."
    )
    surfaces: Mapping[str, Surface] = setting(
        "Coefficients of Eq. 2 for each architecture, in nats, FLOPs and tokens.", min_properties=1
    )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What is compared; the study turns these into what the fits read."""

    reference: str = setting(
        "Architecture that the gains compare with, of a study with endpoints; empty takes the only one, or baseline. "
        "That of a grid is its first.",
        "",
    )
    sparsities: Mapping[str, float] = setting(
        "S at which the frontiers are compared, by label, of a study with endpoints; a label left out takes its "
        "percentage, or the mean S of its endpoints.",
        {},
        each={"minimum": 0, "exclusive_maximum": 1},
    )
