"""The fitted surfaces and their bootstrap draws as tables, and the intervals that the draws give."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import tables
from smelt.artifacts import field
from smelt.scaling.fitting.intervals import Draws, LeftOut
from smelt.surfaces.catalogue import SMELT, Surface
from smelt.surfaces.points import Array

GAMMA = "exponent of the frontier in compute, a c / (a + c)"

_ARCHITECTURE = field("architecture", pa.string(), "execution plan; a shared surface stands with each")
_AT_BOUND = field("at_bound", pa.string(), "coefficients on a bound, or none")


def draws_schema(surface: Surface) -> pa.Schema:
    """Columns of draws.parquet."""
    draw = field("draw", pa.int32(), "index of the resample; the same for every architecture")
    return pa.schema([draw, *_fits(surface)])


def without_schema(surface: Surface) -> pa.Schema:
    """Columns of surfaces_without.parquet."""
    scale = field("scale", pa.string(), "label of the scale that is left out, or of the cell's")
    sparsity = field("sparsity", pa.string(), "label of the cell's sparsity; missing where the whole scale is left out")
    return pa.schema([scale, sparsity, *_fits(surface)])


def _fits(surface: Surface) -> list[pa.Field]:
    return [
        _ARCHITECTURE,
        *(field(name, pa.float64(), unit) for name, unit in surface.units.items()),
        field("objective", pa.float64(), "weighted sum of Huber losses of log loss"),
        field("converged", pa.bool_(), "whether the fit reached its minimum"),
        field("identified", pa.bool_(), "whether the points with weight determine all free coefficients"),
        _AT_BOUND,
    ]


def coefficients_schema(surface: Surface) -> pa.Schema:
    """Columns of coefficients.parquet: those of Eq. 2 first, missing where the surface lacks one."""
    units = SMELT.units | {name: surface.units[name] for name in SMELT.coefficients if name in surface.units}
    further = [name for name in surface.coefficients if name not in SMELT.coefficients]
    return pa.schema(
        [
            _ARCHITECTURE,
            *(field(name, pa.float64(), units[name]) for name in SMELT.coefficients),
            field("gamma", pa.float64(), GAMMA),
            field("rmse_nats", pa.float64(), "root mean square of prediction - loss"),
            field("endpoints", pa.int32(), "fitted endpoints"),
            field("objective", pa.float64(), "sum of Huber losses of log loss"),
            _AT_BOUND,
            *(_end(name, end) for name in (*SMELT.coefficients, "gamma") for end in ("low", "high")),
            field("gradient_norm", pa.float64(), "of the objective in units of delta^2, at the minimum"),
            field("iterations", pa.int32(), "iterations of the best start"),
            field("starts", pa.int32(), "starts of the fit"),
            field("start_spread", pa.float64(), "(worst - best) / best objective over the starts"),
            field("start_share", pa.float64(), "share of starts within 1e-6 of the best objective"),
            field("inside_delta", pa.float64(), "share of residuals inside the Huber delta"),
            field("draws", pa.int32(), "bootstrap draws that the intervals use"),
            field("s_convention", pa.string(), "convention of S"),
            field("reason", pa.string(), "why a value is missing or held"),
            field("surface", pa.string(), "form of the surface"),
            field("solver", pa.string(), "solver of the fits"),
            field("resample", pa.string(), "what the bootstrap resamples"),
            field("gamma_jackknife_low", pa.float64(), "low end of gamma's 95 % delete-one-cell jackknife interval"),
            field("gamma_jackknife_high", pa.float64(), "high end of gamma's 95 % delete-one-cell jackknife interval"),
            *(field(name, pa.float64(), surface.units[name]) for name in further),
            *(_end(name, end) for name in further for end in ("low", "high")),
        ]
    )


def _end(name: str, end: str) -> pa.Field:
    return field(f"{name}_{end}", pa.float64(), f"{end} end of the 95 % bootstrap interval of {name}")


def read_draws(path: str | Path, surface: Surface) -> dict[str, Draws]:
    """The draws of each architecture, in the table's order.

    Raises UserError where the file is missing or lacks a column of the surface.
    """
    return draws_of(tables.read(path), surface)


def read_without(path: str | Path, surface: Surface) -> tuple[dict[str, LeftOut], dict[str, LeftOut]]:
    """The surfaces of each architecture with each cell left out, and with each scale.

    Raises UserError where the file is missing or lacks a column of the surface.
    """
    table = tables.read(path)
    whole = table["sparsity"].isna()
    cells = list(table.loc[~whole, ["scale", "sparsity"]].drop_duplicates().itertuples(index=False, name=None))
    scales = [(scale,) for scale in table.loc[whole, "scale"].drop_duplicates()]
    by_cell, by_scale = draws_of(table[~whole], surface), draws_of(table[whole], surface)
    return (
        {name: LeftOut(cells, refits) for name, refits in by_cell.items()},
        {name: LeftOut(scales, refits) for name, refits in by_scale.items()},
    )


def draws_of(table: pd.DataFrame, surface: Surface) -> dict[str, Draws]:
    """The refitted surfaces of each architecture in a table that has their columns, in its order."""
    return {
        str(name): Draws(
            values=np.stack([tables.numbers(part, coefficient) for coefficient in surface.coefficients], axis=1),
            converged=part["converged"].to_numpy(dtype=np.bool_),
            identified=part["identified"].to_numpy(dtype=np.bool_),
            at_bound=part["at_bound"].to_numpy(dtype=np.str_),
            coefficients=surface.coefficients,
        )
        for name, part in table.groupby("architecture", sort=False)
    }


def read_coefficients(path: str | Path) -> dict[str, Mapping[str, Any]]:
    """The row of each architecture, the reference first."""
    return {row["architecture"]: row for row in tables.rows(tables.read(path))}


def values_of(row: Mapping[str, Any], surface: Surface) -> Array | None:
    """The coefficients in a row, (P,), or nothing where they were not identified."""
    if row["E"] is None:
        return None
    return np.array([row[name] for name in surface.coefficients], dtype=np.float64)
