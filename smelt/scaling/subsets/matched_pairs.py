"""Matched pairs: endpoints that differ in one thing (architecture, sparsity or scale) at the same seed and branch step.

The breakdowns of the held-out loss use all sparsities, the control's among them, and leave out only the branches
that the study skips. Pairs are a frame with the columns `first` and `second`, index labels of the endpoints.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from smelt import tables
from smelt.errors import UserError
from smelt.labels import KEYS
from smelt.scaling.endpoints.table import branch_ranks
from smelt.scaling.settings import Settings
from smelt.surfaces.points import Array


def read_endpoints(path: str | Path, settings: Settings) -> pd.DataFrame:
    """The endpoints from branch `skip_branches` of each run on; the index is their position in the table."""
    endpoints = tables.read(path)
    return endpoints[branch_ranks(endpoints) >= settings.skip_branches]


def check_covered(endpoints: pd.DataFrame, losses: pd.DataFrame, path: str | Path) -> None:
    """Raise UserError, naming the first endpoint without losses in the table read from `path`."""
    names = list(KEYS)
    covered = endpoints[names].merge(losses[names].drop_duplicates(), how="left", on=names, indicator=True)
    missing = covered[covered["_merge"] == "left_only"]
    if len(missing):
        raise UserError(
            f"{path}: no loss of the endpoint {', '.join(map(str, missing[names].iloc[0]))} ({', '.join(KEYS)}); "
            "make it and the table of endpoints from the same runs"
        )


def loss_matrix(losses: pd.DataFrame, endpoints: pd.DataFrame) -> Array:
    """Losses by endpoint and part of the text, (positions, parts), NaN where an endpoint has none.

    A row is an index label of `endpoints`, a column the place of a part among the rows of its endpoint in `losses`.
    """
    names = list(KEYS)
    part = losses.groupby(names, sort=False, dropna=False).cumcount()
    placed = losses.assign(part=part).merge(endpoints[names].assign(row=endpoints.index), on=names)
    matrix = np.full((int(endpoints.index.max()) + 1, int(part.max()) + 1), np.nan)
    matrix[placed["row"].to_numpy(dtype=int), placed["part"].to_numpy(dtype=int)] = tables.numbers(placed, "loss")
    return matrix


def matched(endpoints: pd.DataFrame, architecture: str, reference: str) -> pd.DataFrame:
    """Pairs of (reference, architecture) at the same cell, seed and branch step, in the order of the reference's."""
    keyed = endpoints[list(KEYS)].assign(row=endpoints.index)
    first = keyed[keyed["architecture"] == reference].drop(columns="architecture")
    second = keyed[keyed["architecture"] == architecture].drop(columns="architecture")
    pairs = first.merge(second, on=list(KEYS[1:]), suffixes=("_first", "_second"))
    return pairs[["row_first", "row_second"]].set_axis(["first", "second"], axis=1)


def more_experts(endpoints: pd.DataFrame, architecture: str, settings: Settings) -> pd.DataFrame:
    """Pairs of consecutive sparsities, in rising order, of one architecture and scale."""
    values = settings.sparsity_values
    labels = sorted(endpoints["sparsity"].unique(), key=lambda label: (values.get(label, np.inf), label))
    return _consecutive(endpoints, architecture, "sparsity", labels)


def more_parameters(endpoints: pd.DataFrame, architecture: str, reference: str) -> pd.DataFrame:
    """Pairs of consecutive scales, by the reference's rising FLOPs per token, of one architecture and sparsity."""
    scales = endpoints[endpoints["architecture"] == reference].groupby("scale", sort=False)["flops_per_token"]
    flops = scales.agg(lambda values: float(np.mean(values.to_numpy(dtype=np.float64))))
    return _consecutive(endpoints, architecture, "scale", flops.sort_values(kind="stable").index.tolist())


def _consecutive(endpoints: pd.DataFrame, architecture: str, name: str, labels: Sequence[str]) -> pd.DataFrame:
    """Pairs of neighbours in `labels` among those that the architecture has with all else equal."""
    used = endpoints[(endpoints["architecture"] == architecture) & endpoints[name].isin(labels)]
    line = used.groupby([key for key in KEYS if key != name], sort=False).ngroup()
    rank = used[name].map({label: place for place, label in enumerate(labels)})
    ordered = pd.DataFrame({"line": line, "rank": rank, "first": used.index}, index=used.index)
    ordered = ordered.sort_values(["line", "rank"], kind="stable")
    pairs = ordered.assign(second=ordered.groupby("line")["first"].shift(-1))[["first", "second"]].dropna()
    return pairs.astype(np.int64).reset_index(drop=True)
