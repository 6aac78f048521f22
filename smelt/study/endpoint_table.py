"""Studies that train nothing: their endpoints stand in a user's file, or are simulated from known surfaces.

The tables of endpoints and of their scores are read together with the study, so that a mistake in them shows before
any job runs.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from smelt.errors import UserError
from smelt.scaling.calibration.scores import read_scores
from smelt.scaling.endpoints import simulate, user_table
from smelt.scaling.endpoints.table import ENDPOINTS, select_points
from smelt.scaling.endpoints.user_table import EndpointTable
from smelt.scaling.settings import Settings
from smelt.study.base import Study
from smelt.surfaces.catalogue import SURFACES, Surface
from smelt.surfaces.points import Points, joined
from smelt.tables import from_rows


@dataclasses.dataclass(frozen=True)
class EndpointStudy(Study):
    """A validated study whose endpoints a user supplies in a file."""

    kind = "endpoints"

    @property
    def table(self) -> str:
        """The file of endpoints."""
        return self.beside(self._table)

    @property
    def _table(self) -> str:
        return str(self.config["endpoints"])

    @functools.cached_property
    def given(self) -> EndpointTable:
        """The endpoints, with losses."""
        return user_table.read(Path(self.table), self.config["scaling"]["s_convention"])

    @property
    def reference(self) -> str:
        return user_table.reference_of(self.given, self.config["scaling"]["reference"], "scaling.reference")

    @property
    def sparsity_values(self) -> Mapping[str, float]:
        values, named = self.given.sparsity_values, self.config["scaling"]["sparsities"]
        if unknown := sorted(set(named) - set(values)):
            raise UserError(f"scaling.sparsities: no {unknown[0]!r} in {self.table}; known are {', '.join(values)}")
        return {**values, **named}

    @property
    def s_convention(self) -> str:
        return self.given.s_convention

    def check(self) -> None:
        """Read the endpoints and their scores. Raises UserError where the endpoints do not suffice for the surface."""
        settings = self.settings(
            Settings, "scaling", study=self.name, reference=self.reference, sparsity_values=self.sparsity_values
        )
        endpoints = from_rows(self.given.rows, ENDPOINTS)
        points = select_points(endpoints, self.table, settings)
        surface = SURFACES[settings.surface]
        for part in [joined(points)] if surface.shared else points.values():
            _check_points(part, surface, self.table)
        if self.scores and Path(self.scores).exists():
            read_scores(self.scores, endpoints)


@dataclasses.dataclass(frozen=True)
class SimulatedStudy(EndpointStudy):
    """A validated study whose losses are simulated for a table of endpoints."""

    kind = "simulation"

    @property
    def _table(self) -> str:
        return str(self.config["simulation"]["endpoints"])

    @functools.cached_property
    def given(self) -> EndpointTable:
        """The endpoints, with simulated losses."""
        table = user_table.read(Path(self.table), self.config["scaling"]["s_convention"], losses=False)
        return table._replace(rows=simulate.simulate(table.rows, self.simulation))

    @property
    def simulation(self) -> simulate.Settings:
        """Settings of the job that simulates."""
        s_convention = self.config["scaling"]["s_convention"]
        return self.settings(simulate.Settings, "simulation", s_convention=s_convention)


def _check_points(points: Points, surface: Surface, path: str) -> None:
    """Raise UserError where there are fewer points than coefficients, or a variable of the surface is missing."""
    surface.design(points)
    one_sparsity = len(set(points.sparsity.tolist())) == 1  # the exponent b of 1 - S is then fixed
    needed = len(surface.coefficients) - int("b" in surface.coefficients and one_sparsity)
    if points.loss.size < needed:
        raise UserError(
            f"{path}: {points.loss.size} endpoints of {points.architecture} to fit, fewer than the {needed} "
            f"coefficients of the surface {surface.name}; add endpoints or choose another scaling.surface"
        )
