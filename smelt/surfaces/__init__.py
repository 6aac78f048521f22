"""Loss surfaces in (F, S, D): what they are, and the frontier, allocation and gain that follow from them.

    from smelt.surfaces import SMELT, gain, optimum

    baseline = SMELT.slice([1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594], {"active": 1 - 0.85})
    smelt = SMELT.slice([1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011], {"active": 1 - 0.85})
    gain(smelt, baseline, 1e20)  # 0.0986: the share of compute that smelt saves at 10^20 FLOPs and S = 0.85
    optimum(smelt, 1e20)  # F* (FLOPs per token) and D* (tokens)

A surface (`SURFACES`, by name) predicts a loss; its slice at fixed S has closed forms, which take arrays too, so that
one call serves all bootstrap draws. `smelt.surfaces.search` finds the same numbers by search, for any loss(F, D).
Modules in this package import one another by their full names, not through these.
"""

from smelt.surfaces.catalogue import CHINCHILLA, LOOPED_DEPTH, LOOPED_MOE, SMELT, SURFACES, Surface
from smelt.surfaces.frontier import (
    Slice,
    data_crossover,
    frontier_loss,
    gain,
    gamma,
    log_compute,
    log_multiplier,
    loss,
    optimum,
    tokens_per_parameter,
)
from smelt.surfaces.points import Points

__all__ = [
    "CHINCHILLA",
    "LOOPED_DEPTH",
    "LOOPED_MOE",
    "SMELT",
    "SURFACES",
    "Points",
    "Slice",
    "Surface",
    "data_crossover",
    "frontier_loss",
    "gain",
    "gamma",
    "log_compute",
    "log_multiplier",
    "loss",
    "optimum",
    "tokens_per_parameter",
]
