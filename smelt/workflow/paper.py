"""Whether a study's endpoints can be compared with the paper's numbers, and what the comparison is told."""

import os
from collections.abc import Mapping
from pathlib import Path

from smelt.reporting.paper.comparison import MEASURED, OTHER, SIMULATED, ComparisonSettings
from smelt.reporting.paper.registry import read_registry
from smelt.reporting.paper.rounding import coefficients
from smelt.study.base import Study
from smelt.study.endpoint_table import SimulatedStudy
from smelt.study.grid import GridStudy


def registry() -> str:
    """The registry of the paper's numbers, from the working directory where it lies inside, as a moved clone's does."""
    path = Path(__file__).resolve().parents[2] / "config" / "published" / "results.csv"
    return os.fspath(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def source(study: Study) -> str:
    """Where the study's endpoints come from: "measured" (the paper's grid, trained here), "simulated" (from the
    paper's published surfaces), or "other", which cannot be compared with the paper's."""
    if isinstance(study, GridStudy) and study.name == "paper":
        return MEASURED
    published = isinstance(study, SimulatedStudy) and _published(study.config["simulation"]["surfaces"])
    return SIMULATED if published else OTHER


def comparable(study: Study) -> bool:
    """Whether the study's endpoints can be compared with the paper's."""
    return source(study) != OTHER


def comparison(study: Study) -> ComparisonSettings:
    """What the comparison with the paper's numbers needs to know of the study."""
    noise = study.config["simulation"]["noise"] if source(study) == SIMULATED else 0.0
    return ComparisonSettings(study.name, source(study), noise)


def _published(surfaces: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether some surfaces are those that the paper prints."""
    printed = coefficients(read_registry(Path(registry())))
    return {name: {key: surface[key] for key in surface if key != "rmse"} for name, surface in surfaces.items()} == {
        name: {key: entry.value for key, entry in row.items()} for name, row in printed.items()
    }
