"""From endpoints to a compute efficiency gain in Python, without a file in between.

    from smelt.scaling import analysis

    endpoints = analysis.read("endpoints.csv")          # or a DataFrame with the same columns
    fitted = analysis.fit(endpoints, reference="baseline", draws=10_000)
    fitted.gain("smelt", budget=1e20, sparsity="S85")   # Gain(gain=0.125, low=0.066, high=0.188, ...)
    fitted.gains()                                      # all budgets and sparsities, as a DataFrame
    analysis.iso_loss_gain(endpoints, "baseline")       # at equal loss and fixed size, without a fit, as a DataFrame

The numbers are those of the workflow's tables for the same settings (docs/endpoints.md names the columns).
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.errors import UserError
from smelt.labels import Cell
from smelt.scaling.endpoints import user_table
from smelt.scaling.endpoints.table import ENDPOINTS, select_points, select_sparsities
from smelt.scaling.endpoints.user_table import EndpointTable
from smelt.scaling.fitting.draws import coefficients_schema
from smelt.scaling.fitting.fit import Fitted, cells_of, coefficient_row, fit_surfaces, scales_of
from smelt.scaling.fitting.intervals import LeftOut
from smelt.scaling.gains import iso_loss_gain as iso_loss
from smelt.scaling.gains.comparison import Comparison, budgets, compare
from smelt.scaling.gains.frontiers import FittedSurface, Frontier, frontiers, labels
from smelt.scaling.gains.gain import answers, gain_row, gain_rows
from smelt.scaling.gains.joint import Joint, verdicts
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import SURFACES
from smelt.surfaces.points import Points


@dataclasses.dataclass(frozen=True)
class Gain:
    """CE gain of an architecture over the reference at one budget and sparsity (Eq. 5)."""

    architecture: str
    reference: str
    budget: float  # training FLOPs
    sparsity: str
    gain: float | None  # share of training compute saved at equal loss; None with a reason where there is none
    low: float | None  # ends of the 95 % bootstrap interval
    high: float | None
    multiplier: float | None  # C of the reference over C of the architecture
    window: str  # inside, edge or extrapolated: where the optimum lies
    resolved: bool  # whether the sign is established
    reason: str | None  # why a value is missing or not resolved, and what to know of it


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """Fitted surfaces of all architectures, the reference first, and what can be read off them."""

    settings: Settings
    points: Mapping[str, Points]
    fits: Mapping[str, Fitted]

    @functools.cached_property
    def surfaces(self) -> list[FittedSurface]:
        """The surface of each architecture, with its bootstrap draws."""
        cells = cells_of(self.points)
        return [_surface(self.points[name], fit, cells) for name, fit in self.fits.items()]

    def gain(self, architecture: str, budget: float, sparsity: str) -> Gain:
        """The gain of `architecture` at `budget` training FLOPs and the sparsity of a label.

        Raises UserError where there is no such architecture or label, or the budget is not a positive number.
        """
        if not (budget > 0 and math.isfinite(budget)):
            raise UserError(f"budget {budget!r}: expected training FLOPs, a positive number such as 1e20")
        row = gain_row(self.comparison(architecture, sparsity), budget, self._verdicts[architecture])
        return Gain(
            **{name: row[name] for name in ("architecture", "reference", "sparsity", "gain", "multiplier", "window")},
            budget=budget,
            low=row["gain_low"],
            high=row["gain_high"],
            resolved=bool(row["resolved"]),
            reason=row["reason"],
        )

    def comparison(self, architecture: str, sparsity: str) -> Comparison:
        """The frontiers of `architecture` and of the reference at a sparsity. Raises UserError on an unknown name."""
        if (architecture, sparsity) in self._comparisons:
            return self._comparisons[architecture, sparsity]
        names = ", ".join(list(self.fits)[1:]) or "none"
        known = ", ".join(labels(self.surfaces, self.settings))
        raise UserError(
            f"no comparison of {architecture!r} at {sparsity!r}: architectures beside the reference are {names}, "
            f"sparsities {known}"
        )

    def frontier(self, architecture: str, sparsity: str) -> Frontier:
        """The frontier of one architecture, the reference included. Raises UserError on an unknown name."""
        if (architecture, sparsity) in self._frontiers:
            return self._frontiers[architecture, sparsity]
        known = ", ".join(labels(self.surfaces, self.settings))
        raise UserError(
            f"no frontier of {architecture!r} at {sparsity!r}: architectures are {', '.join(self.fits)}, "
            f"sparsities {known}"
        )

    def coefficients(self) -> pd.DataFrame:
        """One row an architecture: the columns of tables/coefficients.csv."""
        rows = [coefficient_row(name, fit, self.settings, self.points) for name, fit in self.fits.items()]
        return tables.from_rows(rows, coefficients_schema(SURFACES[self.settings.surface]))

    def gains(self) -> pd.DataFrame:
        """Gains at the settings' budgets, by default two inside the trained compute and one beyond it (ce_gain.csv)."""
        return tables.from_arrow(self._answers["ce_gain"])

    def gain_rows(self) -> list[dict[str, Any]]:
        """The rows of `gains` alone, without the other tables."""
        return gain_rows(self._comparisons, self.budgets, self._verdicts)

    def allocation(self) -> pd.DataFrame:
        """Compute-optimal model and tokens of each architecture at the same budgets (allocation.csv)."""
        return tables.from_arrow(self._answers["allocation"])

    @property
    def budgets(self) -> list[float]:
        """Training FLOPs of the rows of `gains` and `allocation`."""
        return budgets(self.surfaces, self.settings)

    @functools.cached_property
    def _verdicts(self) -> dict[str, Joint]:
        return verdicts(self.points, self.settings)

    @functools.cached_property
    def _frontiers(self) -> dict[tuple[str, str], Frontier]:
        return frontiers(self.surfaces, self.settings)

    @functools.cached_property
    def _comparisons(self) -> dict[tuple[str, str], Comparison]:
        return compare(self._frontiers, self.settings.reference)

    @functools.cached_property
    def _answers(self) -> dict[str, pa.Table]:
        return answers(self.surfaces, self.settings, self._verdicts)


def read(endpoints: str | Path | pd.DataFrame, s_convention: str = "baseline") -> EndpointTable:
    """The endpoints in a .csv or .parquet file, or in a DataFrame with the same columns, checked.

    Columns and units are those of docs/endpoints.md: architecture, flops_per_token or params, tokens, loss, and
    optionally S, cell, seed, source and more. Raises UserError, naming row and column, on any mistake.
    """
    if isinstance(endpoints, pd.DataFrame):
        return user_table.from_frame(endpoints, s_convention)
    return user_table.read(Path(endpoints), s_convention)


def fit(
    endpoints: EndpointTable | pd.DataFrame | str | Path,
    reference: str = "",
    *,
    draws: int = 10_000,
    compute_budgets: Sequence[float] = (),
    **choices: Any,
) -> Analysis:
    """Fit the surface of each architecture, and refit all on the same bootstrap resamples of the cells.

    `reference` may be left out where there is one architecture, or one called baseline. `choices` are further fields
    of smelt.scaling.settings.Settings (surface, resample, seed, ...). Raises UserError where the endpoints cannot be
    fitted or a choice is unknown.
    """
    table = endpoints if isinstance(endpoints, EndpointTable) else read(endpoints)
    known = {field.name for field in dataclasses.fields(Settings)}
    if unknown := sorted(set(choices) - known):
        raise UserError(f"unknown choice {unknown[0]!r}; known are {', '.join(sorted(known))}")
    settings = Settings(
        study="analysis",
        reference=user_table.reference_of(table, reference),
        sparsity_values=table.sparsity_values,
        s_convention=table.s_convention,
        bootstrap_draws=draws,
        compute_budgets=tuple(compute_budgets),
        **choices,
    )
    points = select_points(tables.from_arrow(artifacts.table(table.rows, ENDPOINTS)), "endpoints", settings)
    return Analysis(settings, points, fit_surfaces(points, settings))


def iso_loss_gain(endpoints: EndpointTable | pd.DataFrame | str | Path, reference: str = "") -> pd.DataFrame:
    """Iso-loss gains of each cell and pooled, at each horizon: the columns of tables/iso_loss_gain.csv.

    Runs pair by cell and seed. Nothing is fitted, and the size of a pair is fixed, so this is no compute efficiency
    gain. `reference` is that of `fit`. Raises UserError where an endpoint cannot be right or a name is unknown.
    """
    table = endpoints if isinstance(endpoints, EndpointTable) else read(endpoints)
    name = user_table.reference_of(table, reference)
    used = select_sparsities(tables.from_rows(table.rows, ENDPOINTS), "endpoints", name)
    return iso_loss.analyse(used, name, table.s_convention)


def _surface(points: Points, fitted: Fitted, cells: Sequence[Cell]) -> FittedSurface:
    fit = fitted.fit
    return FittedSurface(
        points=points,
        surface=fitted.design.surface,
        values=None if fit is None else fit.values,
        at_bound="none" if fit is None else " ".join(fit.at_bound) or "none",
        reason=fitted.reason,
        draws=fitted.drawn.draws,
        without_cells=LeftOut(cells, fitted.without_cells.draws),
        without_scales=LeftOut([(scale,) for scale in scales_of(cells)], fitted.without_scales.draws),
        inside_delta=None if fit is None else fit.inside_delta,
    )
