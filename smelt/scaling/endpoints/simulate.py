"""Endpoints simulated from known surfaces: a table of F, S and D without losses, and the losses that Eq. 2 gives them.

Reads the table that a study names under `simulation` and writes results/NAME/scaling/endpoints.parquet, each row with
the text that says so as its source. What follows cannot tell them from measured ones, so that a known answer tests it.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smelt import artifacts, spec
from smelt.errors import UserError, command
from smelt.scaling.endpoints import user_table
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.surfaces.catalogue import SURFACES
from smelt.surfaces.points import Array

EQUATION_2 = SURFACES["smelt"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The surfaces, and the noise around them."""

    surfaces: Mapping[str, Mapping[str, float]]  # architecture -> E, A, K, a, b, c and rmse, nats
    source: str = "simulated"
    noise: float = 0.0  # standard deviation, as a multiple of each surface's rmse
    seed: int = 0
    correlation: float = 0.0  # share of its variance that an architecture's endpoints of one cell have in common
    s_convention: str = "baseline"


def simulate(rows: Sequence[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """The rows with their losses. Raises UserError where an architecture has no surface or a loss is not positive."""
    losses = np.zeros(len(rows))
    names = [row["architecture"] for row in rows]
    for name in dict.fromkeys(names):
        if name not in settings.surfaces:
            raise UserError(
                f"simulation.surfaces: nothing for the architecture {name!r} of the table; "
                f"known are {', '.join(settings.surfaces)}"
            )
        mine = np.array([other == name for other in names])
        surface = settings.surfaces[name]
        if settings.noise and not surface.get("rmse"):
            raise UserError(f"simulation.surfaces.{name}.rmse: missing; the noise is a multiple of it")
        chosen = [row for row in rows if row["architecture"] == name]
        losses[mine] = _losses(chosen, surface) + settings.noise * surface.get("rmse", 0.0) * _noise(chosen, settings)
    if not (losses > 0).all():
        raise UserError(f"simulation.noise: {settings.noise} makes a loss of {losses.min():g}; lower it")
    return [{**row, "loss": float(loss), "source": settings.source} for row, loss in zip(rows, losses, strict=True)]


def _losses(rows: Sequence[Mapping[str, Any]], surface: Mapping[str, float]) -> Array:
    columns = {name: np.array([row[name] for row in rows]) for name in ("flops_per_token", "S", "tokens")}
    variables = {"flops": columns["flops_per_token"], "active": 1 - columns["S"], "tokens": columns["tokens"] * 1.0}
    return EQUATION_2.predict(np.array([surface[name] for name in EQUATION_2.coefficients]), variables)


def _noise(rows: Sequence[Mapping[str, Any]], settings: Settings) -> Array:
    """Noise of unit variance; an architecture's depends on the seed and its name alone."""
    random = np.random.default_rng([settings.seed, *rows[0]["architecture"].encode()])
    cells = [(row["scale"], row["sparsity"]) for row in rows]
    order = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    alone, common = random.normal(size=len(rows)), random.normal(size=len(order))
    share = settings.correlation
    return np.sqrt(1 - share) * alone + np.sqrt(share) * common[[order[cell] for cell in cells]]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="surfaces, source, noise and s_convention, as JSON")
    parser.add_argument("--table", required=True, type=Path, help="endpoints without losses, .csv or .parquet")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    given = user_table.read(arguments.table, settings.s_convention, losses=False)
    data = artifacts.table(simulate(given.rows, settings), ENDPOINTS)
    origin = artifacts.provenance("smelt.scaling.endpoints.simulate", dataclasses.asdict(settings), [arguments.table])
    artifacts.write_table(data, arguments.out, origin)
    print(f"{data.num_rows} endpoints, {settings.source}, S convention: {given.s_convention}")


if __name__ == "__main__":
    command(main)
