"""Write the plan of a study: what each run takes, before anything is trained.

Reads no file: networks, recipes and the size of the text stand in the spec. A run processes the tokens of its stable
phase and of each of its decays, and is charged F and the LM head for all of them; its last endpoint has seen the
stable phase and one decay. The total row adds up what adds up, counts the corpus once, and has of a GPU's memory
and of the GPUs that a run needs the largest. Warnings go to stderr and into the column `reason`.
"""

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt import tables
from smelt.budgets import memory, sharding
from smelt.budgets.ledger import budget
from smelt.budgets.plan_columns import LARGEST, PLAN, SUMMED
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.model.settings import ModelSettings
from smelt.setting import setting

HOUR = 3600  # seconds
MEGABYTE = 10**6  # bytes
TOTAL = "total"  # in place of an architecture


@dataclasses.dataclass(frozen=True)
class Training:
    """One network and its recipe, and the runs that train it so."""

    architecture: str
    scale: str
    sparsity: str
    model: ModelSettings
    seeds: tuple[tuple[str, int], ...]  # id of each run, and its seed
    batch_contexts: int
    steps: int
    branch_steps: tuple[int, ...]
    decay_steps: int

    @property
    def contexts(self) -> dict[str, int]:
        """Contexts that it reads of each stream; all decays read the same."""
        return {"stable": self.steps * self.batch_contexts, "decay": self.decay_steps * self.batch_contexts}


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What a study says of the machine and of the text that there is."""

    accelerator: str = setting("Name of the GPU that the hours and the memory are of.", "H200")
    peak_flops: float = setting(
        "Its dense bfloat16 FLOP/s; 9.89e+14 is that of an H100 or H200.", 9.89e14, unit="FLOP/s", exclusive_minimum=0
    )
    utilisation: float = setting("Share of the peak that training reaches.", 0.4, exclusive_minimum=0, maximum=1)
    memory_bytes: float = setting("Its memory in bytes.", 1.41e11, unit="bytes", exclusive_minimum=0)
    checkpoints_kept: int = setting("Resumable states of each run that are kept at a time.", 1, minimum=0)
    text_megabytes: float = setting(
        "Clean text that all sources hold, in MB, where it is known; 0 where it is not.", 0.0, unit="MB", minimum=0
    )
    bytes_per_token: float = setting(
        "Bytes of text assumed for a token; 3 to 4 are usual.", 3.0, unit="bytes", exclusive_minimum=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Assumptions):
    """The runs, the text and the machine."""

    attention_keys: float  # keys charged to a query
    runs: tuple[Training, ...]
    context: int = 4096
    shard_contexts: int = 32
    heldout_share: float = 0.05
    decay_share: float = 0.15
    text_megabytes: float = dataclasses.field()  # that is asked for, or all there is; 0 where it is not known
    branch_jobs: bool = False  # whether a checkpoint is kept for each decay


def plan_rows(settings: Settings) -> list[dict[str, Any]]:
    """A row for each run, in the order of the spec, and the total. Raises UserError without runs."""
    if not settings.runs:
        raise UserError("plan: the study trains no run; take entries out of grid.exclude")
    rows = [row for training in settings.runs for row in _rows(training, settings)]
    longest = needed_contexts(settings)
    seeds = {seed for training in settings.runs for _, seed in training.seeds}
    reasons = [*_shortages(longest, settings), *_unfit(rows, settings), *_unknown(longest, settings)]
    total = dict.fromkeys(PLAN.names) | {
        "architecture": TOTAL,
        "utilisation": settings.utilisation,
        "accelerator": settings.accelerator,
        **{name: sum(row[name] for row in rows) for name in SUMMED},
        **{name: _largest([row[name] for row in rows]) for name in LARGEST},
        "first_endpoint_flops": min(row["first_endpoint_flops"] for row in rows),
        **{name: count * len(seeds) for name, count in _corpus(longest, settings).items()},
        "reason": "; ".join(reasons) or None,
    }
    return [*rows, total]


def warnings(settings: Settings) -> list[str]:
    """What a person should know before the spend: text that does not suffice."""
    return _shortages(needed_contexts(settings), settings)


def needed_contexts(settings: Settings) -> dict[str, int]:
    """Contexts of each stream that the longest runs read."""
    each = [run.contexts for run in settings.runs]
    return {stream: max(contexts[stream] for contexts in each) for stream in ("stable", "decay")}


def _rows(training: Training, settings: Settings) -> list[dict[str, Any]]:
    """One row for each seed."""
    model = training.model
    size = training.batch_contexts * settings.context  # tokens a step
    row = {
        "architecture": training.architecture,
        "scale": training.scale,
        "sparsity": training.sparsity,
        "utilisation": settings.utilisation,
        "accelerator": settings.accelerator,
        **_compute(training, model, size, settings),
        **device_memory(model, settings.context, settings.memory_bytes),
        **_sharded(training, model, settings),
        **_storage(training, model, settings),
        **_corpus(training.contexts, settings),
    }
    reasons = [*_shortages(training.contexts, settings), *_sharding(row, settings)]
    row["reason"] = "; ".join(reasons) or None
    return [row | {"run": name, "seed": seed} for name, seed in training.seeds]


def _compute(training: Training, model: ModelSettings, size: int, settings: Settings) -> dict[str, Any]:
    found = budget(model, settings.attention_keys)
    stable = training.steps * size
    decays = len(training.branch_steps) * training.decay_steps * size
    first, last = ((training.branch_steps[end] + training.decay_steps) * size for end in (0, -1))
    flops, head = found.flops_per_token * (stable + decays), found.head_flops_per_token * (stable + decays)
    return {
        "tokens": stable + decays,
        "stable_tokens": stable,
        "decay_tokens": decays,
        "endpoint_tokens": last,
        "training_flops": float(flops),
        "head_flops": float(head),
        "first_endpoint_flops": float(found.flops_per_token * first),
        "last_endpoint_flops": float(found.flops_per_token * last),
        "gpu_hours": (flops + head) / (settings.peak_flops * settings.utilisation * HOUR),
    }


def device_memory(model: ModelSettings, context: int, memory_bytes: float) -> dict[str, Any]:
    """Device memory while one context at a time is processed, the state sharded over as few GPUs as hold it."""
    state = memory.state_bytes(model)
    kept = {
        "activation_bytes": context * memory.activation_bytes(model),
        "checkpointed_bytes": context * memory.activation_bytes(model, checkpointing=True),
        "logit_bytes": context * memory.logit_bytes(model),
    }
    own = kept["checkpointed_bytes"] + kept["logit_bytes"]  # each GPU has contexts of its own
    room = int(memory_bytes) - own
    gpus = -(-state // room) if room > 0 else None
    return {"state_bytes": state, **kept, "gpus": gpus, "bytes_per_gpu": gpus and own - (-state // gpus)}


def _sharded(training: Training, model: ModelSettings, settings: Settings) -> dict[str, int | None]:
    """How a run is spread over GPUs that take their contexts of a step one after the other."""
    memory_bytes = device_memory(model, settings.context, settings.memory_bytes)
    own = memory_bytes["checkpointed_bytes"] + memory_bytes["logit_bytes"]

    def held(gpus: int) -> int:
        gathered = sharding.held_bytes(model, expert_parallel=True) if gpus > 1 else 0
        return own + gathered - (-memory_bytes["state_bytes"] // gpus)

    contexts = training.batch_contexts
    even = [gpus for gpus in range(1, contexts + 1) if not (contexts % gpus or model.experts % gpus)]
    gpus = next((gpus for gpus in even if held(gpus) <= settings.memory_bytes), None)
    names = ("sharded_gpus", "sharded_bytes_per_gpu", "communication_bytes", "gathered_communication_bytes")
    if gpus is None:
        return dict.fromkeys(names)
    micro = contexts // gpus
    exchanged = sharding.exchanged_bytes(model, gpus, micro, micro * settings.context, activation_checkpointing=True)
    placed, gathered = (sharding.gathered_bytes(model, gpus, micro, parallel) for parallel in (True, False))
    return dict(zip(names, (gpus, held(gpus), placed + exchanged, gathered), strict=True))


def _storage(training: Training, model: ModelSettings, settings: Settings) -> dict[str, int]:
    weights, state = memory.model_bytes(model), memory.checkpoint_bytes(model)
    branches = len(training.branch_steps)
    stored = branches * weights + (settings.checkpoints_kept + settings.branch_jobs * branches) * state
    return {"model_bytes": weights, "checkpoint_bytes": stored}


def _corpus(contexts: Mapping[str, int], settings: Settings) -> dict[str, int]:
    shards = sum(math.ceil(count / settings.shard_contexts) for count in contexts.values())
    vocabulary = settings.runs[0].model.vocabulary  # one tokenizer for all
    return {
        "corpus_tokens": sum(contexts.values()) * settings.context,
        "corpus_bytes": shards * settings.shard_contexts * settings.context * token_bytes(vocabulary),
    }


def token_bytes(vocabulary: int) -> int:
    """Bytes of a token id in a shard: the smallest unsigned type that holds all."""
    return np.min_scalar_type(vocabulary - 1).itemsize


def _shortages(contexts: Mapping[str, int], settings: Settings) -> list[str]:
    """A warning where the text, if its size is known, does not fill the streams."""
    training = 1 - settings.heldout_share
    shares = {"stable": training * (1 - settings.decay_share), "decay": training * settings.decay_share}
    text = settings.text_megabytes * MEGABYTE / settings.bytes_per_token  # tokens
    short = [
        f"{text * shares[stream]:.3g} of the {count * settings.context:.4g} tokens of the {stream} stream"
        for stream, count in contexts.items()
        if text * shares[stream] < count * settings.context
    ]
    if not (short and settings.text_megabytes):
        return []
    return [
        f"the corpus is too small: {settings.text_megabytes:.4g} MB of text, at {settings.bytes_per_token:g} bytes a "
        f"token (assumed), give about {' and '.join(short)}"
    ]


def _unknown(contexts: Mapping[str, int], settings: Settings) -> list[str]:
    if settings.text_megabytes:
        return []
    needed = sum(contexts.values()) * settings.context
    return [
        f"whether the corpus suffices for {needed:.4g} tokens, about "
        f"{needed * settings.bytes_per_token / MEGABYTE:.2g} MB of text, is not known: corpus.megabytes and "
        "cost_estimate.text_megabytes are 0"
    ]


def _sharding(row: Mapping[str, Any], settings: Settings) -> list[str]:
    """Why a run has no figure of a GPU's memory, or needs more than one GPU."""
    machine = f"one {settings.accelerator} of {settings.memory_bytes / 1e9:.4g} GB"
    if row["gpus"] is None:
        return [f"bytes_per_gpu: the activations and logits of one context do not fit into {machine}"]
    uneven = (
        ["sharded_gpus: no number that shares contexts and experts evenly holds it"] if not row["sharded_gpus"] else []
    )
    if row["gpus"] == 1:
        return uneven
    large = f"{row['state_bytes'] / 1e9:.4g} GB of state do not fit into {machine}: {row['gpus']} at the least"
    return [large, *uneven]


def _unfit(rows: Sequence[Mapping[str, Any]], settings: Settings) -> list[str]:
    large = sum(row["gpus"] != 1 for row in rows)
    nowhere = sum(row["gpus"] is None for row in rows)
    found = [f"{large} of {len(rows)} runs do not fit into one {settings.accelerator}"] if large else []
    return found + ([f"bytes_per_gpu, gpus: {nowhere} of {len(rows)} runs have none"] if nowhere else [])


def _largest(values: Sequence[Any]) -> Any:
    """The largest, or None where one is missing: it may be the largest."""
    return None if None in values else max(values)


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.budgets.plan", __doc__, argv, Settings, [], ["csv", "parquet"])
    data = tables.from_rows(plan_rows(job.settings), PLAN)
    for line in warnings(job.settings):
        print(f"warning: {line}", file=sys.stderr)
    job.write("parquet", tables.to_arrow(data, PLAN))
    tables.write_csv(data, job.path("csv"))


if __name__ == "__main__":
    command(main)
