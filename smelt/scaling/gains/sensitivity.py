"""How far the gain depends on what was chosen: the convention of S, the form of the surface, the Huber delta.

Reads results/scaling/endpoints.parquet and refits all surfaces for each choice, one of them changed at a
time; writes sensitivity.parquet, the study's own choice among the rows. Whatever S the endpoints carry, the
gain is read at the common S of the label.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from smelt import artifacts
from smelt.artifacts import field
from smelt.errors import command
from smelt.job import read_job
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.fitting.fit import fit_point
from smelt.scaling.gains.comparison import Comparison, budgets, sentence
from smelt.scaling.gains.frontiers import FittedSurface, Frontier, labels
from smelt.scaling.settings import CONVENTIONS, Settings
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import SURFACES
from smelt.surfaces.points import Array, Points, joined

SENSITIVITY = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("budget_flops", pa.float64(), "C: training FLOPs"),
        field("sparsity", pa.string(), "label of the sparsity at which the gain is read"),
        field("varied", pa.string(), "what is chosen: s_convention, surface or huber_delta"),
        field("value", pa.string(), "the choice; all others are the study's"),
        field("gain", pa.float64(), "CE gain as a fraction"),
        field("gamma", pa.float64(), "exponent of the architecture's frontier in compute"),
        field("gamma_reference", pa.float64(), "exponent of the reference's frontier in compute"),
        field("endpoints", pa.int32(), "fitted endpoints of both architectures"),
        field("reason", pa.string(), "why a value is missing, and what was held"),
    ]
)


class Choice(NamedTuple):
    """One variation: its name and value in the table, the settings and the column of S that it means."""

    varied: str
    value: str
    settings: Settings
    s_column: str = "S"


def choices(settings: Settings) -> list[Choice]:
    """All variations, the study's own choice among those of each kind."""
    chosen = settings.s_convention
    conventions = CONVENTIONS if chosen in CONVENTIONS else (chosen, *CONVENTIONS)
    varied = [Choice("s_convention", name, settings, "S" if name == chosen else f"S_{name}") for name in conventions]
    for name in dict.fromkeys([settings.surface, *SURFACES]):
        varied.append(Choice("surface", name, dataclasses.replace(settings, surface=name)))
    for delta in sorted({settings.huber_delta, *settings.huber_deltas}):
        varied.append(Choice("huber_delta", f"{delta:g}", dataclasses.replace(settings, huber_delta=delta)))
    return varied


def fit_surfaces(points: Mapping[str, Points], settings: Settings, s_column: str) -> list[FittedSurface]:
    """Every architecture with the surface fitted to its points, or the reason why there is none."""
    surface = SURFACES[settings.surface]
    if surface.shared:
        shared = _fit(joined(points), settings, s_column)
        return [FittedSurface(one, surface, *shared) for one in points.values()]
    return [FittedSurface(one, surface, *_fit(one, settings, s_column)) for one in points.values()]


def _fit(points: Points, settings: Settings, s_column: str) -> tuple[Array | None, str, str]:
    """Coefficients, those of them on a bound, and the reason why there are none or what is held."""
    needed = SURFACES[settings.surface].variables  # "flops|params" is a choice
    missing = [name for name in needed if not set(name.split("|")) & set(points.variables)]
    if missing:
        names = ", ".join(s_column if name == "active" else name for name in missing)
        return None, "none", f"the surface {settings.surface} needs {names} of every endpoint"
    return fit_point(points, settings)


def row(comparison: Comparison, budget: float, choice: Choice) -> dict[str, Any]:
    """The gain at one budget and sparsity under one choice."""
    target, reference = comparison.target, comparison.reference
    values: dict[str, Any] = dict.fromkeys(SENSITIVITY.names)
    values |= {"architecture": target.name, "reference": reference.name, "budget_flops": budget}
    values |= {"sparsity": comparison.label, "varied": choice.varied, "value": choice.value}
    values |= {"endpoints": comparison.endpoints}
    reasons = comparison.invalid_because
    if not reasons:
        log_multiplier = comparison.log_multiplier(budget)
        values |= {"gain": float(frontier.gain_of(log_multiplier))}
        values |= {"gamma": float(frontier.gamma(target.fitted))}
        values |= {"gamma_reference": float(frontier.gamma(reference.fitted))}
        reasons = [] if np.isfinite(log_multiplier) else [f"{reference.name} never reaches this loss"]
        reasons += comparison.caveats
    values["reason"] = sentence(reasons)
    return values


def table_rows(endpoints: Path, settings: Settings) -> list[dict[str, Any]]:
    """All rows: by architecture, then choice, budget and sparsity."""

    @functools.cache
    def points(s_column: str) -> dict[str, Points]:
        return read_points(endpoints, settings, s_column)

    @functools.cache
    def fitted(surface: str, delta: float, s_column: str) -> list[FittedSurface]:
        changed = dataclasses.replace(settings, surface=surface, huber_delta=delta)
        return fit_surfaces(points(s_column), changed, s_column)

    varied = [(one, fitted(one.settings.surface, one.settings.huber_delta, one.s_column)) for one in choices(settings)]
    _, first = varied[0]
    compute_budgets, names = budgets(first, settings), labels(first, settings)
    rows = []
    for index in range(1, len(first)):
        for choice, surfaces in varied:
            pairs = [_compared(surfaces[index], surfaces[0], label, choice) for label in names]
            rows += [row(pair, budget, choice) for budget in compute_budgets for pair in pairs]
    return rows


def _compared(target: FittedSurface, reference: FittedSurface, label: str, choice: Choice) -> Comparison:
    return Comparison(*(Frontier(surface, label, choice.settings) for surface in (target, reference)))


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.gains.sensitivity", __doc__, argv, Settings, ["endpoints"], ["out"])
    job.write("out", artifacts.table(table_rows(job.path("endpoints"), job.settings), SENSITIVITY))


if __name__ == "__main__":
    command(main)
