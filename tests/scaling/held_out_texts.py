"""Synthetic losses by source and by length for the endpoints of published.py, with known surfaces and profiles."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from smelt.artifacts import table
from smelt.labels import KEYS
from smelt.scaling.endpoints.breakdown import BOUNDS, LENGTH_LOSSES, SOURCE_LOSSES
from tests.scaling.published import SURFACES, surface_loss

COUNTS = {"Code": 8, "Finance": 8, "Knowledge": 8, "Math/STEM": 8, "Web": 7}  # 39 sources
Row = dict[str, Any]


def sources(counts: Mapping[str, int] = COUNTS) -> list[tuple[str, str]]:
    """(source, category), by source."""
    return sorted((f"{category[:2].lower()}_{i}", category) for category, count in counts.items() for i in range(count))


def levels(counts: Mapping[str, int] = COUNTS, spread: float = 0.25) -> dict[str, np.ndarray]:
    """E, A, K of every source, (sources, 3), for each architecture.

    The means over the sources are the published ones, so that the mean of the sources' losses lies on the published
    surface; the two architectures' factors differ a little, more in A, and so do the gains.
    """
    count = len(sources(counts))
    random = np.random.default_rng(5)
    common = np.exp(spread * random.normal(size=(count, 3)) * [1, 0.5, 0.5])
    found = {}
    for name, values in SURFACES.items():
        own = common * np.exp(random.normal(size=(count, 3)) * [0.0, 0.01, 0.01])
        own[:, 0] = common[:, 0]
        found[name] = np.asarray(values)[:3] * own / own.mean(axis=0)
    return found


def source_rows(endpoints: Sequence[Row], counts: Mapping[str, int] = COUNTS) -> list[Row]:
    """Rows of SOURCE_LOSSES; what an endpoint lies off its surface, all its sources lie off theirs."""
    known, rows = levels(counts), []
    for row in endpoints:
        place = (row["flops_per_token"], row["S"], row["tokens"])
        name = row["architecture"]
        rest = row["loss"] - surface_loss(SURFACES[name], *place)
        for (source, category), mine in zip(sources(counts), known[name], strict=True):
            loss = surface_loss(np.array([*mine, *SURFACES[name][3:]]), *place) + rest
            values = {"source": source, "category": category, "tokens": 1000, "loss": loss}
            rows.append({key: row[key] for key in KEYS} | values)
    return rows


def length_rows(endpoints: Sequence[Row], gains: Mapping[str, Sequence[float]], noise: float = 0.0) -> list[Row]:
    """Rows of LENGTH_LOSSES: the endpoint's loss falls below 4 nats by bucket in proportion to `gains`."""
    random, rows = np.random.default_rng(3), []
    for row in endpoints:
        shape = np.array(gains[row["architecture"]])
        losses = 4 - (4 - row["loss"]) * shape + noise * random.normal(size=len(BOUNDS))
        for bucket, loss in zip([*BOUNDS, None], [*losses.tolist(), None], strict=True):
            filled = {"tokens": 1000, "documents": 10, "loss": loss}
            empty = {"tokens": 0, "documents": 0, "loss": None}
            rows.append({key: row[key] for key in KEYS} | {"bucket": bucket} | (empty if bucket is None else filled))
    return rows


def write_sources(path: Path, rows: Sequence[Row]) -> Path:
    """A table of losses by source."""
    pq.write_table(table(rows, SOURCE_LOSSES), path)
    return path


def write_lengths(path: Path, rows: Sequence[Row]) -> Path:
    """A table of losses by length."""
    pq.write_table(table(rows, LENGTH_LOSSES), path)
    return path
