"""Write the budgets of a study: one row per architecture and cell, and the ledger behind each.

Reads the geometries that the study resolved (they stand in the spec as values), writes budgets.parquet and
budgets.csv for people and ledger.parquet with every part's share.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from smelt import tables
from smelt.artifacts import field, table
from smelt.budgets import memory
from smelt.budgets.ledger import BYTES_PER_VALUE, Budget, budget, kv_bytes_by_visit, sparsity
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """One architecture at one cell; the controls are geometries of S = 0 models, computed and not trained."""

    architecture: str
    scale: str
    sparsity: str  # label of the cell
    model: ModelSettings
    control: ModelSettings | None  # this architecture's own; the reference's own is reference_control
    reference_control: ModelSettings | None = None  # fully active reference at this scale (F0, N0 of Eq. 1)
    note: str | None = None  # what the study says of a fixed geometry


@dataclasses.dataclass(frozen=True)
class TableSettings:
    """The runs whose budgets are written, and the conventions of the counts."""

    attention_keys: float  # keys charged to a query
    runs: tuple[RunSettings, ...]
    reference: str  # the architecture that ratios are taken against
    bytes_per_value: int = BYTES_PER_VALUE
    attention: str = "mean keys"  # what attention_keys is, as the tables say it


BUDGETS = pa.schema(
    [
        field("architecture", pa.string(), "name of the execution plan"),
        field("scale", pa.string(), "scale of the cell"),
        field("sparsity", pa.string(), "label of the cell's sparsity"),
        field("hidden_size", pa.int64(), "width of the residual stream"),
        field("layers", pa.int64(), "physical layers"),
        field("executed_layers", pa.int64(), "steps of the execution plan"),
        field("heads", pa.int64(), "query heads"),
        field("kv_heads", pa.int64(), "key and value heads"),
        field("head_size", pa.int64(), "width of a head"),
        field("experts", pa.int64(), "experts per layer"),
        field("expert_width", pa.int64(), "inner width of an expert"),
        field("active_params", pa.int64(), "parameters that a token meets in one physical traversal"),
        field("total_params", pa.int64(), "N: non-embedding parameters"),
        field("s_own", pa.float64(), "S of Eq. 1 against this architecture's own S = 0 control"),
        field("s_baseline", pa.float64(), "S of Eq. 1 against the fully active reference"),
        field("flops_per_token", pa.float64(), "F: training FLOPs per token, no embedding, no LM head"),
        field("flops_ratio", pa.float64(), "F over the reference's of the same cell"),
        field("params_ratio", pa.float64(), "N over the reference's of the same cell"),
        field("kv_bytes_per_token", pa.int64(), "KV cache over executed layers, bytes per token"),
        field("kv_ratio", pa.float64(), "KV cache over the reference's of the same cell"),
        field("shared_width", pa.int64(), "inner width of the always-on SwiGLU"),
        field("active_experts", pa.int64(), "experts that each token is routed to"),
        field("head_flops_per_token", pa.float64(), "training FLOPs of the LM head, not in F"),
        field("attention_keys", pa.float64(), "keys charged to a query in F"),
        field("attention", pa.string(), "convention that the keys come from"),
        field("kv_bytes_by_visit", pa.string(), "KV cache that each visit adds, bytes per token"),
        field("activation_bytes_per_token", pa.int64(), "what training keeps of a token, in bfloat16, LM head apart"),
        field("checkpointed_bytes_per_token", pa.int64(), "the same with activation checkpointing by block"),
        field("optimizer_bytes", pa.int64(), "AdamW's moments in float32, embedding and LM head included"),
        field("checkpoint_bytes", pa.int64(), "a resumable checkpoint: float32 weights and moments"),
        field("decode_intensity", pa.float64(), "FLOPs per byte of weights and cache moved, one token decoded alone"),
        field("training_intensity", pa.float64(), "F per byte of activations written and read"),
        field("reason", pa.string(), "why a value is missing, and what the study says of a fixed geometry"),
    ]
)

LEDGER = pa.schema(
    [
        field("architecture", pa.string(), "name of the execution plan"),
        field("scale", pa.string(), "scale of the cell"),
        field("sparsity", pa.string(), "label of the cell's sparsity"),
        field("part", pa.string(), "kind of module, over the whole network"),
        field("params", pa.int64(), "parameters, each physical layer once"),
        field("active_params", pa.int64(), "of them, those that a token meets in one physical traversal"),
        field("forward_flops", pa.float64(), "FLOPs per token forward, over executed layers"),
        field("backward_flops", pa.float64(), "2 x forward"),
        field("training_flops", pa.float64(), "3 x forward"),
        field("kv_bytes", pa.int64(), "KV-cache bytes per token"),
        field("counted", pa.bool_(), "whether the part enters F and N"),
        field("attention", pa.string(), "convention that the keys come from"),
    ]
)


def budget_rows(settings: TableSettings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table of budgets and of the ledger, in the order of the runs."""
    runs = settings.runs
    budgets = [budget(run.model, settings.attention_keys, settings.bytes_per_value) for run in runs]
    references = {
        (run.scale, run.sparsity): cost
        for run, cost in zip(runs, budgets, strict=True)
        if run.architecture == settings.reference
    }
    rows, ledger = [], []
    seen = set()
    for run, cost in zip(runs, budgets, strict=True):
        names = {"architecture": run.architecture, "scale": run.scale, "sparsity": run.sparsity}
        if tuple(names.values()) in seen:
            raise UserError(f"budgets: {run.architecture} {run.scale}-{run.sparsity} is listed twice")
        seen.add(tuple(names.values()))
        reference = references.get((run.scale, run.sparsity))
        rows.append(
            names
            | _geometry(run.model)
            | _budget_columns(run, cost, reference, settings)
            | _memory_columns(run.model, settings)
        )
        ledger += [
            names
            | {"part": part.name, "params": part.params, "active_params": part.active_params}
            | {f"{way}_flops": float(getattr(part, f"{way}_flops")) for way in ("forward", "backward", "training")}
            | {"kv_bytes": part.kv_bytes, "counted": part.counted, "attention": settings.attention}
            for part in cost.parts
        ]
    return rows, ledger


def _geometry(model: ModelSettings) -> dict[str, Any]:
    sizes = {column: getattr(model, column) for column in BUDGETS.names if hasattr(model, column)}
    return sizes | {"executed_layers": len(plan(model))}


def _budget_columns(
    run: RunSettings, cost: Budget, reference: Budget | None, settings: TableSettings
) -> dict[str, Any]:
    own_control = run.reference_control if run.architecture == settings.reference else run.control
    reasons = [run.note] if run.note else []
    if own_control is None:
        reasons.append("s_own: no S = 0 configuration of this architecture is named")
    if run.reference_control is None:
        reasons.append("s_baseline: no fully active control of the reference is named")
    if reference is None:
        reasons.append(f"ratios: {settings.reference} has no run at this cell")
    return {
        "active_params": cost.active_params,
        "total_params": cost.params,
        "s_own": _sparsity(cost, own_control, settings),
        "s_baseline": _sparsity(cost, run.reference_control, settings),
        "flops_per_token": float(cost.flops_per_token),
        "flops_ratio": reference and cost.flops_per_token / reference.flops_per_token,
        "params_ratio": reference and cost.params / reference.params,
        "kv_bytes_per_token": cost.kv_bytes_per_token,
        "kv_ratio": reference and cost.kv_bytes_per_token / reference.kv_bytes_per_token,
        "head_flops_per_token": float(cost.head_flops_per_token),
        "attention_keys": float(settings.attention_keys),
        "reason": "; ".join(reasons) or None,
    }


def _memory_columns(model: ModelSettings, settings: TableSettings) -> dict[str, Any]:
    keys = settings.attention_keys
    return {
        "attention": settings.attention,
        "kv_bytes_by_visit": "+".join(map(str, kv_bytes_by_visit(model, settings.bytes_per_value))),
        "activation_bytes_per_token": memory.activation_bytes(model),
        "checkpointed_bytes_per_token": memory.activation_bytes(model, checkpointing=True),
        "optimizer_bytes": memory.optimizer_bytes(model),
        "checkpoint_bytes": memory.checkpoint_bytes(model),
        "decode_intensity": memory.decode_intensity(model, keys),
        "training_intensity": memory.training_intensity(model, keys),
    }


def _sparsity(cost: Budget, control: ModelSettings | None, settings: TableSettings) -> float | None:
    if control is None:
        return None
    full = budget(control, settings.attention_keys, settings.bytes_per_value)
    return sparsity(cost.flops_per_token, cost.params, full.flops_per_token, full.params)


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.budgets.table", __doc__, argv, TableSettings, [], ["out_parquet", "out_csv", "ledger"])
    rows, ledger = budget_rows(job.settings)
    data = tables.from_rows(rows, BUDGETS)
    job.write("out_parquet", tables.to_arrow(data, BUDGETS))
    tables.write_csv(data, job.path("out_csv"))
    job.write("ledger", table(ledger, LEDGER))


if __name__ == "__main__":
    command(main)
