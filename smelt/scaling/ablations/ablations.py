"""Ablation sweeps: what one axis of the architecture does to the loss at the same budgets.

Reads results/scaling/endpoints.parquet; writes one artifact a sweep, results/scaling/SWEEP.parquet, a row for each
point: an architecture of a line in a cell, at the last endpoint of its runs.

The difference to the line's reference is taken seed by seed, since runs of one seed read the text in the same order,
and its standard error over the seeds stands beside it. A difference is called resolved where it exceeds that error
times the 97.5 % quantile of Student's t with one degree of freedom fewer than pairs.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from smelt import spec
from smelt.artifacts import field, provenance, read_table, table, write_table
from smelt.errors import UserError, command

MODULE = "smelt.scaling.ablations.ablations"
LEVEL = 0.975  # of Student's t: 95 %, both sides
RATIOS = {"flops_ratio": "flops_per_token", "params_ratio": "params", "kv_ratio": "kv_bytes_per_token"}

SWEEP = pa.schema(
    [
        field("line", pa.string(), "points that one curve joins"),
        field("architecture", pa.string(), "execution plan"),
        field("scale", pa.string(), "label of the scale"),
        field("sparsity", pa.string(), "label of the sparsity"),
        field("looped", pa.int32(), "layers inside the span"),
        field("span_pct", pa.float64(), "share of the layers inside the span, percent"),
        field("layers", pa.int32(), "physical layers"),
        field("executed_layers", pa.int32(), "layers that a token passes, each visit counted"),
        field("visits", pa.int32(), "passes through the span"),
        field("tokens", pa.int64(), "training tokens of the endpoint, the decay included"),
        field("seeds", pa.int32(), "runs averaged"),
        field("loss", pa.float64(), "held-out loss in nats, mean over sources and seeds"),
        field("loss_se", pa.float64(), "standard error of the loss over seeds"),
        field("reference", pa.string(), "architecture that the line is compared with"),
        field("pairs", pa.int32(), "seeds that the point and its reference have in common"),
        field("difference", pa.float64(), "loss minus the reference's, mean over pairs, nats; negative is better"),
        field("difference_se", pa.float64(), "standard error of the difference over pairs"),
        field("resolved", pa.bool_(), "whether the difference exceeds its 95 % interval; false with one pair"),
        *(field(name, pa.float64(), f"{column} over the reference's") for name, column in RATIOS.items()),
        field("endpoints", pa.int32(), "endpoints behind the row, the reference's among them"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)
MISSING = dict.fromkeys(("loss", "loss_se", "difference", "difference_se", "tokens", *RATIOS))

Row = dict[str, Any]
Seeds = Mapping[int, Mapping[str, Any]]  # the last endpoint of an architecture in a cell, by seed


@dataclasses.dataclass(frozen=True)
class Settings:
    """The points of each sweep: line, reference, cell and place on the axes."""

    ablations: Mapping[str, tuple[Mapping[str, Any], ...]]


@dataclasses.dataclass(frozen=True)
class Point:
    """One row to be; the plan is missing where the grid leaves the run out."""

    line: str
    reference: str
    architecture: str
    scale: str
    sparsity: str
    layers: int | None = None
    looped: int | None = None
    executed_layers: int | None = None
    visits: int | None = None


def last_endpoints(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], dict[int, Mapping[str, Any]]]:
    """The endpoint of each run's last branch, by (architecture, scale, sparsity) and seed."""
    found: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["branch_step"]):
        found.setdefault((row["architecture"], row["scale"], row["sparsity"]), {})[row["seed"]] = row
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean of some values and its standard error; none of one value."""
    if len(values) < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def resolved(difference: float, error: float | None, pairs: int) -> bool:
    """Whether a mean difference of `pairs` pairs lies outside its 95 % interval around nothing."""
    return error is not None and bool(abs(difference) > stats.t.ppf(LEVEL, pairs - 1) * error)


def analyse(points: Sequence[Point], endpoints: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of one sweep, in the order of its points."""
    last = last_endpoints(endpoints)
    rows = []
    for point in points:
        cell = (point.scale, point.sparsity)
        mine, theirs = (last.get((name, *cell), {}) for name in (point.architecture, point.reference))
        _same_tokens(point, mine, theirs)
        rows.append(_place(point) | _losses(mine) | _compared(point, mine, theirs))
        rows[-1]["endpoints"] = len(mine) + (len(theirs) if point.architecture != point.reference else 0)
        rows[-1]["reason"] = "; ".join(_reasons(point, mine, theirs))
    return rows


def _same_tokens(point: Point, mine: Seeds, theirs: Seeds) -> None:
    counts = sorted({row["tokens"] for row in (*mine.values(), *theirs.values())})
    if len(counts) > 1:
        raise UserError(
            f"{point.architecture} and {point.reference} at {point.scale}-{point.sparsity}: endpoints of "
            f"{' and '.join(f'{count:,}' for count in counts)} tokens; a sweep compares runs of one length"
        )


def _place(point: Point) -> Row:
    share = None if point.looped is None or not point.layers else 100 * point.looped / point.layers
    return {**dataclasses.asdict(point), "span_pct": share}


def _losses(mine: Seeds) -> Row:
    row: Row = {**MISSING, "seeds": len(mine)}
    if mine:
        losses = [mine[seed]["loss"] for seed in sorted(mine)]
        row["loss"], row["loss_se"] = mean_and_error(losses)
        row["tokens"] = next(iter(mine.values()))["tokens"]
    return row


def _compared(point: Point, mine: Seeds, theirs: Seeds) -> Row:
    """Difference and ratios to the reference; of the reference itself nothing and one."""
    common = sorted(set(mine) & set(theirs))
    row: Row = {"pairs": len(common), "resolved": False}
    if mine and theirs:
        one, other = next(iter(mine.values())), next(iter(theirs.values()))
        row |= {name: one[column] / other[column] for name, column in RATIOS.items()}
    if common and point.architecture == point.reference:
        row |= {"difference": 0.0, "difference_se": 0.0}
    elif common:
        differences = [mine[seed]["loss"] - theirs[seed]["loss"] for seed in common]
        difference, error = mean_and_error(differences)
        row |= {"difference": difference, "difference_se": error}
        row["resolved"] = resolved(difference, error, len(common))
    return row


def _reasons(point: Point, mine: Seeds, theirs: Seeds) -> list[str]:
    if not mine:
        return [f"{point.architecture} was not trained in this cell"]
    if not theirs:
        return [*_one_seed(mine), f"the reference {point.reference} was not trained in this cell"]
    common = set(mine) & set(theirs)
    if not common:
        return [*_one_seed(mine), f"no seed in common with {point.reference}"]
    reasons = _one_seed(mine)
    if len(common) == 1 < len(mine) and point.architecture != point.reference:
        reasons.append(f"one seed in common with {point.reference}: no standard error of the difference")
    return reasons


def _one_seed(mine: Seeds) -> list[str]:
    return ["one seed: no standard error"] if len(mine) == 1 else []


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--spec", required=True, help="{ablations: {NAME: points in order}}")
    parser.add_argument("--endpoints", required=True, type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="NAME.parquet of each sweep, in any order")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    if {path.stem for path in arguments.out} != set(settings.ablations):
        names = [path.stem for path in arguments.out]
        raise UserError(
            f"the files {names} do not answer to the sweeps {sorted(settings.ablations)}; give one for each"
        )
    endpoints = read_table(arguments.endpoints).to_pylist()
    origin = provenance(MODULE, spec.plain(settings), [arguments.endpoints])
    for path in arguments.out:
        points = [spec.load(Point, dict(point)) for point in settings.ablations[path.stem]]
        try:
            rows = analyse(points, endpoints)
        except UserError as error:
            raise UserError(f"{path.stem}: {error}") from None
        write_table(table(rows, SWEEP), path, origin)


if __name__ == "__main__":
    command(main)
