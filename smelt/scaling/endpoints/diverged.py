"""Losses that a smaller training beats by far: runs that diverged, or were evaluated on other text."""

from typing import cast

import numpy as np
import pandas as pd

from smelt.labels import RUN_KEYS
from smelt.surfaces.points import Array
from smelt.tables import numbers

FAR = 1.25  # times the loss of an endpoint with no more F and D
ALIKE = 1.5  # factor of F up to which two architectures of one cell are the same size


def warnings(endpoints: pd.DataFrame) -> list[str]:
    """One line for each run with losses far above those of smaller trainings; empty where none is.

    `endpoints` has the columns of ENDPOINTS. A smaller training is one of the same architecture and sparsity with no
    more F and D, or one of the same cell with no more D and about the same F.
    """
    endpoints = endpoints.reset_index(drop=True)
    least = _least(endpoints)
    lines = []
    for key, run in endpoints.groupby(list(RUN_KEYS), sort=False):
        name, scale, sparsity, seed = cast("tuple[str, str, str, int]", key)
        loss, best = numbers(run, "loss"), least[run.index.to_numpy(dtype=np.int64)]
        far = loss > FAR * best
        if far.any():
            lines.append(
                f"{name} {scale} {sparsity}, seed {seed}: {far.sum()} of {len(run)} losses (up to "
                f"{loss[far].max():.4g}) are over {FAR:g} times those of a smaller training "
                f"({best[far].min():.4g}); the run may have diverged"
            )
    return lines


def _least(endpoints: pd.DataFrame) -> Array:
    """The least loss of any smaller training for each endpoint, itself among them."""
    least = np.empty(len(endpoints))
    names, scales = endpoints["architecture"].to_numpy(dtype=object), endpoints["scale"].to_numpy(dtype=object)
    flops, tokens, loss = (numbers(endpoints, name) for name in ("flops_per_token", "tokens", "loss"))
    for _, of_sparsity in endpoints.groupby("sparsity", sort=False):
        rows = of_sparsity.index.to_numpy(dtype=np.int64)
        for row in rows.tolist():
            same, cell = names[rows] == names[row], scales[rows] == scales[row]
            within = (same & (flops[rows] <= flops[row])) | (cell & (flops[rows] <= ALIKE * flops[row]))
            smaller = rows[within & (tokens[rows] <= tokens[row])]
            least[row] = loss[smaller].min()
    return least
