"""The table of endpoints: its columns, its checks, and the points that enter the fits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt.artifacts import field
from smelt.errors import UserError
from smelt.labels import CONTROL, KEY_FIELDS, KEYS, RUN_KEYS
from smelt.scaling.settings import Settings
from smelt.surfaces.points import VARIABLES, Points
from smelt.tables import first_rows, numbers, read

ENDPOINTS = pa.schema(
    [
        *KEY_FIELDS,
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


def check_endpoints(data: pd.DataFrame, path: str | Path) -> None:
    """Raise UserError, naming the row and column of the file `path`, where an endpoint cannot enter a fit."""
    if data.empty:
        raise UserError(f"{path}: no endpoint; the study trains no run")
    for name in ("loss", "flops_per_token", "tokens"):
        values = numbers(data, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            row = wrong[0]
            raise UserError(f"{path}: row {row + 1}, column {name}: {values[row]}; expected a positive number")
    sparsity = numbers(data, "S")
    # Eq. 1 with the baseline's control puts a looped control slightly below zero.
    wrong = np.flatnonzero(~((sparsity < 1) & ((sparsity >= 0) | (data["sparsity"] == CONTROL).to_numpy(dtype=bool))))
    if wrong.size:
        raise UserError(f"{path}: row {wrong[0] + 1}, column S: {sparsity[wrong[0]]}; expected a sparsity in [0, 1)")
    names = [*KEYS, "source"]
    first = first_rows(data, names)
    repeated = np.flatnonzero(first != np.arange(len(data)))
    if repeated.size:
        row = repeated[0]
        raise UserError(
            f"{path}: row {row + 1} repeats row {first[row] + 1} ({', '.join(KEYS)} = "
            f"{', '.join(str(data[name].iloc[row]) for name in KEYS)}); each endpoint may appear once"
        )


def read_points(path: str | Path, settings: Settings, s_column: str = "S") -> dict[str, Points]:
    """The endpoints that the study fits, by architecture (the reference first).

    Left out are labels outside `fit_sparsities` (empty: all but the control, or that where it is all there is)
    and the earliest `skip_branches` branches of each run. `s_column` is the column that S is taken from; where
    it lacks a value for a point of an architecture, that architecture has no variable "active".
    """
    return select_points(read(path), path, settings, s_column)


def select_points(data: pd.DataFrame, path: str | Path, settings: Settings, s_column: str = "S") -> dict[str, Points]:
    """`read_points` on a table that has been read from `path`."""
    used = select_sparsities(data, path, settings.reference, settings.fit_sparsities)
    for label in used["sparsity"].unique():
        if label not in settings.sparsity_values:
            raise UserError(f"scaling: the sparsity {label!r} has no value; give it under scaling.sparsities")
    used = used[branch_ranks(used) >= settings.skip_branches]
    if used.empty:
        raise UserError(f"{path}: no endpoint is left to fit; lower scaling.skip_branches or extend fit_sparsities")
    names = sorted(used["architecture"].unique(), key=lambda name: (name != settings.reference, name))
    _check_reference(data, used, path, settings.reference, settings.fit_sparsities)
    return {name: _points(used[used["architecture"] == name], name, s_column) for name in names}


def select_sparsities(data: pd.DataFrame, path: str | Path, reference: str, labels: Sequence[str] = ()) -> pd.DataFrame:
    """The checked endpoints of the sparsities that a study compares; the index is their position in the table.

    These are `labels` (scaling.fit_sparsities), or where there is none all but the control, or that where it is all
    there is. Raises UserError on an endpoint that cannot be right, an unknown label, or no endpoint of the reference.
    """
    check_endpoints(data, path)
    known = sorted(data["sparsity"].unique())
    wanted = tuple(labels) or tuple(label for label in known if label != CONTROL) or (CONTROL,)
    for label in wanted:
        if label not in known:
            raise UserError(f"scaling.fit_sparsities: {path} has no {label!r} but {known}")
    used = data.reset_index(drop=True)
    used = used[used["sparsity"].isin(wanted)]
    _check_reference(data, used, path, reference, labels)
    return used


def _check_reference(
    data: pd.DataFrame, used: pd.DataFrame, path: str | Path, reference: str, labels: Sequence[str]
) -> None:
    """Raise UserError where no endpoint of the reference is left to compare with, and say what to set."""
    if (used["architecture"] == reference).any():
        return
    none = f"{path}: no endpoint of the reference architecture {reference!r}"
    there = sorted(data.loc[data["architecture"] == reference, "sparsity"].unique())
    if not there:
        raise UserError(none)
    if labels or CONTROL not in there:
        raise UserError(
            f"{none} is left to fit; all are at {', '.join(there)}: extend scaling.fit_sparsities, or lower "
            "scaling.skip_branches"
        )
    raise UserError(
        f"{path}: all endpoints of the reference {reference!r} are at {CONTROL}, which is not fitted by default; to "
        "pair dense models with sparse ones by scale, give both one label without a percentage in the column "
        f"'sparsity', such as paired; or set scaling.fit_sparsities: [{', '.join(sorted(data['sparsity'].unique()))}], "
        "without pairs"
    )


def branch_ranks(data: pd.DataFrame) -> pd.Series:
    """Position of each endpoint's branch step among those of its run: 0 for the earliest, 1 for the next."""
    return data.groupby(list(RUN_KEYS), dropna=False)["branch_step"].rank(method="dense") - 1


def _points(data: pd.DataFrame, architecture: str, s_column: str) -> Points:
    """The points of one architecture; the index of `data` is the position of each row in the table of endpoints."""
    columns = {"active": 1 - numbers(data, s_column)} | {name: numbers(data, key) for name, key in VARIABLES.items()}
    return Points(
        architecture=architecture,
        rows=data.index.to_numpy(dtype=np.int64),
        names=np.array(data["architecture"].tolist()),
        scale=np.array(data["scale"].tolist()),
        sparsity=np.array(data["sparsity"].tolist()),
        loss=numbers(data, "loss"),
        variables={name: values for name, values in columns.items() if not np.isnan(values).any()},
    )
