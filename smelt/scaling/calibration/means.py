"""Means of the residuals by scale, by category and over all endpoints, with cell-bootstrap intervals.

Cells are resampled with replacement; in each draw the reference's curves are refitted and the means are taken over
the same draw, so that the interval holds the uncertainty of the curve too. Whether a score is better than its loss
accounts for is a question to the metric itself; a category's residual is the mean over its tasks, each against its
own curve, at each endpoint first and then over endpoints.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt.artifacts import field
from smelt.scaling.calibration.series import Calibrated
from smelt.scaling.calibration.settings import Settings
from smelt.scaling.fitting.intervals import supported
from smelt.surfaces.points import Array

MEANS = pa.schema(
    [
        field("metric", pa.string(), "core, completion, mmlu or any other name"),
        field("architecture", pa.string(), "execution plan; the reference's own rows say how well its curve fits"),
        field("group", pa.string(), "all, scale, category, or category_scale"),
        field("label", pa.string(), "the scale or category of the group; all for all"),
        field("residual", pa.float64(), "mean residual, in units of the score; positive is better"),
        field("low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        field("endpoints", pa.int32(), "endpoints averaged"),
        field("reason", pa.string(), "why a value is missing, and what was left out"),
        field("scale", pa.string(), "scale of the endpoints of a category_scale; else empty"),
        field("cells", pa.int32(), "cells (scale x sparsity) that the endpoints belong to"),
        field("draws", pa.int32(), "bootstrap draws that the interval uses"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Residuals of a metric, or of a category's tasks together, at the endpoints that have them."""

    rows: NDArray[np.int64]
    point: Array  # (n,)
    drawn: Array  # (draws, n)
    usable: NDArray[np.bool_]  # draws in which every curve was refitted
    beyond: NDArray[np.bool_]
    unknown: str  # names of the curves that hold between the reference's losses only
    notes: tuple[str, ...]


def mean_rows(calibrated: Sequence[Calibrated], endpoints: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    """All rows of the table, by metric, architecture (the reference first) and group."""
    cell = endpoints.groupby(["scale", "sparsity"], sort=False, dropna=False).ngroup().to_numpy()
    known = np.unique(cell[np.concatenate([member.series.rows for member in calibrated])])
    by_cell = cell_weights(len(known), settings)
    # Endpoints without a score are in no series; whichever weight they get here is not used.
    weights = by_cell[:, np.where(np.isin(cell, known), np.searchsorted(known, cell), 0)]
    rows = []
    for metric in dict.fromkeys(member.series.metric for member in calibrated):
        means = list(
            _metric_rows([member for member in calibrated if member.series.metric == metric], endpoints, weights)
        )
        names = sorted({row["architecture"] for row in means}, key=lambda name: (name != settings.reference, name))
        rows += [row for name in names for row in means if row["architecture"] == name]
    return rows


def cell_weights(cells: int, settings: Settings) -> Array:
    """How often each cell comes up in each draw, (draws, cells). Draw i depends on the seed and i alone."""
    picks = (
        np.random.default_rng([settings.seed, draw]).integers(cells, size=cells)
        for draw in range(settings.bootstrap_draws)
    )
    return np.array([np.bincount(pick, minlength=cells) for pick in picks], dtype=np.float64)


def _metric_rows(members: Sequence[Calibrated], endpoints: pd.DataFrame, weights: Array) -> Iterator[dict[str, Any]]:
    """The rows of one metric: its own residuals first, then those of its categories."""
    aggregate = next(member for member in members if not member.series.task)
    metric = aggregate.series.metric
    yield from _grouped(metric, None, [aggregate], endpoints, weights)
    for category in sorted({member.series.category for member in members} - {""}):
        yield from _grouped(
            metric, category, [member for member in members if member.series.category == category], endpoints, weights
        )


def _grouped(
    metric: str, category: str | None, members: Sequence[Calibrated], endpoints: pd.DataFrame, weights: Array
) -> Iterator[dict[str, Any]]:
    together = _together(members, weights)
    used = members[0].series.rows if together is None else together.rows
    labels = endpoints[["architecture", "scale", "sparsity"]].iloc[used].fillna({"scale": ""})
    for name in labels["architecture"].unique():
        of_name = (labels["architecture"] == name).to_numpy(dtype=bool)
        for scale in (None, *filter(None, labels["scale"][of_name].unique())):
            row: dict[str, Any] = dict.fromkeys(MEANS.names)
            row |= {"metric": metric, "architecture": name, "draws": 0}
            if category is None:
                row |= {"group": "scale" if scale else "all", "label": scale or "all"}
            else:
                row |= {"group": "category_scale" if scale else "category", "label": category, "scale": scale}
            chosen = of_name if scale is None else of_name & (labels["scale"] == scale).to_numpy(dtype=bool)
            cells = labels[["scale", "sparsity"]][chosen].drop_duplicates()
            row |= {"endpoints": int(chosen.sum()), "cells": len(cells)}
            if together is None:
                row["reason"] = "; ".join(_unfitted(members))
            else:
                _fill(row, together, chosen, weights[:, used[chosen]])
            yield row


def _unfitted(members: Sequence[Calibrated]) -> list[str]:
    return [f"{member.series.name} has no curve: {member.fit.reason}" for member in members if member.curve is None]


def _together(members: Sequence[Calibrated], weights: Array) -> Residuals | None:
    """The mean over the series that have a curve, of the same endpoints; nothing where none has."""
    fitted = [member for member in members if member.curve is not None]
    if not fitted:
        return None
    drawn, usable = fitted[0].drawn(weights[:, fitted[0].series.rows])
    for member in fitted[1:]:
        more, also = member.drawn(weights[:, member.series.rows])
        drawn, usable = drawn + more, usable & also
    return Residuals(
        fitted[0].series.rows,
        np.mean([member.residual for member in fitted], axis=0),
        drawn / len(fitted),
        usable,
        fitted[0].beyond,
        ", ".join(member.series.name for member in fitted if not member.fit.determined),
        tuple(f"left out: {text}" for text in _unfitted(members)),
    )


def _fill(row: dict[str, Any], residuals: Residuals, chosen: NDArray[np.bool_], weights: Array) -> None:
    """The mean over the chosen endpoints and its interval; `weights` are theirs, (draws, chosen)."""
    row["residual"] = float(residuals.point[chosen].mean())
    notes = list(residuals.notes)
    if beyond := int(residuals.beyond[chosen].sum()):
        note = f"{beyond} of {row['endpoints']} losses lie beyond the reference's, where its curve is extrapolated"
        notes.append(note + (f" and not determined ({residuals.unknown})" if residuals.unknown else ""))
    if row["cells"] < 2:
        notes.append("no interval: there is one cell, so nothing to resample")
    else:
        total = weights.sum(axis=1)
        drawn = total > 0
        support = supported({"have no curve of the reference": ~residuals.usable[drawn]})
        means = np.einsum("bn,bn->b", weights[drawn], residuals.drawn[drawn][:, chosen]) / total[drawn]
        row["low"], row["high"] = support.interval(means)
        row["draws"] = support.count
        notes += support.caveats
        if support.enough and not drawn.all():
            notes.append(f"draws excluded: {100 * (1 - drawn.mean()):.3g} % of the draws hold no cell of the group")
    row["reason"] = "; ".join(notes) or None
