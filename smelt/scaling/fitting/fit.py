"""Endpoints to surfaces: the point fit for each architecture (or for all), and its refits.

Reads results/scaling/endpoints.parquet; writes coefficients.parquet (values, intervals and the fit's
certificate), draws.parquet (the surface of every bootstrap draw), surfaces_without.parquet (that with each
cell and each scale left out) and residuals.parquet (each fitted endpoint beside its prediction).
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import Cell
from smelt.scaling.endpoints.table import ENDPOINTS, read_points
from smelt.scaling.fitting import point_fit, refit, resampling
from smelt.scaling.fitting.draws import coefficients_schema, draws_schema, without_schema
from smelt.scaling.fitting.intervals import Draws, LeftOut, support
from smelt.scaling.fitting.outliers import outlying
from smelt.scaling.settings import Settings
from smelt.statistics import jackknife_interval
from smelt.surfaces.catalogue import SURFACES, Design, Surface
from smelt.surfaces.frontier import gamma
from smelt.surfaces.points import Array, Points, joined

RESIDUALS = pa.schema(
    [
        *(ENDPOINTS.field(name) for name in ENDPOINTS.names[:10] if name != "loss"),
        ENDPOINTS.field("loss"),
        field("predicted", pa.float64(), "loss of the fitted surface in nats"),
        field("log_residual", pa.float64(), "log predicted - log loss, what the Huber loss takes"),
        field("residual_nats", pa.float64(), "predicted - loss"),
    ]
)
CERTIFICATE = ("rmse_nats", "objective", "gradient_norm", "iterations", "start_spread", "start_share", "inside_delta")


@dataclasses.dataclass(frozen=True)
class Refits:
    """A surface on other weights of its points: the draws, or each cell or scale left out."""

    draws: Draws
    objectives: Array


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a fit found; `fit` is missing where the points do not determine it."""

    points: Points
    design: Design
    fit: point_fit.Fit | None
    drawn: Refits
    without_cells: Refits
    without_scales: Refits
    reason: str


def choices(settings: Settings) -> Surface:
    """The surface of the settings. Raises UserError for a surface, solver or resample that there is not."""
    known: dict[str, Collection[str]] = {
        "surface": SURFACES,
        "solver": point_fit.SOLVERS,
        "resample": resampling.RESAMPLES,
    }
    for name, values in known.items():
        if getattr(settings, name) not in values:
            raise UserError(f"scaling.{name}: {getattr(settings, name)!r}; expected one of {', '.join(values)}")
    return SURFACES[settings.surface]


def fit_point(points: Points, settings: Settings, surface: Surface | None = None) -> tuple[Array | None, str, str]:
    """The surface (that of the settings) fitted to some points: coefficients (or none), those on a bound, a reason."""
    _, fit, reason = _point(points, surface or choices(settings), settings)
    return (None, "none", reason) if fit is None else (fit.values, " ".join(fit.at_bound) or "none", reason)


def fit_surfaces(points: Mapping[str, Points], settings: Settings) -> dict[str, Fitted]:
    """The surface of each architecture, refitted on the same resamples; one and the same where it is shared."""
    surface = choices(settings)
    cells = cells_of(points)
    if surface.shared:
        whole = joined(points)
        drawn = resampling.draw_weights({whole.architecture: whole}, settings)[whole.architecture]
        return dict.fromkeys(points, _fitted(whole, surface, drawn, cells, settings))
    weights = resampling.draw_weights(points, settings)
    return {name: _fitted(one, surface, weights[name], cells, settings) for name, one in points.items()}


def cells_of(points: Mapping[str, Points]) -> list[Cell]:
    """All cells, in order."""
    return sorted({cell for one in points.values() for cell in one.cells})


def scales_of(cells: Sequence[Cell]) -> list[str]:
    """The scales of the cells, in order."""
    return list(dict.fromkeys(scale for scale, _ in cells))


def _point(points: Points, surface: Surface, settings: Settings) -> tuple[Design, point_fit.Fit | None, str]:
    fixed = surface.fixed(points)
    design = surface.design(points, {name: value for name, (value, _) in fixed.items()})
    if not refit.identified(points, design, np.ones((1, design.size)))[0]:
        return design, None, _shortage(points, design)
    reason = "; ".join(dict.fromkeys(why for _, why in fixed.values()))
    return design, point_fit.fit(points, surface, design, settings), reason


def _fitted(points: Points, surface: Surface, drawn: Array, cells: Sequence[Cell], settings: Settings) -> Fitted:
    design, fit, reason = _point(points, surface, settings)
    refits = _refits(points, design, fit, drawn, settings)
    # Refits made together may take over one another's solution, so each kind is made by itself.
    kept = (
        resampling.without_each(points.cells, cells),
        resampling.without_each(points.scale.tolist(), scales_of(cells)),
    )
    without_cells, without_scales = (_refits(points, design, fit, weights, settings) for weights in kept)
    return Fitted(points, design, fit, refits, without_cells, without_scales, reason)


def _refits(points: Points, design: Design, fit: point_fit.Fit | None, weights: Array, settings: Settings) -> Refits:
    """The fits under each row of weights; those of rows that do not identify a surface are missing."""
    surface, count = design.surface, len(weights)
    theta = np.full((count, len(surface.parameters)), np.nan)
    objectives, converged = np.full(count, np.nan), np.zeros(count, dtype=bool)
    identified = np.zeros(count, dtype=bool) if fit is None else refit.identified(points, design, weights)
    if fit is not None and identified.any():
        ends = refit.refit(fit.theta, design, weights[identified], settings).minimum
        theta[identified], converged[identified] = ends.theta, ends.converged
        objectives[identified] = ends.objective * settings.huber_delta**2
    at_bound = point_fit.bound_names(point_fit.bounds_hit(theta, design), surface)
    values = surface.to_values(theta, design)
    draws = Draws(values, converged, identified, at_bound, surface.coefficients)
    return Refits(draws, objectives)


def _shortage(points: Points, design: Design) -> str:
    counts = (len(np.unique(points.scale)), len(np.unique(points.sparsity)), len(np.unique(points.tokens)))
    return (
        f"{design.size} endpoints (scales: {counts[0]}, sparsities: {counts[1]}, token counts: {counts[2]}) "
        f"do not determine {design.free.sum()} coefficients"
    )


def coefficient_row(name: str, fitted: Fitted, settings: Settings, points: Mapping[str, Points]) -> dict[str, Any]:
    """The row of an architecture: values, intervals, certificate, reason; `points` are those of all architectures."""
    surface, fit = fitted.design.surface, fitted.fit
    row: dict[str, Any] = dict.fromkeys(coefficients_schema(surface).names)
    row |= {"architecture": name, "endpoints": fitted.design.size, "draws": 0, "reason": fitted.reason or None}
    row |= {key: getattr(settings, key) for key in ("s_convention", "surface", "solver", "resample")}
    row["starts"] = settings.fit_starts
    if fit is None:
        return row
    row |= dict(zip(surface.coefficients, fit.values.tolist(), strict=True))
    row |= {key: getattr(fit, key) for key in CERTIFICATE}
    row |= {"gamma": _gamma(fitted, fit.values).item(), "at_bound": " ".join(fit.at_bound) or "none"}
    draws = fitted.drawn.draws
    usable = support([draws], frontier=False)
    columns = dict(zip(surface.coefficients, draws.values.T, strict=True)) | {"gamma": _gamma(fitted, draws.values)}
    for key, values in columns.items():
        row[f"{key}_low"], row[f"{key}_high"] = usable.interval(values)
    row["draws"] = usable.count
    row["gamma_jackknife_low"], row["gamma_jackknife_high"] = _jackknife(fitted)
    narrow = resampling.NARROW.get(settings.resample, "")
    far = outlying(points[name], surface, fit.values, LeftOut(cells_of(points), fitted.without_cells.draws))
    row["reason"] = "; ".join(filter(None, (fitted.reason, *far, narrow, *usable.caveats))) or None
    return row


def _gamma(fitted: Fitted, values: Array) -> Array:
    """gamma of one or many surfaces, at the shape of the fitted points; 0 where an exponent is."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(gamma(fitted.design.surface.slice(values, fitted.points.variables)))


def _jackknife(fitted: Fitted) -> tuple[float | None, float | None]:
    """gamma's interval from its values with each cell left out, where all of them are determined."""
    assert fitted.fit is not None
    one = fitted.without_cells.draws
    count = one.converged.size
    if count < 2 or not (one.identified & one.converged & (one.at_bound == "none")).all():
        return None, None
    left, estimate = _gamma(fitted, one.values), _gamma(fitted, fitted.fit.values).item()
    return jackknife_interval(estimate, left)


def draw_rows(fits: Mapping[str, Fitted]) -> pd.DataFrame:
    """One row for each bootstrap draw of each architecture, the columns of draws.parquet."""
    parts = [_refit_rows(name, fitted.drawn) for name, fitted in fits.items()]
    return pd.concat([part.assign(draw=np.arange(len(part))) for part in parts], ignore_index=True)


def without_rows(fits: Mapping[str, Fitted], cells: Sequence[Cell]) -> pd.DataFrame:
    """One row for each of `cells` left out and then for each of their scales, the columns of surfaces_without.parquet.

    Within each kind the rows are by architecture.
    """
    scales, sparsities = zip(*cells, strict=True)
    by_cell = [_refit_rows(name, fitted.without_cells) for name, fitted in fits.items()]
    by_scale = [_refit_rows(name, fitted.without_scales) for name, fitted in fits.items()]
    parts = [part.assign(scale=scales, sparsity=sparsities) for part in by_cell]
    parts += [part.assign(scale=scales_of(cells), sparsity=None) for part in by_scale]
    return pd.concat(parts, ignore_index=True)


def _refit_rows(architecture: str, refits: Refits) -> pd.DataFrame:
    draws = refits.draws
    return pd.DataFrame(draws.values, columns=list(draws.coefficients)).assign(
        architecture=architecture,
        objective=refits.objectives,
        converged=draws.converged,
        identified=draws.identified,
        at_bound=draws.at_bound,
    )


def residual_rows(endpoints: pd.DataFrame, points: Mapping[str, Points], fits: Mapping[str, Fitted]) -> pd.DataFrame:
    """Each fitted endpoint beside its prediction, architectures without a surface left out."""
    parts = [tables.from_rows([], RESIDUALS)]
    for name, of_architecture in points.items():
        fit, surface = fits[name].fit, fits[name].design.surface
        if fit is None:
            continue
        predicted, loss = surface.predict(fit.values, of_architecture.variables), of_architecture.loss
        part = endpoints.iloc[of_architecture.rows][RESIDUALS.names[:-3]]
        log_residual = np.log(predicted) - np.log(loss)
        parts.append(part.assign(predicted=predicted, log_residual=log_residual, residual_nats=predicted - loss))
    return pd.concat(parts, ignore_index=True)


def main(argv: Sequence[str]) -> None:
    writes = ["coefficients", "draws", "surfaces_without", "residuals"]
    job = read_job("smelt.scaling.fitting.fit", __doc__, argv, Settings, ["endpoints"], writes)
    points = read_points(job.path("endpoints"), job.settings)
    fits, surface = fit_surfaces(points, job.settings), SURFACES[job.settings.surface]
    rows = [coefficient_row(name, fitted, job.settings, points) for name, fitted in fits.items()]
    residuals = residual_rows(tables.read(job.path("endpoints")), points, fits)
    job.write("coefficients", artifacts.table(rows, coefficients_schema(surface)))
    job.write("draws", tables.to_arrow(draw_rows(fits), draws_schema(surface)))
    without = without_rows(fits, cells_of(points))
    job.write("surfaces_without", tables.to_arrow(without, without_schema(surface)))
    job.write("residuals", tables.to_arrow(residuals, RESIDUALS))
    for row in rows:
        print(f"{row['architecture']}: {row['endpoints']} endpoints, {row['draws']} draws; {row['reason'] or 'fitted'}")


if __name__ == "__main__":
    command(main)
