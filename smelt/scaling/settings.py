"""Settings of the scaling stage, the columns of its endpoints, and the points that enter the fits."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smelt.artifacts import field, read_table
from smelt.errors import UserError

Array = NDArray[np.float64]
CONTROL = "S0"  # label of the fully active control, which no fit uses unless it is named, or is all there is
CONVENTIONS = ("own", "baseline", "nominal")  # of S; the columns S_own, S_baseline and S_nominal
ALL = "all"  # the name of the points of all architectures together

ENDPOINTS = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("scale", pa.string(), "label of the scale"),
        field("sparsity", pa.string(), "label of the sparsity"),
        field("seed", pa.int32(), "seed of initialisation and of the order of contexts"),
        field("branch_step", pa.int32(), "stable step that the decay leaves from"),
        field("tokens", pa.int64(), "D: training tokens, the decay included, full contexts"),
        field("flops_per_token", pa.float64(), "F: training FLOPs per token, without embedding and LM head"),
        field("training_flops", pa.float64(), "C = F D"),
        field("S", pa.float64(), "compute-equivalent sparsity under the study's convention"),
        field("loss", pa.float64(), "held-out loss in nats: token-weighted within a source, mean over sources"),
        field("loss_token_mean", pa.float64(), "held-out loss in nats, token-weighted over all"),
        field("source", pa.string(), "where the row comes from"),
        field("params", pa.int64(), "N: non-embedding parameters"),
        field("kv_bytes_per_token", pa.int64(), "KV cache over executed layers, bytes per token"),
        field("S_own", pa.float64(), "S against the architecture's own S = 0 control; missing where there is none"),
        field("S_baseline", pa.float64(), "S against the reference's fully active control; missing where unknown"),
        field("S_nominal", pa.float64(), "S of the label; missing where unknown"),
        field("active_params", pa.int64(), "parameters that a token meets in one physical traversal"),
        field("looped_params", pa.int64(), "of them, those inside the span, counted once"),
        field("visits", pa.int32(), "passes through the span"),
        field("expansion", pa.float64(), "experts per active expert"),
    ]
)
# The variables that a surface may read, and the columns that hold them; `active` is 1 - S.
VARIABLES = {
    "flops": "flops_per_token",
    "tokens": "tokens",
    "params": "params",
    "active_params": "active_params",
    "looped_params": "looped_params",
    "visits": "visits",
    "expansion": "expansion",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The study's `scaling` section, and what it needs to know of the rest of the study."""

    study: str
    reference: str  # architecture that the gains compare with
    sparsity_values: Mapping[str, float]  # label -> S at which frontiers are compared
    surface: str = "smelt"
    solver: str = "newton"
    resample: str = "cells"
    s_convention: str = "baseline"
    fit_sparsities: tuple[str, ...] = ()
    skip_branches: int = 0
    budgets: tuple[float, ...] = ()
    draws: int = 10000
    seed: int = 0
    huber_delta: float = 0.001
    deltas: tuple[float, ...] = (0.0003, 0.003, 0.01)
    starts: int = 64


@dataclasses.dataclass(frozen=True)
class Points:
    """Fitted endpoints, of one architecture or of all, as columns; `rows` are their places in the table."""

    architecture: str
    rows: NDArray[np.int64]
    names: NDArray[np.str_]  # architecture of each point
    scale: NDArray[np.str_]
    sparsity: NDArray[np.str_]
    loss: Array  # nats
    variables: Mapping[str, Array]  # "active", 1 - S, and those of VARIABLES that no point lacks

    @property
    def cells(self) -> list[tuple[str, str]]:
        """The cell, (scale, sparsity), of each point."""
        return list(zip(self.scale.tolist(), self.sparsity.tolist(), strict=True))

    @property
    def flops(self) -> Array:
        """F, FLOPs per token."""
        return self.variables["flops"]

    @property
    def active(self) -> Array:
        """1 - S."""
        return self.variables["active"]

    @property
    def tokens(self) -> Array:
        """D, tokens."""
        return self.variables["tokens"]


def check_endpoints(data: pa.Table, path: str | Path) -> None:
    """Raise UserError, naming row and column, where an endpoint cannot enter a fit."""
    if data.num_rows == 0:
        raise UserError(f"{path}: no endpoint; the study trains no run")
    for name in ("loss", "flops_per_token", "tokens"):
        values = column(data, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            place, found = f"row {wrong[0] + 1}, column {name}", values[wrong[0]]
            raise UserError(f"{path}: {place}: {found}; expected a positive number")
    sparsities, labels = column(data, "S"), data["sparsity"].to_pylist()
    for row, (value, label) in enumerate(zip(sparsities, labels, strict=True), start=1):
        # Eq. 1 with the baseline's control puts a looped control slightly below zero.
        if not (value < 1 and (value >= 0 or label == CONTROL)):
            raise UserError(f"{path}: row {row}, column S: {value}; expected a sparsity in [0, 1)")
    keys = ["architecture", "scale", "sparsity", "seed", "branch_step", "source"]
    seen: dict[tuple[object, ...], int] = {}
    for row, key in enumerate(zip(*(data[name].to_pylist() for name in keys), strict=True), start=1):
        if key in seen:
            raise UserError(
                f"{path}: row {row} repeats row {seen[key]} (architecture, scale, sparsity, seed, branch_step = "
                f"{', '.join(map(str, key[:5]))}); each endpoint may stand there once"
            )
        seen[key] = row


def column(data: pa.Table, name: str) -> Array:
    """A numeric column as float64, missing values as NaN."""
    return np.array([np.nan if value is None else value for value in data[name].to_pylist()], dtype=np.float64)


def read_points(path: str | Path, settings: Settings, s_column: str = "S") -> dict[str, Points]:
    """The endpoints that the study fits, by architecture (the reference first).

    Left out are labels outside `fit_sparsities` (empty: all but the control, or that where it is all there is)
    and the earliest `skip_branches` branches of each run. `s_column` is the column that S is taken from; where
    it lacks a value for a point of an architecture, that architecture has no variable "active".
    """
    return select_points(read_table(path), path, settings, s_column)


def select_points(data: pa.Table, path: str | Path, settings: Settings, s_column: str = "S") -> dict[str, Points]:
    """`read_points` on a table that has been read from `path`."""
    check_endpoints(data, path)
    labels = data["sparsity"].to_pylist()
    wanted = settings.fit_sparsities or tuple(sorted(set(labels) - {CONTROL})) or (CONTROL,)
    for label in wanted:
        if label not in labels:
            raise UserError(f"scaling.fit_sparsities: {path} has no {label!r} but {sorted(set(labels))}")
        if label not in settings.sparsity_values:
            raise UserError(f"scaling: the sparsity {label!r} has no value; give it under scaling.sparsities")
    keep = np.isin(labels, wanted) & (_branch_rank(data) >= settings.skip_branches)
    if not keep.any():
        raise UserError(f"{path}: no endpoint is left to fit; lower scaling.skip_branches or extend fit_sparsities")
    names = np.array(data["architecture"].to_pylist())
    if settings.reference not in names[keep]:
        raise UserError(f"{path}: no endpoint of the reference architecture {settings.reference!r}")
    others = sorted(set(names[keep].tolist()) - {settings.reference})
    return {
        name: _points(data, np.flatnonzero(keep & (names == name)), name, s_column)
        for name in [settings.reference, *others]
    }


def joined(points: Mapping[str, Points] | Sequence[Points]) -> Points:
    """The points of all architectures together, in their order, with the variables that all have."""
    parts = list(points.values()) if isinstance(points, Mapping) else list(points)
    common = [name for name in parts[0].variables if all(name in part.variables for part in parts)]
    return Points(
        architecture=ALL,
        rows=np.concatenate([part.rows for part in parts]),
        names=np.concatenate([part.names for part in parts]),
        scale=np.concatenate([part.scale for part in parts]),
        sparsity=np.concatenate([part.sparsity for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        variables={name: np.concatenate([part.variables[name] for part in parts]) for name in common},
    )


def _branch_rank(data: pa.Table) -> NDArray[np.int64]:
    """0 for the earliest branch of a run, 1 for the next, and so on."""
    runs = list(zip(*(data[name].to_pylist() for name in ("architecture", "scale", "sparsity", "seed")), strict=True))
    steps: dict[tuple[object, ...], set[int]] = {}
    for run, step in zip(runs, data["branch_step"].to_pylist(), strict=True):
        steps.setdefault(run, set()).add(step)
    order = {run: sorted(values) for run, values in steps.items()}
    return np.array([order[run].index(step) for run, step in zip(runs, data["branch_step"].to_pylist(), strict=True)])


def _points(data: pa.Table, rows: NDArray[np.int64], architecture: str, s_column: str) -> Points:
    chosen = data.take(pa.array(rows))
    found = {"active": 1 - column(chosen, s_column)}
    found |= {name: column(chosen, key) for name, key in VARIABLES.items()}
    return Points(
        architecture=architecture,
        rows=rows,
        names=np.array(chosen["architecture"].to_pylist()),
        scale=np.array(chosen["scale"].to_pylist()),
        sparsity=np.array(chosen["sparsity"].to_pylist()),
        loss=column(chosen, "loss"),
        variables={name: values for name, values in found.items() if not np.isnan(values).any()},
    )
