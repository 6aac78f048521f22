"""The table of endpoints: its columns, its checks, and the points that enter the fits."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smelt.artifacts import field, read_table
from smelt.errors import UserError
from smelt.labels import CONTROL
from smelt.scaling.settings import Settings
from smelt.surfaces.points import VARIABLES, Array, Points

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
