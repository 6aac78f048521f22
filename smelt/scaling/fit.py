"""Endpoints to surfaces: the point fit of Eq. 2 for each architecture and its cell bootstrap.

Reads results/scaling/endpoints.parquet; writes coefficients.parquet (values, intervals and the fit's
certificate), draws.parquet (every refitted surface) and residuals.parquet (each fitted endpoint beside
its prediction).
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts, spec
from smelt.artifacts import field
from smelt.errors import command
from smelt.scaling import bootstrap, newton, solve
from smelt.scaling.draws import COEFFICIENTS, DRAWS, HELD, Draws, support
from smelt.scaling.frontier import gamma
from smelt.scaling.settings import ENDPOINTS, Array, Points, Settings, read_points
from smelt.scaling.surface import (
    NAMES,
    Coefficients,
    Design,
    bounds_hit,
    build_design,
    predict,
    to_coefficients,
)

RESIDUALS = pa.schema(
    [
        *(ENDPOINTS.field(name) for name in ENDPOINTS.names[:10] if name != "loss"),
        ENDPOINTS.field("loss"),
        field("predicted", pa.float64(), "loss of the fitted surface in nats"),
        field("log_residual", pa.float64(), "log predicted - log loss, what the Huber loss takes"),
        field("residual_nats", pa.float64(), "predicted - loss"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Surface:
    """What the fit of one architecture found; `fit` is missing where the points do not determine it."""

    points: Points
    design: Design
    fit: solve.Fit | None
    draws: Draws
    objectives: Array
    reason: str


def fit_surfaces(points: Mapping[str, Points], settings: Settings) -> list[Surface]:
    """Fit every architecture, and refit all of them on the same resamples of the cells."""
    cells = sorted({cell for one in points.values() for cell in one.cells})
    weights = bootstrap.cell_weights(cells, settings.draws, settings.seed)
    return [_surface(one, bootstrap.point_weights(weights, cells, one), settings) for one in points.values()]


def _surface(points: Points, weights: Array, settings: Settings) -> Surface:
    # One label is one sparsity, though the measured S of its cells differ in the third digit.
    fix_b = len(np.unique(points.sparsity)) == 1 or float(np.ptp(np.log(points.active))) < 1e-9
    design = build_design(points, fix_b)
    if not bootstrap.identified(points, np.ones((1, design.size)), fix_b)[0]:
        missing = np.full((6, len(weights)), np.nan)
        nothing = np.zeros(len(weights), dtype=bool)
        draws = Draws(Coefficients(*missing), nothing, nothing, np.full(len(weights), "none"))
        return Surface(points, design, None, draws, missing[0], _shortage(points, design))
    fit = solve.fit(points, design, settings.huber_delta, settings.starts)
    identified = bootstrap.identified(points, weights, fix_b)
    ends = bootstrap.refit(fit.theta, design, weights[identified], settings.huber_delta)
    draws, objectives = _spread_out(ends, identified, design, settings.huber_delta)
    return Surface(points, design, fit, draws, objectives, HELD if fix_b else "")


def _spread_out(ends: newton.Minimum, identified: np.ndarray, design: Design, delta: float) -> tuple[Draws, Array]:
    """The fits of the identified draws, put back among all draws, and their objectives."""
    theta = np.full((identified.size, 6), np.nan)
    theta[identified] = ends.theta
    converged = np.zeros(identified.size, dtype=bool)
    converged[identified] = ends.converged
    objectives = np.full(identified.size, np.nan)
    objectives[identified] = ends.objective * delta**2
    at_bound = np.array([_names(row) for row in bounds_hit(theta, design)])
    return Draws(to_coefficients(theta, design), converged, identified, at_bound), objectives


def _names(hit: np.ndarray) -> str:
    return " ".join(name for name, one in zip(NAMES, hit, strict=True) if one) or "none"


def _shortage(points: Points, design: Design) -> str:
    free = int((design.upper > design.lower).sum())
    counts = (len(np.unique(points.scale)), len(np.unique(points.sparsity)), len(np.unique(points.tokens)))
    return (
        f"{design.size} endpoints (scales: {counts[0]}, sparsities: {counts[1]}, token counts: {counts[2]}) "
        f"do not determine {free} coefficients"
    )


def coefficient_row(surface: Surface, settings: Settings) -> dict[str, Any]:
    """The row of an architecture: values, intervals, certificate, reason."""
    row: dict[str, Any] = dict.fromkeys(COEFFICIENTS.names)
    row |= {
        "architecture": surface.points.architecture,
        "endpoints": surface.design.size,
        "s_convention": settings.s_convention,
        "draws": 0,
        "reason": surface.reason or None,
    }
    if surface.fit is None:
        return row
    fit = surface.fit
    values = to_coefficients(fit.theta, surface.design)
    row |= {name: float(value) for name, value in zip(NAMES, values, strict=True)}
    row |= {name: getattr(fit, name) for name in ("rmse_nats", "objective", "gradient_norm", "iterations")}
    row |= {name: getattr(fit, name) for name in ("start_spread", "start_share", "inside_delta")}
    row |= {"gamma": _gamma(values), "starts": settings.starts, "at_bound": " ".join(fit.at_bound) or "none"}
    held = support([surface.draws], frontier=False)
    with np.errstate(invalid="ignore"):
        columns = dict(zip(NAMES, surface.draws.surface, strict=True)) | {"gamma": gamma(surface.draws.surface)}
    for name, drawn in columns.items():
        row[f"{name}_low"], row[f"{name}_high"] = held.interval(drawn)
    row["draws"] = held.count
    row["reason"] = "; ".join(filter(None, (surface.reason, *held.notes))) or None
    return row


def _gamma(surface: Coefficients) -> float | None:
    return float(gamma(surface)) if surface.a + surface.c > 0 else None


def draw_rows(surface: Surface) -> list[dict[str, Any]]:
    """One row for each draw of an architecture."""
    columns = np.stack([*surface.draws.surface, surface.objectives], axis=1)
    return [
        {
            "draw": draw,
            "architecture": surface.points.architecture,
            **{
                name: float(value) if np.isfinite(value) else None
                for name, value in zip((*NAMES, "objective"), values, strict=True)
            },
            "converged": bool(surface.draws.converged[draw]),
            "identified": bool(surface.draws.identified[draw]),
            "at_bound": str(surface.draws.at_bound[draw]),
        }
        for draw, values in enumerate(columns)
    ]


def residual_table(endpoints: pa.Table, surfaces: Sequence[Surface]) -> pa.Table:
    """Each fitted endpoint beside its prediction, architectures without a surface left out."""
    parts = []
    for surface in surfaces:
        if surface.fit is None:
            continue
        points = surface.points
        predicted = predict(
            to_coefficients(surface.fit.theta, surface.design), points.flops, points.active, points.tokens
        )
        part = endpoints.take(pa.array(points.rows)).select(RESIDUALS.names[:-3])
        part = part.append_column("predicted", pa.array(predicted))
        part = part.append_column("log_residual", pa.array(np.log(predicted) - np.log(points.loss)))
        part = part.append_column("residual_nats", pa.array(predicted - points.loss))
        parts.append(part.cast(RESIDUALS))
    return pa.concat_tables(parts) if parts else RESIDUALS.empty_table()


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    parser.add_argument("--endpoints", required=True, type=Path)
    for name in ("coefficients", "draws", "residuals"):
        parser.add_argument(f"--{name}", required=True, type=Path, help=f"where to write {name}")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    points = read_points(arguments.endpoints, settings)
    surfaces = fit_surfaces(points, settings)
    rows = [coefficient_row(surface, settings) for surface in surfaces]
    origin = artifacts.provenance("smelt.scaling.fit", dataclasses.asdict(settings), [arguments.endpoints])
    artifacts.write_table(artifacts.table(rows, COEFFICIENTS), arguments.coefficients, origin)
    drawn = [row for surface in surfaces for row in draw_rows(surface)]
    artifacts.write_table(artifacts.table(drawn, DRAWS), arguments.draws, origin)
    residuals = residual_table(artifacts.read_table(arguments.endpoints), surfaces)
    artifacts.write_table(residuals, arguments.residuals, origin)
    for row in rows:
        print(f"{row['architecture']}: {row['endpoints']} endpoints, {row['draws']} draws; {row['reason'] or 'fitted'}")


if __name__ == "__main__":
    command(main)
