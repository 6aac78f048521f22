"""How many parameters a token passes: what the FLOPs of an endpoint are compared with, or taken from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.errors import UserError
from smelt.scaling.endpoints.columns import Values
from smelt.surfaces.points import Array
from smelt.user_files.table import TableFile

COUNTS = ("params", "active_params", "looped_params", "visits")
FLOPS_PER_PARAMETER = 6  # training FLOPs of a parameter on a token: two in the forward pass, four in the backward pass


def executed(columns: Mapping[str, Array], active: Array) -> Array:
    """Parameters that a token passes, counted once a visit, (rows,); NaN where nothing says so.

    `columns` are params, active_params, looped_params and visits, each (rows,) with NaN where unknown, or left out;
    `active` is 1 - S. Where active_params are unknown they are params (1 - S), which 1 - S means. Where looped_params
    are unknown all layers are looped, so that the number is the largest that it can be.
    """
    unknown = np.full(active.shape, np.nan)
    params, known, looped, visits = (columns.get(name, unknown) for name in COUNTS)
    once = np.where(np.isnan(known), params * active, known)
    again = np.where(np.isnan(visits), 0, visits - 1)
    return np.asarray(once + again * np.where(np.isnan(looped), once, looped))


def flops_of(table: TableFile, values: Values, sparsities: Sequence[float]) -> tuple[list[float], list[str]]:
    """F of each row of a file without flops_per_token, and in words what it was counted from.

    F is 6 FLOPs per active parameter and token; a parameter of the span counts once a visit. Where S is 0 all
    parameters are active. Raises UserError, naming row and column, where the active ones are unknown.
    """
    flops, words = [], []
    for index, sparsity in enumerate(sparsities):
        known: list[Any] = [values[name][index] if name in values else None for name in COUNTS]
        params, active, looped, visits = known
        if active is None and params is None:
            raise UserError(f"{table.place(index, 'params')}: empty; expected a positive number, or active_params")
        if active is None and sparsity > 0:
            raise UserError(
                f"{table.place(index, 'params')}: {params:g} with S = {sparsity:.3g}: idle experts are among them and "
                "cost no FLOPs; give flops_per_token or active_params"
            )
        again = 0.0
        if visits is not None and visits > 1:
            if looped is None:
                raise UserError(
                    f"{table.place(index, 'visits')}: {visits:g}, and which parameters a token passes again is "
                    "unknown; give flops_per_token or looped_params"
                )
            again = (visits - 1) * looped
        kind, once = ("active parameter", active) if active is not None else ("parameter", params)
        flops.append(FLOPS_PER_PARAMETER * (once + again))
        words.append(f"F = {FLOPS_PER_PARAMETER} FLOPs per {kind}{', visit' if again else ''} and token")
    return flops, words
