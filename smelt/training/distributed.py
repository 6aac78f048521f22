"""Train one run on several processes: what smelt.training.run does, with the network spread over them.

Started by torchrun, one process a GPU or, on the CPU, one a core; alone it is one process. Takes the same arguments
and writes the same files. A step's contexts go to the processes in turn, `training.micro_contexts` at a time. The
results are those of one process but for the order in which sums are rounded, so that a run which resumes
on another number of processes goes on where it was.

  torchrun --standalone --nproc-per-node N -m smelt.training.distributed --spec JSON --stable … --decay … --state DIR
  --models … --log FILE
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save
from torch.distributed.device_mesh import init_device_mesh

from smelt.artifacts import file_digest, provenance, replacing, table, write_table
from smelt.errors import UserError, command
from smelt.model.settings import ModelSettings
from smelt.spec import canonical_json, digest, fingerprint, load
from smelt.training import job, state
from smelt.training.data import Stream
from smelt.training.dcp import Saves, tensors
from smelt.training.log import LOG
from smelt.training.parallel import global_step, micro_batches, rank, summed, world
from smelt.training.schedule import decay_rate, stable_rate
from smelt.training.settings import TrainingSettings
from smelt.training.sharding import sharded, whole_weights
from smelt.training.step import optimizer
from smelt.training.watch import Watch

MODULE = "smelt.training.distributed"


class Trainer:
    """A run in progress on this process and its fellows, all of whom do the same at the same time."""

    def __init__(
        self, model: ModelSettings, settings: TrainingSettings, stable: Stream, decay: Stream, context: int, place: Path
    ) -> None:
        self.settings = settings
        self.step_tokens = settings.batch_contexts * context
        mesh = init_device_mesh("cpu", (world(),))
        precision = getattr(torch, settings.precision)
        self.model = sharded(model, precision, settings.seed, mesh, settings.expert_parallel)
        self.adamw = optimizer(self.model, settings)
        self.stable, self.decay = stable, decay
        self.folder = place
        self.saves = Saves(place)
        self.rows: list[dict[str, Any]] = []
        self.done = 0  # stable steps
        self.branches = 0  # finished
        self.asked = False  # this process, to end
        self.tell: Callable[[dict[str, Any]], None] | None = None

    def stopping(self) -> bool:
        """Whether any process was asked to end: all must leave at the same step."""
        return bool(summed(torch.tensor(int(self.asked))))

    def resume(self) -> None:
        """Go back to the last save, if there is one."""
        place = self.saves.load(self.model, self.adamw)
        if place is not None:
            self.done, self.branches, self.rows = place["done"], place["branches"], place["rows"]

    def save(self) -> None:
        """Begin a save."""
        place = {"done": self.done, "branches": self.branches, "rows": self.rows}
        self.saves.save(self.model, self.adamw, len(self.rows), place)

    def update(self, stream: Stream, branch: int, index: int, rate: float) -> None:
        """Step on batch `index` of `stream` and log it."""
        s = self.settings
        step = self.done + 1 + (index if branch else 0)
        try:
            batches = micro_batches(stream, index, s.batch_contexts, s.micro_batch)
            record = global_step(self.model, self.adamw, batches, rate, s)
        except UserError as error:
            raise UserError(f"step {step}{f' of branch {branch}' if branch else ''}: {error}") from None
        self.rows.append({"branch": branch, "step": step, "tokens": step * self.step_tokens, **record})
        if self.tell is not None:
            self.tell(self.rows[-1])

    def run_branch(self) -> None:
        """Decay a copy of the current slices and keep the endpoint, unless asked to end on the way."""
        before = {name: tensor.clone() for name, tensor in tensors(self.model, self.adamw).items()}
        logged, branch, stopped = len(self.rows), self.branches + 1, False
        for step in range(self.settings.decay_steps):
            if stopped := self.stopping():
                break
            self.update(self.decay, branch, step, decay_rate(step, self.done, self.settings))
        if stopped:
            del self.rows[logged:]
        else:
            self._keep(branch)
            self.branches = branch
        for name, tensor in tensors(self.model, self.adamw).items():
            tensor.copy_(before[name])

    def _keep(self, branch: int) -> None:
        about = {"model": vars(self.model.settings), "branch": branch, "branch_step": self.done}
        weights = whole_weights(self.model)
        if rank() == 0:
            with replacing(self.folder / f"branch-{branch}.safetensors") as temporary:
                temporary.write_bytes(save(weights, {"endpoint": canonical_json(about)}))


def train(trainer: Trainer, checkpoint_steps: int) -> bool:
    """Bring the run to its end, saving as it goes; False where it was asked to end before."""
    settings = trainer.settings
    while True:
        branching = (
            trainer.branches < len(settings.branch_steps) and settings.branch_steps[trainer.branches] == trainer.done
        )
        if branching:
            trainer.run_branch()
        elif trainer.done < settings.steps:
            trainer.update(trainer.stable, 0, trainer.done, stable_rate(trainer.done, settings))
            trainer.done += 1
        else:
            trainer.saves.finish()
            return True
        stopping = trainer.stopping()
        if branching or stopping or trainer.done % checkpoint_steps == 0:
            trainer.save()
        if stopping:
            trainer.saves.finish()
            return False


def main(argv: Sequence[str]) -> None:
    parser = job.parser(MODULE, __doc__)
    parser.add_argument("--stable", nargs="+", required=True, help="shards of the stable stream, in order")
    parser.add_argument("--decay", nargs="+", required=True, help="shards of the decay stream, in order")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="one model for each branch, in order")
    parser.add_argument("--log", type=Path, required=True, help="the training log (Parquet)")
    arguments = parser.parse_args(argv)

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    spec = json.loads(arguments.spec)
    settings = load(TrainingSettings, spec["training"])
    inputs = [*arguments.stable, *arguments.decay]
    # However many processes there are: a run goes on with more or fewer.
    told = {**spec, "training": {key: value for key, value in spec["training"].items() if key != "processes"}}
    identity = digest(canonical_json([told, fingerprint(MODULE), [file_digest(path) for path in inputs]]))[:16]
    with _processes(), _state(arguments.state, identity) as folder:
        if world() != settings.processes:
            raise UserError(
                f"training.processes is {settings.processes} and torchrun started {world()}; give it as many"
            )
        trainer = Trainer(
            load(ModelSettings, spec["model"]),
            settings,
            Stream(arguments.stable, settings.seed),
            Stream(arguments.decay, settings.seed),
            spec["context"],
            folder,
        )

        def stop(number: int, frame: FrameType | None) -> None:
            trainer.asked = True

        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, stop)
        trainer.resume()
        if rank() == 0:
            updates = settings.steps + len(settings.branch_steps) * settings.decay_steps
            watching = (arguments.perf, arguments.flops_per_token, arguments.peak_flops)
            watch = Watch(arguments.state.name, updates, trainer, *watching)
            watch.to_tensorboard(arguments.tensorboard)
            trainer.tell = watch.step
        finished = train(trainer, arguments.checkpoint_steps)
        if rank() == 0 and finished:
            for branch, path in enumerate(arguments.models, start=1):
                job.publish(folder / f"branch-{branch}.safetensors", path)
            write_table(table(trainer.rows, LOG), arguments.log, provenance(MODULE, spec, inputs))
            state.clear(folder)
        if rank() == 0 and not finished:
            print(f"{arguments.state.name}: asked to end; saved at step {trainer.done}", file=sys.stderr)
    if not finished:
        raise SystemExit(job.STOPPED)


@contextlib.contextmanager
def _processes() -> Iterator[None]:
    """The group of the processes that torchrun started, or of this one alone."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _state(root: Path, identity: str) -> Iterator[Path]:
    """The state folder, which the first process holds for all."""
    with state.locked(root, identity) if rank() == 0 else contextlib.nullcontext(root / identity) as folder:
        dist.barrier()
        yield folder
        dist.barrier()


if __name__ == "__main__":
    command(main)
