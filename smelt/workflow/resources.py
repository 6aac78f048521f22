"""What the jobs that grow with a study ask a cluster's scheduler for: GPUs, memory and run time.

None of it decides a bit of a run, and only the Snakefile uses it. A run on GPUs (training.device: cuda) asks for one a
process; hours come from its FLOPs and the machine of the study's plan (smelt.budgets.plan), so that a larger run asks
for more. A job that its run time cuts short has saved its state and the next attempt goes on, so `cluster.hours`
bounds a job and not a run.
"""

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

from smelt.budgets import sharding
from smelt.budgets.ledger import budget
from smelt.budgets.memory import STATE, activation_bytes, all_params, checkpoint_bytes, logit_bytes
from smelt.errors import UserError
from smelt.study.base import Study
from smelt.study.grid import GridStudy, Run
from smelt.workflow import preflight, specs
from smelt.workflow.paths import Paths

MEGABYTE = 10**6
HOUR = 60  # minutes
SHARD_BYTES = 24  # a token of a shard that is packed: its id and segment in wide integers, and the tables made of them
PACKED_TOKENS = 1e5  # a second, of reading, encoding and packing
START = 15  # minutes: imports, reading shards, saves
MARGIN = 1.5  # of the planned time, so that a slow node needs no second attempt
CPU_FLOPS = 5e9  # a second of one core; 7 to 55 were measured, the least for the widest rows of small experts
LOGIT_ROWS = 4096  # whose predictions exist at a time (smelt.model.gpu_loss)
GPU_PROCESS = 16_000 * MEGABYTE  # bytes on the host of each GPU's own process: CUDA, shards, pinned buffers


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
    limit = int(study.config["cluster"]["hours"] * HOUR)
    gpus, flops = _gpus(study, run), job_flops(study, run, part)
    rate = study.config["cost_estimate"]["peak_flops"] * study.config["cost_estimate"]["utilisation"] * gpus
    minutes = math.ceil(START + MARGIN * flops / (rate or CPU_FLOPS * run.training.processes) / 60)
    # With GPUs the state lives there, and copies of it are here: one while it is saved, one that a branch returns to.
    copies = (2 if part == "run" else 1) * checkpoint_bytes(run.model)
    memory = gpus * GPU_PROCESS + copies if gpus else preflight.memory(run)
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


def gpu_bytes(study: GridStudy, run: Run) -> int:
    """Bytes that training a run takes on each of its GPUs: its slice of the state, what is gathered of others, and its
    contexts, whose residual stream is float32."""
    recipe, context = run.training, study.config["corpus"]["context"]
    state = -(-STATE * all_params(run.model) // recipe.processes)
    gathered = sharding.held_bytes(run.model, recipe.expert_parallel) if recipe.distributed else 0
    kept = 2 * recipe.micro_batch * context * activation_bytes(run.model, checkpointing=recipe.activation_checkpointing)
    return state + gathered + kept + LOGIT_ROWS * logit_bytes(run.model)


def _gpus(study: GridStudy, run: Run) -> int:
    """GPUs of one node that a run trains on: one for each process, or none.

    Raises UserError where a node has fewer, or where they do not hold the run.
    """
    if run.training.device == "cpu":
        return 0
    gpus, node, room = (
        run.training.processes,
        study.config["cluster"]["gpus"],
        study.config["cost_estimate"]["memory_bytes"],
    )
    if node and gpus > node:
        raise UserError(
            f"training of {run.id}: {gpus} processes, each with a GPU, and a node has {node} (cluster.gpus); lower "
            "training.processes"
        )
    if (needed := gpu_bytes(study, run)) > room:
        raise UserError(
            f"training of {run.id} needs about {needed / 1e9:.0f} GB on each of {gpus} GPUs, which have "
            f"{room / 1e9:.0f} (cost_estimate.memory_bytes); lower training.micro_batch_contexts, set "
            "training.activation_checkpointing or training.expert_parallel, or raise training.processes"
        )
    return gpus


class Requests:
    """Functions of wildcards for the rules: what a job asks a scheduler for, and how it is started.

    Whatever decides no bit of a run rides as a resource and not as a parameter, so that a change of it trains nothing.
    """

    def __init__(self, study: Study, paths: Paths) -> None:
        self.study, self.paths = study, paths

    def training(self, part: str, resource: str) -> Callable[[Any, int], Any]:
        """What the job of a part of a run (run, stable or decay) asks for: gpu, mem_mb or runtime."""
        return lambda wildcards, attempt: self._asked(
            lambda study: getattr(training(study, self.paths.run(wildcards), part, attempt), resource)
        )

    def shard(self, resource: str) -> Callable[[Any, int], Any]:
        """What packing one shard asks for."""
        return lambda wildcards, attempt: self._asked(lambda study: getattr(shard(study, attempt), resource))

    def costs_memory(self, wildcards: Any) -> int:
        """Megabytes that measuring takes at the most: all architectures of a cell are alive at the same time."""
        cells: dict[str, dict[str, int]] = {}
        for run in self.paths.trained:
            cells.setdefault(run.cell, {})[run.architecture] = preflight.memory(run)
        return max((sum(members.values()) for members in cells.values()), default=0) // MEGABYTE

    def state(self, part: str) -> Callable[[Any], str]:
        """The folder from which a killed job of a part of a run resumes."""
        return lambda wildcards: f"{self.paths.state}/{part.format(**wildcards)}"

    def perf(self, part: str) -> Callable[[Any], str]:
        """The file of lines, one a step, that a job writes while it trains."""
        return lambda wildcards: f"{self.paths.results}/logs/training/{part.format(**wildcards)}.perf.jsonl"

    def events(self, part: str) -> Callable[[Any], str]:
        """The folder of a job's events for TensorBoard; empty where the study wants none."""
        folder = f"{self.paths.results}/logs/training/tensorboard/{part}"
        return lambda wildcards: folder.format(**wildcards) if self.study.config["monitoring"]["tensorboard"] else ""

    def launched(self, module: str) -> Callable[[Any], str]:
        """How a job that trains is started, on one process or on several.

        The two dashes keep torchrun from taking the command's options for its own.
        """

        def command(wildcards: Any) -> str:
            processes = self.processes(wildcards)
            if processes == 1:
                return f"python -m {module}"
            torchrun = f"python -m torch.distributed.run --standalone --nproc-per-node {processes}"
            return f"{torchrun} -m -- {module}"

        return command

    def processes(self, wildcards: Any) -> int:
        """Processes that train a run together, each with one thread."""
        return self.paths.run(wildcards).training.processes

    def save_interval(self, wildcards: Any) -> int:
        """Steps between saves of a run."""
        return self.paths.run(wildcards).save_interval

    def flops_per_token(self, wildcards: Any) -> int:
        """Training FLOPs of a token of a run, LM head included."""
        return self._asked(lambda study: specs.flops_per_token(study, self.paths.run(wildcards)))

    def peak_flops(self, wildcards: Any) -> int:
        """FLOP/s that a training job's processor can reach, as the study states it; 0 where it does not."""
        return int(self.study.config["monitoring"]["peak_flops"])

    def _asked(self, request: Callable[[GridStudy], Any]) -> Any:
        assert isinstance(self.study, GridStudy)  # a run is named, or a shard
        try:
            return request(self.study)
        except UserError as error:
            sys.exit(f"error: {self.study.path}: {error}")
