"""Endpoints whose losses fall linearly with log C, so that a lead in compute is read exactly between them."""

import math
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from smelt import tables
from smelt.scaling.endpoints.table import ENDPOINTS

STEPS = (10, 20, 40, 80)
SCALES = ("H1", "H2", "H3", "H4")
SPARSITIES = ("S85", "S95", "S97")
Run = tuple[str, str, str, int]  # architecture, scale, sparsity, seed


def endpoints(losses: Mapping[Run, Sequence[float]]) -> pd.DataFrame:
    """Endpoints of runs with these losses at STEPS; C is the step."""
    rows = [
        dict.fromkeys(ENDPOINTS.names)
        | dict(zip(("architecture", "scale", "sparsity", "seed"), run, strict=True))
        | {"branch_step": step, "tokens": step, "flops_per_token": 1.0, "training_flops": float(step)}
        | {"S": 0.9, "loss": loss, "source": "trained"}
        for run, values in losses.items()
        for step, loss in zip(STEPS, values, strict=True)
    ]
    return tables.from_rows(rows, ENDPOINTS)


def straight(ahead: float = 0.0) -> list[float]:
    """Losses at STEPS, as if C were exp(`ahead`) times as much."""
    return [9 - math.log(step) - ahead for step in STEPS]


def grid(ahead: Callable[[str, str], float], architecture: str = "smelt") -> pd.DataFrame:
    """A grid of pairs whose runs of `architecture` are `ahead(scale, sparsity)` ahead in log C, at every horizon."""
    losses: dict[Run, list[float]] = {}
    for scale in SCALES:
        for sparsity in SPARSITIES:
            losses["baseline", scale, sparsity, 0] = straight()
            losses[architecture, scale, sparsity, 0] = straight(ahead(scale, sparsity))
    return endpoints(losses)
