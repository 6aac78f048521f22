"""Settings of the scaling stage, the columns of its endpoints, and the points that enter the fits."""

import dataclasses
from collections.abc import Mapping

from smelt.setting import setting

CONVENTIONS = ("own", "baseline", "nominal")  # of S; the columns S_own, S_baseline and S_nominal


@dataclasses.dataclass(frozen=True)
class Settings:
    """The study's `scaling` section, and what it needs to know of the rest of the study."""

    study: str
    reference: str  # architecture that the gains compare with
    sparsity_values: Mapping[str, float]  # label -> S at which frontiers are compared
    s_convention: str = setting(
        "Which S enters the fit: baseline (Eq. 1), own control of each architecture, or nominal label.",
        "baseline",
        choices=("baseline", "own", "nominal"),
    )
    fit_sparsities: tuple[str, ...] = setting(
        "Sparsities whose endpoints are fitted; empty means all that are trained but S0, or S0 where it is all there "
        "is.",
        (),
    )
    skip_branches: int = setting(
        "Number of the earliest branches left out of the fit (still in the table of endpoints).", 0, minimum=0
    )
    compute_budgets: tuple[float, ...] = setting(
        "Training FLOPs at which the gain is read; empty takes the lower and upper third of the fitted window and ten "
        "times its end.",
        (),
        unit="FLOPs",
        each={"exclusive_minimum": 0},
    )
    surface: str = setting(
        "Loss surface: smelt (Eq. 2), chinchilla (without S), looped_depth or looped_moe (one for all architectures).",
        "smelt",
        choices=("smelt", "chinchilla", "looped_depth", "looped_moe"),
    )
    solver: str = setting(
        "Minimiser of the fits: newton (damped, all draws at once) or reference (L-BFGS-B, one by one).",
        "newton",
        choices=("newton", "reference"),
    )
    resample: str = setting(
        "What the bootstrap draws: cells, cells within each scale, or single endpoints (too narrow, for comparison).",
        "cells",
        choices=("cells", "cells_by_scale", "endpoints"),
    )
    bootstrap_draws: int = setting("Bootstrap draws.", 10000, minimum=1)
    seed: int = setting("Seed of the bootstrap.", 0, minimum=0)
    huber_delta: float = setting("Delta of the Huber loss on log-loss.", 0.001, exclusive_minimum=0)
    huber_deltas: tuple[float, ...] = setting(
        "Deltas of the Huber loss at which the table of sensitivities refits.",
        (0.0003, 0.003, 0.01),
        unique_items=True,
        each={"exclusive_minimum": 0},
    )
    fit_starts: int = setting("Starts of each fit.", 64, minimum=1)
