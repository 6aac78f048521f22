"""Settings of the scaling stage, the columns of its endpoints, and the points that enter the fits."""

import dataclasses
from collections.abc import Mapping

CONVENTIONS = ("own", "baseline", "nominal")  # of S; the columns S_own, S_baseline and S_nominal


@dataclasses.dataclass(frozen=True)
class Settings:
    """The study's `scaling` section, and what it needs to know of the rest of the study."""

    study: str
    reference: str  # architecture that the gains compare with
    sparsity_values: Mapping[str, float]  # label -> S at which frontiers are compared
    surface: str = "smelt"
    solver: str = "newton"
    resample: str = "cells"
    s_convention: str = "baseline"
    fit_sparsities: tuple[str, ...] = ()
    skip_branches: int = 0
    compute_budgets: tuple[float, ...] = ()
    bootstrap_draws: int = 10000
    seed: int = 0
    huber_delta: float = 0.001
    huber_deltas: tuple[float, ...] = (0.0003, 0.003, 0.01)
    fit_starts: int = 64
