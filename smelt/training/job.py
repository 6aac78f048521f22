"""What the jobs that train have in common: their options, the machine's settings, signals, and publishing results."""

import argparse
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

import torch

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.training.trainer import Trainer
from smelt.training.watch import Watch

STOPPED = 75  # exit status of a job that saved its state when asked to end (EX_TEMPFAIL)


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of every job that trains; what they say decides no bit."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    found.add_argument("--spec", required=True, help="canonical JSON: {context, model, training}")
    found.add_argument("--state", type=Path, required=True, help="folder that a killed job resumes from")
    found.add_argument("--checkpoint-steps", type=int, default=50, help="steps between saves")
    watch = found.add_argument_group("watching (see docs/training.md)")
    watch.add_argument("--perf", type=Path, help="JSON lines, one a step")
    watch.add_argument("--flops-per-token", type=float, default=0.0, help="of training, by the ledger, head included")
    watch.add_argument("--peak-flops", type=float, default=0.0, help="FLOP/s that the job could reach; 0: not stated")
    watch.add_argument("--tensorboard", default="", help="folder of events for TensorBoard; empty for none")
    return found


def prepare(trainer: Trainer) -> None:
    """Settle what the bits depend on, and let a signal ask the trainer to end."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.stopping = True

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, stop)


def watch(trainer: Trainer, told: argparse.Namespace, updates: int) -> None:
    """Let the trainer tell of each of its `updates` steps."""
    watching = Watch(told.state.name, updates, trainer, told.perf, told.flops_per_token, told.peak_flops)
    watching.to_tensorboard(told.tensorboard)
    trainer.tell = watching.step


def leave(name: str, where: str) -> None:
    """End a job that was asked to, once its state is saved: raises SystemExit(STOPPED)."""
    print(f"{name}: asked to end; saved at {where}", file=sys.stderr)
    raise SystemExit(STOPPED)


def publish(kept: Path, path: Path) -> None:
    """Link a finished file of the state folder to its declared name; it stays in the folder too.

    Raises UserError where it is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if not kept.exists():
        raise UserError(
            f"{kept}: the finished file is gone; delete {kept.parent} to train what it holds from its start"
        )
    try:
        path.hardlink_to(kept)
    except OSError:  # another file system, or one without links
        with replacing(path) as temporary:
            shutil.copyfile(kept, temporary)
