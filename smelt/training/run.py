"""Train one run: a stable phase and its decay branches, in one process.

Reads the run's spec and the packed contexts of the stable and the decay stream; writes one model for each
branch (fp32 safetensors that carry their model settings) and the log (Parquet). Branches are decayed in memory:
the stable weights and moments are copied, decayed on the decay stream from its start, and put back, so that the
stable phase is the same to the last bit as without branches. A killed job resumes from its state folder to the
same bytes.
"""

import argparse
import copy
import json
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import torch
from safetensors.torch import save

from smelt.artifacts import field, file_digest, provenance, replacing, table, write_table
from smelt.errors import UserError, command
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.spec import canonical_json, digest, fingerprint, load
from smelt.training import state
from smelt.training.data import Stream
from smelt.training.progress import Progress
from smelt.training.schedule import decay_rate, stable_rate
from smelt.training.settings import TrainingSettings
from smelt.training.step import optimizer, train_step

MODULE = "smelt.training.run"
STOPPED = 75  # exit status of a job that saved its state when asked to end (EX_TEMPFAIL)

LOG = pa.schema(
    [
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


class Trainer:
    """A run in progress: model, optimizer, streams and log."""

    def __init__(
        self,
        model: ModelSettings,
        settings: TrainingSettings,
        stable: Sequence[str],
        decay: Sequence[str],
        context: int,
    ) -> None:
        self.settings = settings
        self.step_tokens = settings.batch_contexts * context
        self.model = Transformer(model, getattr(torch, settings.precision))
        initialise(self.model, settings.seed)
        self.adamw = optimizer(self.model, settings)
        self.stable, self.decay = Stream(stable, settings.seed), Stream(decay, settings.seed)
        self.rows: list[dict[str, Any]] = []
        self.done = 0  # stable steps
        self.branches = 0  # finished
        self.stopping = False
        self.progress: Progress | None = None

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.adamw.state_dict(),
            "rows": json.dumps(self.rows),
            "done": self.done,
            "branches": self.branches,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a state that `state` gave."""
        self.model.load_state_dict(saved["model"])
        self.adamw.load_state_dict(saved["optimizer"])
        self.rows, self.done, self.branches = json.loads(saved["rows"]), saved["done"], saved["branches"]

    def update(self, stream: Stream, branch: int, index: int, rate: float) -> None:
        """Step on batch `index` of `stream` and log it."""
        step = self.done + 1 + (index if branch else 0)
        try:
            record = train_step(
                self.model, self.adamw, stream.batch(index, self.settings.batch_contexts), rate, self.settings
            )
        except UserError as error:
            raise UserError(f"step {step}{f' of branch {branch}' if branch else ''}: {error}") from None
        self.rows.append({"branch": branch, "step": step, "tokens": step * self.step_tokens, **record})
        if self.progress is not None:
            self.progress.step(record["loss"])

    def run_stable_step(self) -> None:
        """Take the next step of the stable phase."""
        self.update(self.stable, 0, self.done, stable_rate(self.done, self.settings))
        self.done += 1

    def run_branch(self, folder: Path) -> None:
        """Decay a copy of the current weights and keep the endpoint in `folder`."""
        before = copy.deepcopy((self.model.state_dict(), self.adamw.state_dict()))
        logged = len(self.rows)
        branch = self.branches + 1
        for step in range(self.settings.decay_steps):
            if not self.stopping:
                self.update(self.decay, branch, step, decay_rate(step, self.done, self.settings))
        if self.stopping:
            del self.rows[logged:]
        else:
            about = {"model": vars(self.model.settings), "branch": branch, "branch_step": self.done}
            with replacing(folder / f"branch-{branch}.safetensors") as temporary:
                # One key alone: safetensors writes several in the order of a randomly seeded hash.
                temporary.write_bytes(save(self.model.state_dict(), {"endpoint": canonical_json(about)}))
            self.branches = branch
        self.model.load_state_dict(before[0])
        self.adamw.load_state_dict(before[1])


def train(trainer: Trainer, folder: Path, name: str, checkpoint_steps: int) -> None:
    """Bring the run to its end, saving as it goes; raises SystemExit(STOPPED) when asked to end.

    `checkpoint_steps` is the number of stable steps between saves; it decides no bit of the run.
    """
    settings = trainer.settings
    saved = state.load(folder)
    if saved is not None:
        trainer.restore(saved)
    updates = settings.steps + len(settings.branch_steps) * settings.decay_steps
    trainer.progress = Progress(name, updates, len(trainer.rows))
    while True:
        branching = (
            trainer.branches < len(settings.branch_steps) and settings.branch_steps[trainer.branches] == trainer.done
        )
        if branching:
            trainer.run_branch(folder)
        elif trainer.done < settings.steps:
            trainer.run_stable_step()
        else:
            return
        if branching or trainer.stopping or trainer.done % checkpoint_steps == 0:
            state.save(folder, trainer.state())
        if trainer.stopping:
            print(f"{name}: asked to end; saved at step {trainer.done}", file=sys.stderr)
            raise SystemExit(STOPPED)


def publish(folder: Path, models: Sequence[Path]) -> None:
    """Link the endpoints to their declared names; the state stays whole until all outputs stand."""
    for branch, path in enumerate(models, start=1):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        endpoint = folder / f"branch-{branch}.safetensors"
        if not endpoint.exists():
            raise UserError(
                f"{endpoint}: the finished endpoint is gone; delete {folder} to train this run from its start"
            )
        try:
            path.hardlink_to(endpoint)
        except OSError:  # another file system, or one without links
            with replacing(path) as temporary:
                shutil.copyfile(endpoint, temporary)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--spec", required=True, help="canonical JSON: {context, model, training}")
    parser.add_argument("--stable", nargs="+", required=True, help="shards of the stable stream, in order")
    parser.add_argument("--decay", nargs="+", required=True, help="shards of the decay stream, in order")
    parser.add_argument("--state", type=Path, required=True, help="folder that a killed run resumes from")
    parser.add_argument("--checkpoint-steps", type=int, default=50, help="stable steps between saves")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="one model for each branch, in order")
    parser.add_argument("--log", type=Path, required=True, help="the training log (Parquet)")
    arguments = parser.parse_args(argv)

    torch.set_num_threads(1)  # the bits depend on it
    torch.use_deterministic_algorithms(True)
    spec = json.loads(arguments.spec)
    inputs = [*arguments.stable, *arguments.decay]
    identity = digest(canonical_json([spec, fingerprint(MODULE), [file_digest(path) for path in inputs]]))[:16]
    trainer = Trainer(
        load(ModelSettings, spec["model"]),
        load(TrainingSettings, spec["training"]),
        arguments.stable,
        arguments.decay,
        spec["context"],
    )

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.stopping = True

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, stop)
    with state.locked(arguments.state, identity) as folder:
        train(trainer, folder, arguments.state.name, arguments.checkpoint_steps)
        publish(folder, arguments.models)
        write_table(table(trainer.rows, LOG), arguments.log, provenance(MODULE, spec, inputs))
        state.clear(folder)


if __name__ == "__main__":
    command(main)
