"""What each network of a study costs as measured: seconds and memory of training and of cached decoding.

These are budgets that are reported and never matched. Each architecture of a cell is measured beside the cell's
reference, step by step in turn (`measure.py`), so that a ratio holds where the seconds of a busy machine do not. The
networks are at their first steps, where routers spread the tokens evenly.

Writes one row for each architecture and cell; no other artifact holds a time or a memory figure.
"""

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from smelt import tables
from smelt.artifacts import field, read_table
from smelt.budgets.memory import STATE
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.model.transformer import Transformer
from smelt.shards import SEGMENTS, TOKENS
from smelt.training.cost_settings import CostSettings, MemberSettings
from smelt.training.monitoring.measure import Measured, Text, alternating, decoding, missing, training

MODULE = "smelt.training.costs"
CACHE = "bfloat16"
THREADS = 1


COSTS = pa.schema(
    [
        field("architecture", pa.string(), "name of the execution plan"),
        field("scale", pa.string(), "scale of the cell"),
        field("sparsity", pa.string(), "label of the cell's sparsity"),
        field("seconds_per_mtoken", pa.float64(), "wall-clock seconds of a million training tokens, full contexts"),
        field("wall_ratio", pa.float64(), "training time over the reference's of the same round, median"),
        field("peak_bytes", pa.int64(), "peak memory of training beyond the idle process"),
        field("decode_seconds_per_mtoken", pa.float64(), "wall-clock seconds of a million tokens decoded one by one"),
        field("decode_wall_ratio", pa.float64(), "decoding time over the reference's of the same round, median"),
        field("wall_ratio_low", pa.float64(), "first quartile of the rounds' training ratios"),
        field("wall_ratio_high", pa.float64(), "third quartile of the rounds' training ratios"),
        field("peak_ratio", pa.float64(), "peak memory of training over the reference's"),
        field("cpu_ratio", pa.float64(), "the same of processor time, which other load on the machine hardly moves"),
        field("decode_wall_ratio_low", pa.float64(), "first quartile of the rounds' decoding ratios"),
        field("decode_wall_ratio_high", pa.float64(), "third quartile of the rounds' decoding ratios"),
        field("decode_cpu_ratio", pa.float64(), "the same of processor time"),
        field("decode_peak_bytes", pa.int64(), "peak memory of prompt and decoding beyond the idle process"),
        field("decode_peak_ratio", pa.float64(), "peak memory of decoding over the reference's"),
        field("cache_bytes_per_token", pa.int64(), "KV cache that decoding allocated, by token"),
        field("steps", pa.int32(), "training steps timed"),
        field("tokens", pa.int64(), "training tokens in them, full contexts"),
        field("decode_tokens", pa.int64(), "tokens decoded while timed"),
        field("cores", pa.int32(), "processors of the machine"),
        field("threads", pa.int32(), "threads that a network worked on"),
        field("method", pa.string(), "what was measured, the same on every machine"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)


def cost_rows(settings: CostSettings, shard: str | None = None) -> list[dict[str, Any]]:
    """Rows of COSTS in the order of the runs; the architectures of a cell are measured in turn.

    Raises UserError where an architecture is listed twice in a cell.
    """
    runs = settings.runs
    names = [(run.architecture, *run.cell) for run in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"costs: {twice[0][0]} {twice[0][1]}-{twice[0][2]} is listed twice")
    cells = list(dict.fromkeys(run.cell for run in runs))
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, cell in enumerate(cells, start=1):
        print(f"costs: cell {'-'.join(cell)}, {number} of {len(cells)}", file=sys.stderr, flush=True)
        for row in _cell([run for run in runs if run.cell == cell], settings, shard):
            rows[row["architecture"], *cell] = row
    return [rows[name] for name in names]


def _cell(members: list[MemberSettings], settings: CostSettings, shard: str | None) -> Iterator[dict[str, Any]]:
    too_large = {member.architecture: reason for member in members if (reason := _too_large(member, settings))}
    fitting = [member for member in members if member.architecture not in too_large]
    batches = settings.warmup + settings.repeats
    trained, decoded = (
        dict(
            zip(
                (member.architecture for member in fitting),
                alternating(make, arguments, settings.repeats, settings.warmup, settings.seconds),
                strict=True,
            )
        )
        for make, arguments in _works(fitting, settings, shard, batches)
    )
    for member in members:
        name = member.architecture
        one, two = (found.get(name, missing(too_large.get(name))) for found in (trained, decoded))
        training_columns = _columns(one, trained.get(settings.reference))
        decode_columns = _columns(two, decoded.get(settings.reference))
        yield {
            "architecture": name,
            "scale": member.scale,
            "sparsity": member.sparsity,
            **training_columns,
            **{f"decode_{column}": value for column, value in decode_columns.items()},
            "cache_bytes_per_token": two.facts.get("cache_bytes_per_token"),
            "steps": len(one.seconds),
            "tokens": len(one.seconds) * one.facts.get("tokens", 0),
            "decode_tokens": len(two.seconds) * two.facts.get("tokens", 0),
            "cores": os.cpu_count(),
            "threads": THREADS,
            "method": _method(member, settings, shard),
            "reason": _reason(one, two, trained, decoded, settings.reference),
        }


def _works(
    members: list[MemberSettings], settings: CostSettings, shard: str | None, batches: int
) -> list[tuple[Any, list[tuple[Any, ...]]]]:
    """Training and decoding, each with the arguments of every member."""
    return [
        (
            training,
            [
                (m.model, m.precision, Text(settings.context, m.batch_contexts, settings.segments, shard), batches)
                for m in members
            ],
        ),
        (decoding, [(m.model, m.precision, settings.prompt, settings.decode_tokens) for m in members]),
    ]


def _too_large(member: MemberSettings, settings: CostSettings) -> str | None:
    with torch.device("meta"):
        needed = STATE * sum(parameter.numel() for parameter in Transformer(member.model).parameters())
    if needed <= settings.state_bytes:
        return None
    return (
        f"weights, gradients and moments take {needed / 1e9:.1f} GB, more than the {settings.state_bytes / 1e9:.1f} GB "
        "of state_bytes"
    )


def _columns(measured: Measured, reference: Measured | None) -> dict[str, float | int | None]:
    """Time and memory of one kind of work, and their ratios to the reference's."""
    low = middle = high = cpu = None
    if measured.seconds and reference is not None and reference.seconds:
        scale = reference.facts["tokens"] / measured.facts["tokens"]
        low, middle, high = _quartiles(measured.seconds, reference.seconds, scale)
        _, cpu, _ = _quartiles(measured.cpu_seconds, reference.cpu_seconds, scale)
    peak = measured.peak_bytes
    return {
        "seconds_per_mtoken": 1e6 * statistics.median(measured.seconds) / measured.facts["tokens"]
        if measured.seconds
        else None,
        "wall_ratio": middle,
        "wall_ratio_low": low,
        "wall_ratio_high": high,
        "cpu_ratio": cpu,
        "peak_bytes": peak,
        "peak_ratio": peak / reference.peak_bytes if peak and reference and reference.peak_bytes else None,
    }


def _quartiles(seconds: Sequence[float], reference: Sequence[float], scale: float) -> tuple[float, float, float]:
    """First quartile, median and third quartile of the rounds' ratios of time to the reference's.

    `scale` is the reference's tokens over the target's, so that ratios are by token.
    """
    ratios = [scale * target / base for target, base in zip(seconds, reference, strict=True)]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
    return low, middle, high


def _reason(
    one: Measured, two: Measured, trained: dict[str, Measured], decoded: dict[str, Measured], reference: str
) -> str | None:
    reasons = []
    for kind, measured, others in (("training", one, trained), ("decoding", two, decoded)):
        if measured.reason:
            reasons.append(f"{kind} was not measured: {measured.reason}")
        elif reference not in others or not others[reference].seconds:
            reasons.append(f"ratios of {kind}: {reference} has no measured run at this cell")
    return "; ".join(reasons) or None


def _method(member: MemberSettings, settings: CostSettings, shard: str | None) -> str:
    text = "a packed shard" if shard else "random tokens"
    return (
        f"experts in {member.precision}; steps of {member.batch_contexts} x {settings.context} tokens of {text}, "
        f"median of up to {settings.repeats} after {settings.warmup}; decoding of {settings.decode_tokens} tokens "
        f"behind {settings.prompt}, one sequence, cache in {CACHE}"
    )


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, CostSettings, ["shard?"], ["out", "csv?"])
    shard = next(iter(job.paths("shard")), None)  # random tokens without one
    if shard is not None:
        read_table(shard, [TOKENS, SEGMENTS])  # so that a bad file is an error before any work
    data = tables.from_rows(cost_rows(job.settings, None if shard is None else str(shard)), COSTS)
    job.write("out", tables.to_arrow(data, COSTS))
    for path in job.paths("csv"):
        tables.write_csv(data, path)


if __name__ == "__main__":
    command(main)
