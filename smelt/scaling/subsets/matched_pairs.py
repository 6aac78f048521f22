"""Pairs of endpoints that differ in one thing: architecture, sparsity or scale, at the same seed and branch step.

The breakdowns of the held-out loss use all sparsities, the control's among them, and leave out only the branches
that the study skips.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from smelt.artifacts import read_table
from smelt.errors import UserError
from smelt.labels import KEYS, Key, Row, key
from smelt.scaling.settings import Settings

Pair = tuple[Key, Key]


def read_endpoints(path: str | Path, settings: Settings) -> dict[Key, Row]:
    """The endpoints from branch `skip_branches` of each run on, by key, in the table's order."""
    rows = {key(row): row for row in read_table(path).to_pylist()}
    steps: dict[Any, list[int]] = {}
    for one in rows:
        steps.setdefault(one[:4], []).append(one.branch_step)
    skipped = {run: sorted(found)[: settings.skip_branches] for run, found in steps.items()}
    return {one: row for one, row in rows.items() if one.branch_step not in skipped[one[:4]]}


def read_losses(path: str | Path) -> dict[Key, list[Row]]:
    """The rows of a table of losses by endpoint, in the table's order."""
    found: dict[Key, list[Row]] = {}
    for row in read_table(path).to_pylist():
        found.setdefault(key(row), []).append(row)
    return found


def check_covered(endpoints: Mapping[Key, Row], losses: Mapping[Key, list[Row]], path: str | Path) -> None:
    """Raise UserError, naming the first endpoint without losses."""
    for one in endpoints:
        if one not in losses:
            raise UserError(
                f"{path}: no loss of the endpoint {', '.join(map(str, one))} ({', '.join(KEYS)}); "
                "make it and the table of endpoints from the same runs"
            )


def matched(endpoints: Mapping[Key, Row], architecture: str, reference: str) -> list[Pair]:
    """(reference, architecture) at the same cell, seed and branch step."""
    mine = [one for one in endpoints if one.architecture == reference]
    return [(one, twin) for one in mine if (twin := one._replace(architecture=architecture)) in endpoints]


def more_experts(endpoints: Mapping[Key, Row], architecture: str, settings: Settings) -> list[Pair]:
    """Consecutive sparsities, in rising order, of one architecture and scale."""
    values = settings.sparsity_values
    labels = sorted({one.sparsity for one in endpoints}, key=lambda label: (values.get(label, np.inf), label))
    return _consecutive(endpoints, architecture, "sparsity", labels)


def more_parameters(endpoints: Mapping[Key, Row], architecture: str, reference: str) -> list[Pair]:
    """Consecutive scales, in rising order of the reference's FLOPs per token, of one architecture and sparsity."""
    flops: dict[str, list[float]] = {}
    for one, row in endpoints.items():
        if one.architecture == reference:
            flops.setdefault(one.scale, []).append(row["flops_per_token"])
    return _consecutive(endpoints, architecture, "scale", sorted(flops, key=lambda scale: np.mean(flops[scale])))


def _consecutive(endpoints: Mapping[Key, Row], architecture: str, name: str, labels: list[str]) -> list[Pair]:
    """Neighbours in `labels` among those that the architecture has with all else alike."""
    groups: dict[Key, list[Key]] = {}
    for one in endpoints:
        if one.architecture == architecture and getattr(one, name) in labels:
            rest = one._replace(scale="") if name == "scale" else one._replace(sparsity="")
            groups.setdefault(rest, []).append(one)
    ordered = [sorted(found, key=lambda one: labels.index(getattr(one, name))) for found in groups.values()]
    return [pair for found in ordered for pair in itertools.pairwise(found)]
