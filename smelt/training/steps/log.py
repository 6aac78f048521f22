"""The log of a run: its columns, what it came from, and how it is put together from parts.

Whichever form a run is trained in (see smelt.training.train), its log is the same bytes: rows in the order in which
one job takes the steps, and as origin the code that trains, the run's whole spec and the shards that were read.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from smelt.artifacts import field, provenance

CODE = "smelt.training.trainer"  # that decides the bits in every form

LOG = pa.schema(
    [
        field("run", pa.string(), "name of the run"),
        field("branch", pa.int32(), "0 for the stable phase, else the number of the decay branch"),
        field("step", pa.int32(), "optimizer step, counted from 1 along the stable phase and on into the branch"),
        field("tokens", pa.int64(), "tokens read up to and with this step, full contexts"),
        field("loss", pa.float64(), "training cross-entropy, nats a target"),
        field("balance_loss", pa.float64(), "load-balancing loss before its weight; 1 is even"),
        field("z_loss", pa.float64(), "router z loss before its weight"),
        field("gradient_norm", pa.float64(), "global norm before clipping"),
        field("learning_rate", pa.float64(), "rate of this step"),
        field("expert_load", pa.list_(pa.float32()), "by executed layer: load of the fullest expert over the mean"),
        field("idle_experts", pa.list_(pa.float32()), "by executed layer: share of experts without a token"),
    ]
)


def origin(spec: Any, inputs: Iterable[str | Path]) -> dict[str, Any]:
    """Provenance of a log, or of a part of one, with the code that trains in place of the job's."""
    return provenance(CODE, spec, inputs)


def joined_origin(spec: Any, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The origin of a whole run's log from those of its parts, its stable phase first: the inputs of all, but the
    checkpoints that one part read of another. Parts of different code are named by all of it."""
    inputs = {name: value for part in parts for name, value in part["inputs"].items() if name.endswith(".parquet")}
    code = "+".join(dict.fromkeys(part["code"] for part in parts))
    return origin(spec, []) | {"inputs": inputs, "code": code}


def joined(stable: Iterable[Mapping[str, Any]], decays: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of a whole run: those of each decay follow the stable step at which it branches off."""
    waiting, rows = [list(decay) for decay in decays], []
    for row in stable:
        rows.append(dict(row))
        while waiting and waiting[0][0]["step"] == row["step"] + 1:
            rows += [dict(step) for step in waiting.pop(0)]
    return rows
