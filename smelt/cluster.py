"""What the jobs that grow with a study ask a cluster's scheduler for: GPUs, memory and run time.

None of it decides a bit of a run, and only the Snakefile uses it. GPUs and hours come from the FLOPs and the machine of
the study's plan (smelt.budgets.plan), so that a larger run asks for more; a study without GPUs (cluster.gpus: 0) trains
on a core. A job that its run time cuts short has saved its state and the next attempt goes on, so `cluster.hours`
bounds a job and not a run.
"""

import dataclasses
import math
import os

from smelt import preflight
from smelt.budgets.ledger import budget
from smelt.budgets.memory import checkpoint_bytes
from smelt.budgets.plan import device_memory
from smelt.errors import UserError
from smelt.grid import GridStudy, Run
from smelt.study_file import Study

MEGABYTE = 10**6
HOUR = 60  # minutes
SHARD_BYTES = 24  # a token of a shard that is packed: its id and segment in wide integers, and the tables made of them
PACKED_TOKENS = 1e5  # a second, of reading, encoding and packing
START = 15  # minutes: imports, reading shards, saves
MARGIN = 1.5  # of the planned time, so that a slow node needs no second attempt
CPU_FLOPS = 5e9  # a second of one core; 7 to 55 were measured, the least for the widest rows of small experts
GPU_PROCESS = 16_000 * MEGABYTE  # bytes on the host of each GPU's own process: CUDA, shards, pinned buffers


def state_root(study: Study) -> str:
    """Where killed jobs leave what they resume from: beside the results, or below the folder that SMELT_STATE names,
    which outlives a job where those do not."""
    outside = os.environ.get("SMELT_STATE")
    return f"{outside}/{study.name}" if outside else f"{study.root}/state"


@dataclasses.dataclass(frozen=True)
class Request:
    """What one job asks for."""

    gpu: int | None  # None of a job without: to an executor, none asked for and 0 are not the same
    mem_mb: int
    runtime: int  # minutes


def training(study: GridStudy, run: Run, part: str, attempt: int = 1) -> Request:
    """The request of the `attempt`-th try at one part of a run; later ones ask for more memory and time.

    A part is "run", all of it in one job, "stable", its stable phase, or "decay", one of its decays.
    """
    cluster = study.config["cluster"]
    limit = int(cluster["hours"] * HOUR)
    flops = job_flops(study, run, part)
    gpus = _gpus(study, run, flops)
    rate = gpus * study.config["plan"]["peak_flops"] * study.config["plan"]["utilisation"] if gpus else CPU_FLOPS
    minutes = math.ceil(START + MARGIN * flops / rate / 60)
    # With GPUs the state lives there, and a copy of it is here while it is saved.
    memory = gpus * GPU_PROCESS + checkpoint_bytes(run.model) if gpus else preflight.memory(run)
    return Request(gpus or None, grown(memory / MEGABYTE, attempt), min(limit, minutes * attempt))


def grown(amount: float, attempt: int) -> int:
    """An amount of memory, half as much again at each further attempt: 1, 1.5, 2, ... times."""
    return math.ceil(amount * (1 + attempt) / 2)


def shard(study: GridStudy, attempt: int = 1) -> Request:
    """The request of the `attempt`-th try at packing one shard of a stream."""
    tokens = study.config["corpus"]["shard_contexts"] * study.config["corpus"]["context"]
    memory, minutes = 1000 + SHARD_BYTES * tokens / MEGABYTE, 10 + tokens / PACKED_TOKENS / 60
    return Request(None, grown(memory, attempt), math.ceil(minutes * attempt))


def job_flops(study: GridStudy, run: Run, part: str) -> float:
    """FLOPs of one job, LM head included."""
    recipe, found = run.training, budget(run.model, study.attention_keys)
    decays = {"run": len(recipe.branch_steps), "stable": 0, "decay": 1}[part]
    steps = (0 if part == "decay" else recipe.steps) + decays * recipe.decay_steps
    tokens = steps * recipe.batch_contexts * study.config["corpus"]["context"]
    return float(tokens * (found.flops_per_token + found.head_flops_per_token))


def _gpus(study: GridStudy, run: Run, flops: float) -> int:
    """GPUs of one node for a job: a power of two that holds the state and, if the node has as many, ends within
    `cluster.hours`. Raises UserError where the node does not hold the state."""
    cluster, plan = study.config["cluster"], study.config["plan"]
    node = cluster["gpus"]
    if not node:
        return 0
    least = device_memory(run.model, study.config["corpus"]["context"], plan["memory_bytes"])["gpus"]
    if least is None or least > node:
        raise UserError(
            f"cluster.gpus: the state of {run.id} needs {least or 'more than any number of'} GPUs of "
            f"{plan['memory_bytes']:.3g} bytes and a node has {node}; name a larger node or GPU"
        )
    hours = MARGIN * flops / (plan["peak_flops"] * plan["utilisation"]) / 3600
    return min(node, _power_of_two(max(least, math.ceil(hours / cluster["hours"]))))


def _power_of_two(count: int) -> int:
    """The next power of two, from 1."""
    return 1 << (count - 1).bit_length()
