"""Where a gain lies by length of document: profiles over eight buckets for three families of matched pairs.

Reads endpoints.parquet and length_losses.parquet; writes length.parquet. A matched pair is two endpoints that
differ in one thing: architecture against reference at the same cell, the next sparsity (more experts), or the next
scale (more parameters). Its improvement, first loss minus second, in nats per token of each bucket, is divided by its
own mean over the buckets, so that only the shape remains; shapes are averaged over the pairs. The tilt is the mean of
the averaged shape over the longer half of the buckets divided by that over the shorter half.

A pair has a shape only if its improvement is one: where the mean over the buckets is not above `CLEAR` times its
standard error over them, dividing by it would blow up noise or turn a loss into a gain. Such pairs are left out and
counted; if they are more than `MOST_UNCLEAR` of a family there is no profile.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt import artifacts, labels, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import KEYS, Row
from smelt.scaling.endpoints.breakdown import BOUNDS
from smelt.scaling.fitting import resampling
from smelt.scaling.fitting.intervals import supported
from smelt.scaling.settings import Settings
from smelt.scaling.subsets import matched_pairs
from smelt.statistics import percentile_interval
from smelt.surfaces.points import Array

CLEAR = 2.0  # standard errors over the buckets that a mean improvement must reach
MOST_UNCLEAR = 0.5  # share of a family's pairs that may be left out before there is no profile
HALF = len(BOUNDS) // 2

LENGTH = pa.schema(
    [
        field("family", pa.string(), "what differs within a pair: architecture, more_experts or more_parameters"),
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with; missing within an architecture"),
        field("bucket", pa.int32(), "most tokens of a document in the bucket; missing: longer than all buckets"),
        field("tokens", pa.int64(), "targets of the bucket"),
        field("documents", pa.int32(), "documents of the bucket"),
        field("profile", pa.float64(), "improvement of the bucket / mean over the buckets, averaged over pairs"),
        field("low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        field("tilt", pa.float64(), "mean profile of the longer half of the buckets / that of the shorter half"),
        field("tilt_low", pa.float64(), "low end of its 95 % cell-bootstrap interval"),
        field("tilt_high", pa.float64(), "high end of its 95 % cell-bootstrap interval"),
        field("pairs", pa.int32(), "pairs averaged"),
        field("left_out", pa.int32(), "pairs left out, their mean improvement being none or not clear"),
        field("draws", pa.int32(), "bootstrap draws that the intervals use"),
        field("reason", pa.string(), "why a value is missing, and what was left out"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The pairs of a family that have a shape, and how many have none."""

    cells: list[tuple[labels.Cell, labels.Cell]]
    values: Array  # (pairs, buckets): improvement / its mean over the buckets that hold documents
    left_out: int


def shapes(pairs: pd.DataFrame, endpoints: pd.DataFrame, losses: Array) -> Shapes:
    """The normalised improvement of each pair, by bucket; NaN in a bucket without documents.

    `losses` are those of the endpoints, (positions, buckets), as matched_pairs.loss_matrix returns them.
    """
    differences = losses[pairs["first"].to_numpy()] - losses[pairs["second"].to_numpy()]
    filled = ~np.isnan(differences).any(axis=0)
    part = differences[:, filled]
    means = part.mean(axis=1)
    errors = part.std(axis=1, ddof=1) / np.sqrt(filled.sum()) if filled.sum() > 1 else np.full(len(part), np.inf)
    clear = means > CLEAR * errors
    cells = dict(zip(endpoints.index, zip(endpoints["scale"], endpoints["sparsity"], strict=True), strict=True))
    used = [(cells[first], cells[second]) for first, second in pairs[clear].itertuples(index=False, name=None)]
    return Shapes(used, differences[clear] / means[clear, None], int((~clear).sum()))


def tilt(profile: Array) -> Array:
    """Longer half / shorter half of profiles (..., buckets); NaN where one is empty or the shorter does not improve."""
    short, long = (_mean_of_filled(half) for half in (profile[..., :HALF], profile[..., HALF:]))
    return np.asarray(np.where(short > 0, long / np.where(short > 0, short, 1), np.nan))


def _mean_of_filled(profile: Array) -> Array:
    counts = (~np.isnan(profile)).sum(axis=-1)
    return np.asarray(np.nansum(profile, axis=-1) / np.where(counts > 0, counts, np.nan))


def pair_weights(family: Shapes, cells: Sequence[labels.Cell], weights: Array) -> Array:
    """(draws, pairs): a pair comes up as often as its cell or, where it spans two, as their product."""
    first, second = (weights[:, [cells.index(ends[i]) for ends in family.cells]] for i in (0, 1))
    return np.where([one == other for one, other in family.cells], first, first * second)


def family_rows(about: Row, family: Shapes, filling: Sequence[Row], drawn: Array) -> list[Row]:
    """Rows of LENGTH for one family; `drawn` are the weights of its pairs in each draw."""
    total = len(family.cells) + family.left_out
    row: Row = dict.fromkeys(LENGTH.names)
    row |= about | {"pairs": len(family.cells), "left_out": family.left_out, "draws": 0}
    profile = np.full(len(BOUNDS), np.nan)
    low = high = profile
    notes = _remarks(family, filling)
    if family.left_out > MOST_UNCLEAR * total or not family.cells:
        notes = [f"no profile: {_left_out(family)}"]
    else:
        profile = family.values.mean(axis=0)
        row["tilt"] = _number(tilt(profile))
        usable, averages = _averages(family, drawn)
        support = supported({"have no pair, or no tilt": ~usable})
        notes += support.caveats
        if support.enough:
            row["draws"] = support.count
            low, high = percentile_interval(averages[usable])
            row["tilt_low"], row["tilt_high"] = support.interval(tilt(averages))
        if row["tilt"] is None:
            notes.append(
                "no tilt: half of the buckets have no document, or the shorter half does not improve on average"
            )
    row["reason"] = "; ".join(notes) or None
    rows = [
        row | _filling(bucket) | {"profile": _number(value), "low": _number(start), "high": _number(end)}
        for bucket, value, start, end in zip(filling[: len(BOUNDS)], profile, low, high, strict=True)
    ]
    beyond = {"reason": f"longer than {BOUNDS[-1]} tokens: no part of the profile"}
    return [*rows, row | _filling(filling[-1]) | beyond]


def _averages(family: Shapes, drawn: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which draws can be used (a pair came up, the shorter half improves), and the profile of each."""
    counts = drawn.sum(axis=1)
    averages = drawn @ family.values / np.where(counts > 0, counts, 1)[:, None]
    return (counts > 0) & ~np.isnan(tilt(averages)), averages


def _filling(bucket: Row) -> Row:
    return {name: bucket[name] for name in ("bucket", "tokens", "documents")}


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _remarks(family: Shapes, filling: Sequence[Row]) -> list[str]:
    notes = [_left_out(family)] if family.left_out else []
    empty = [str(bucket["bucket"]) for bucket in filling[: len(BOUNDS)] if not bucket["documents"]]
    return notes + ([f"no document in the bucket of up to {', '.join(empty)} tokens"] if empty else [])


def _left_out(family: Shapes) -> str:
    total = len(family.cells) + family.left_out
    if not total:
        return "the grid has no such pair"
    return f"{family.left_out} of {total} pairs left out: no mean improvement above {CLEAR:g} standard errors"


def analyse(endpoints: pd.DataFrame, lengths: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    """Rows of LENGTH: each architecture against the reference, then both families within each architecture.

    `endpoints` are those of matched_pairs.read_endpoints, `lengths` their losses by length.
    """
    filling = tables.rows(lengths.merge(endpoints[list(KEYS)].iloc[:1], on=list(KEYS)))
    if not any(row["documents"] for row in filling[: len(BOUNDS)]):
        raise UserError(f"held-out losses: every document is longer than {BOUNDS[-1]} tokens, so there is no profile")
    losses = matched_pairs.loss_matrix(lengths, endpoints)[:, : len(BOUNDS)]
    reference = settings.reference
    names = sorted(endpoints["architecture"].unique(), key=lambda name: (name != reference, name))
    families: list[tuple[str, str, str | None, pd.DataFrame]] = [
        ("architecture", name, reference, matched_pairs.matched(endpoints, name, reference)) for name in names[1:]
    ]
    for name in names:
        families.append(("more_experts", name, None, matched_pairs.more_experts(endpoints, name, settings)))
        families.append(("more_parameters", name, None, matched_pairs.more_parameters(endpoints, name, reference)))
    cells = sorted(set(zip(endpoints["scale"], endpoints["sparsity"], strict=True)))
    weights = resampling.weights(cells, settings)
    rows: list[Row] = []
    for kind, name, other, pairs in families:
        family = shapes(pairs, endpoints, losses)
        about = {"family": kind, "architecture": name, "reference": other}
        rows += family_rows(about, family, filling, pair_weights(family, cells, weights))
    return rows


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.subsets.length", __doc__, argv, Settings, ["endpoints", "lengths"], ["out"])
    endpoints = matched_pairs.read_endpoints(job.path("endpoints"), job.settings)
    lengths = tables.read(job.path("lengths"))
    matched_pairs.check_covered(endpoints, lengths, job.path("lengths"))
    job.write("out", artifacts.table(analyse(endpoints, lengths, job.settings), LENGTH))


if __name__ == "__main__":
    command(main)
