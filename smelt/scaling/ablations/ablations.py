"""Ablations: what one axis of the architecture does to the loss at the same budgets.

Reads results/scaling/endpoints.parquet; writes one artifact an ablation, results/scaling/NAME.parquet, a row for each
point: an architecture of a line in a cell, at the last endpoint of its runs.

The difference to the line's reference is taken seed by seed, since runs of one seed read the text in the same order,
and its standard error over the seeds stands beside it. A difference is called resolved where it exceeds that error
times the 97.5 % quantile of Student's t with one degree of freedom fewer than pairs.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import tables
from smelt.artifacts import field, table, write_table
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import RUN_KEYS, Row
from smelt.scaling.ablations.settings import Point, Settings
from smelt.statistics import standard_error, t_reach

MODULE = "smelt.scaling.ablations.ablations"
RATIOS = {"flops_ratio": "flops_per_token", "params_ratio": "params", "kv_ratio": "kv_bytes_per_token"}

ABLATION = pa.schema(
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


def last_endpoints(endpoints: pd.DataFrame) -> pd.DataFrame:
    """The endpoint of each run's last branch, by seed."""
    by_step = endpoints.sort_values("branch_step", kind="stable")
    return by_step.groupby(list(RUN_KEYS), sort=False).tail(1).sort_values("seed", kind="stable")


def resolved(difference: float, error: float | None, pairs: int) -> bool:
    """Whether a mean difference of `pairs` pairs lies outside its 95 % interval around zero."""
    return error is not None and bool(abs(difference) > t_reach(error, pairs))


def analyse(points: Sequence[Point], endpoints: pd.DataFrame) -> list[Row]:
    """The rows of one ablation, in the order of its points.

    Raises UserError where the runs of a point and of its reference differ in training tokens.
    """
    last = last_endpoints(endpoints)
    rows = []
    for point in points:
        cell = last[(last["scale"] == point.scale) & (last["sparsity"] == point.sparsity)]
        target, reference = (cell[cell["architecture"] == name] for name in (point.architecture, point.reference))
        _check_tokens(point, target, reference)
        pairs = target[["seed", "loss"]].merge(reference[["seed", "loss"]], on="seed", suffixes=("", "_reference"))
        rows.append(_place(point) | _losses(target) | _compared(point, target, reference, pairs))
        rows[-1]["endpoints"] = len(target) + (len(reference) if point.architecture != point.reference else 0)
        rows[-1]["reason"] = "; ".join(_reasons(point, target, reference, len(pairs)))
    return rows


def _check_tokens(point: Point, target: pd.DataFrame, reference: pd.DataFrame) -> None:
    counts = sorted({*target["tokens"], *reference["tokens"]})
    if len(counts) > 1:
        raise UserError(
            f"{point.architecture} and {point.reference} at {point.scale}-{point.sparsity}: endpoints of "
            f"{' and '.join(f'{count:,}' for count in counts)} tokens; an ablation compares runs of one length"
        )


def _place(point: Point) -> Row:
    share = None if point.looped is None or not point.layers else 100 * point.looped / point.layers
    return {**dataclasses.asdict(point), "span_pct": share}


def _losses(target: pd.DataFrame) -> Row:
    row: Row = {**MISSING, "seeds": len(target)}
    if len(target):
        losses = tables.numbers(target, "loss")
        row |= {"loss": float(np.mean(losses)), "loss_se": standard_error(losses), "tokens": target["tokens"].iloc[0]}
    return row


def _compared(point: Point, target: pd.DataFrame, reference: pd.DataFrame, pairs: pd.DataFrame) -> Row:
    """Difference and ratios to the reference; of the reference itself nothing and one."""
    row: Row = {"pairs": len(pairs), "resolved": False}
    if len(target) and len(reference):
        row |= {name: float(target[key].iloc[0] / reference[key].iloc[0]) for name, key in RATIOS.items()}
    if len(pairs) and point.architecture == point.reference:
        row |= {"difference": 0.0, "difference_se": 0.0}
    elif len(pairs):
        differences = tables.numbers(pairs, "loss") - tables.numbers(pairs, "loss_reference")
        difference, error = float(np.mean(differences)), standard_error(differences)
        row |= {"difference": difference, "difference_se": error, "resolved": resolved(difference, error, len(pairs))}
    return row


def _reasons(point: Point, target: pd.DataFrame, reference: pd.DataFrame, pairs: int) -> list[str]:
    if target.empty:
        return [f"{point.architecture} was not trained in this cell"]
    one_seed = ["one seed: no standard error"] if len(target) == 1 else []
    if reference.empty:
        return [*one_seed, f"the reference {point.reference} was not trained in this cell"]
    if not pairs:
        return [*one_seed, f"no seed in common with {point.reference}"]
    if pairs == 1 < len(target) and point.architecture != point.reference:
        return [*one_seed, f"one seed in common with {point.reference}: no standard error of the difference"]
    return one_seed


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["endpoints"], ["out*"])
    ablations, paths = job.settings.ablations, job.paths("out")
    if {path.stem for path in paths} != set(ablations):
        names = [path.stem for path in paths]
        raise UserError(f"--out: the files {names} do not match the ablations {sorted(ablations)}; give one for each")
    endpoints = tables.read(job.path("endpoints"))
    for path in paths:
        try:
            rows = analyse(ablations[path.stem], endpoints)
        except UserError as error:
            raise UserError(f"{path.stem}: {error}") from None
        write_table(table(rows, ABLATION), path, job.origin)


if __name__ == "__main__":
    command(main)
