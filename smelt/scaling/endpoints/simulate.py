"""Endpoints simulated from known surfaces: a table of F, S and D without losses, and the losses that Eq. 2 gives them.

Reads the table that a study names under `simulation` and writes results/NAME/scaling/endpoints.parquet, each row with
the text that says so as its source. What follows cannot tell them from measured ones, so that a known answer tests it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from smelt import artifacts, tables
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.scaling.endpoints import user_table
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.scaling.settings import Settings as FitSettings
from smelt.setting import setting
from smelt.surfaces.catalogue import SURFACES
from smelt.surfaces.points import Array

EQUATION_2 = SURFACES["smelt"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The surfaces, and the noise around them."""

    surfaces: Mapping[str, Mapping[str, float]]  # architecture -> E, A, K, a, b, c and rmse, nats
    source: str = setting(
        "What the rows say of where they come from, beginning with simulated; tables and figures show it.",
        "simulated",
        pattern="^simulated",
    )
    noise: float = setting("Standard deviation of the noise as a multiple of each surface's rmse.", 0.0, minimum=0)
    seed: int = setting("Seed of the noise.", 0, minimum=0)
    correlation: float = setting(
        "Share of the noise's variance that the endpoints of an architecture in a cell have in common.",
        0.0,
        minimum=0,
        maximum=1,
    )
    scale_correlation: float = setting(
        "Share of the noise's variance that the endpoints of an architecture in a scale have in common, beside "
        "correlation.",
        0.0,
        minimum=0,
        maximum=1,
    )
    s_convention: str = FitSettings.s_convention


def simulate(rows: Sequence[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """The rows with their losses and source.

    Raises UserError where an architecture has no surface, noise lacks its rmse, the shares of its variance exceed 1, or
    a loss is not positive.
    """
    if settings.correlation + settings.scale_correlation > 1:
        raise UserError(
            f"simulation: correlation {settings.correlation:g} and scale_correlation {settings.scale_correlation:g} "
            "are shares of one variance and exceed 1 together; lower one"
        )
    endpoints, losses = pd.DataFrame(rows), np.zeros(len(rows))
    for name, part in endpoints.groupby("architecture", sort=False):
        if name not in settings.surfaces:
            raise UserError(
                f"simulation.surfaces: nothing for the architecture {name!r} of the table; "
                f"known are {', '.join(settings.surfaces)}"
            )
        surface = settings.surfaces[str(name)]
        if settings.noise and not surface.get("rmse"):
            raise UserError(f"simulation.surfaces.{name}.rmse: missing; the noise is a multiple of it")
        noise = settings.noise * surface.get("rmse", 0.0) * _noise(part, str(name), settings)
        losses[part.index] = _losses(part, surface) + noise
    if not (losses > 0).all():
        raise UserError(f"simulation.noise: {settings.noise} makes a loss of {losses.min():g}; lower it")
    return [{**row, "loss": float(loss), "source": settings.source} for row, loss in zip(rows, losses, strict=True)]


def _losses(endpoints: pd.DataFrame, surface: Mapping[str, float]) -> Array:
    flops, sparsity, tokens = (tables.numbers(endpoints, name) for name in ("flops_per_token", "S", "tokens"))
    variables = {"flops": flops, "active": 1 - sparsity, "tokens": tokens}
    return EQUATION_2.predict(np.array([surface[name] for name in EQUATION_2.coefficients]), variables)


def _noise(endpoints: pd.DataFrame, architecture: str, settings: Settings) -> Array:
    """Noise of unit variance; an architecture's depends on the seed and its name alone."""
    random = np.random.default_rng([settings.seed, *architecture.encode()])
    cell = endpoints.groupby(["scale", "sparsity"], sort=False, dropna=False).ngroup().to_numpy()
    alone, common = random.normal(size=len(endpoints)), random.normal(size=cell.max() + 1)
    noise = np.sqrt(1 - settings.correlation - settings.scale_correlation) * alone
    noise += np.sqrt(settings.correlation) * common[cell]
    if settings.scale_correlation:
        scale = endpoints.groupby("scale", sort=False, dropna=False).ngroup().to_numpy()
        noise += np.sqrt(settings.scale_correlation) * random.normal(size=scale.max() + 1)[scale]
    return noise


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.endpoints.simulate", __doc__, argv, Settings, ["table"], ["out"])
    endpoints = user_table.read(job.path("table"), job.settings.s_convention, losses=False)
    job.write("out", artifacts.table(simulate(endpoints.rows, job.settings), ENDPOINTS))
    print(f"{len(endpoints.rows)} endpoints, {job.settings.source}, S convention: {endpoints.s_convention}")


if __name__ == "__main__":
    command(main)
