"""What the jobs that train have in common: their options, the machine's settings, signals, and publishing results."""

import argparse
import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from smelt.artifacts import file_digest, replacing
from smelt.errors import UserError
from smelt.spec import canonical_json, digest, fingerprint, load
from smelt.training import processes
from smelt.training.monitoring.watch import Watch
from smelt.training.saves import resume
from smelt.training.saves.checkpoint import is_whole
from smelt.training.settings import TrainingSettings
from smelt.training.trainer import Trainer

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)  # that ask a training to save and end
STOPPED = 75  # exit status of a job that saved its state when asked to end (EX_TEMPFAIL)


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of every job that trains; what they say decides no bit."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    found.add_argument("--spec", required=True, help="canonical JSON: {run, context, model, training}")
    found.add_argument("--state", type=Path, required=True, help="folder that a killed job resumes from")
    found.add_argument("--save-interval", type=int, default=50, help="steps between saves")
    watch = found.add_argument_group("watching (see docs/training.md)")
    watch.add_argument("--perf", type=Path, help="JSON lines, one a step")
    watch.add_argument("--flops-per-token", type=float, default=0.0, help="of training, by the ledger, head included")
    watch.add_argument("--peak-flops", type=float, default=0.0, help="FLOP/s that the job could reach; 0: not stated")
    watch.add_argument("--tensorboard", default="", help="folder of events for TensorBoard; empty for none")
    return found


@contextlib.contextmanager
def settled(spec: dict[str, Any]) -> Iterator[None]:
    """Settle what the bits of a job depend on, and connect the processes of a distributed run.

    Signal handlers that the job installs end with it, so that a process that trained can be interrupted again.
    Raises UserError where the number of processes, or the device, is not the spec's.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with _connected(spec):
            yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _connected(spec: dict[str, Any]) -> Iterator[None]:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    settings = load(TrainingSettings, spec["training"])
    if settings.device != "cpu":
        from smelt.training.backends.gpu import prepare  # the compiler: a second that a core need not spend

        prepare(settings)
    with processes.group(settings.device, settings.processes) if settings.spread else contextlib.nullcontext():
        yield


def identity(spec: dict[str, Any], module: str, inputs: Sequence[str | Path], without: Sequence[str] = ()) -> str:
    """Digest that names a state folder: of the spec, the code of `module` and the input files.

    The recipe's keys `without` and the number of processes stay out, since a run may resume on another number.
    """
    recipe = {key: value for key, value in spec["training"].items() if key not in ("processes", *without)}
    digests = processes.first(lambda: [file_digest(path) for path in inputs])
    return digest(canonical_json([{**spec, "training": recipe}, fingerprint(module), digests]))[:16]


@contextlib.contextmanager
def state_folder(root: Path, identity: str) -> Iterator[Path]:
    """The state folder of this identity under `root`, which the first process locks for all; see `resume.locked`."""
    with contextlib.ExitStack() as stack:
        yield processes.first(lambda: stack.enter_context(resume.locked(root, identity)))


def stop_on_signals(trainer: Trainer) -> None:
    """Let SIGTERM, SIGUSR1 and SIGINT ask the trainer to end, until `settled` is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.asked = True

    for number in SIGNALS:
        signal.signal(number, stop)


def watch(trainer: Trainer, told: argparse.Namespace, updates: int) -> None:
    """Let the trainer of the first process tell of each of its `updates` steps."""
    if processes.rank():
        return
    watching = Watch(told.state.name, updates, trainer, told.perf, told.flops_per_token, told.peak_flops)
    watching.to_tensorboard(told.tensorboard)
    trainer.tell = watching.step


def leave(name: str, where: str) -> None:
    """End a job that was asked to, once its state is saved: raises SystemExit(STOPPED)."""
    if not processes.rank():
        print(f"{name}: asked to end; saved at {where}", file=sys.stderr)
    raise SystemExit(STOPPED)


def publish(kept: Path, path: Path) -> None:
    """Link a finished file of the state folder to its declared name; it stays in the folder too.

    Raises UserError where it is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if not is_whole(kept):
        raise UserError(
            f"{kept}: the finished file is gone or truncated; delete {kept.parent} to train what it holds anew"
        )
    try:
        path.hardlink_to(kept)
    except OSError:  # another file system, or one without links
        with replacing(path) as temporary:
            shutil.copyfile(kept, temporary)
