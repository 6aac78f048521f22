"""Start and end a job that trains: its options, the machine's settings, signals, its state folder, its results."""

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import torch

from smelt.artifacts import file_digest, replacing
from smelt.errors import UserError
from smelt.job import Job
from smelt.spec import canonical_json, digest, fingerprint
from smelt.training import processes
from smelt.training.monitoring.watch import Watch
from smelt.training.saves import resume
from smelt.training.saves.checkpoint import is_whole
from smelt.training.settings import RunSettings, TrainingSettings
from smelt.training.trainer import Trainer

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)  # that ask a training to save and end
STOPPED = 75  # exit status of a job that saved its state when asked to end (EX_TEMPFAIL)


@dataclass(frozen=True)
class Options:
    """Options of a job that trains, beside its spec and files; none of them decides a bit of the run."""

    state: Path = field(metadata={"help": "folder that a killed job resumes from"})
    save_interval: int = field(default=50, metadata={"help": "steps between saves"})
    perf: Path | None = field(default=None, metadata={"help": "JSON lines, one a step; see docs/training.md"})
    flops_per_token: float = field(default=0.0, metadata={"help": "of training, by the ledger, LM head included"})
    peak_flops: float = field(default=0.0, metadata={"help": "FLOP/s that the job could reach; 0: not stated"})
    tensorboard: str = field(default="", metadata={"help": "folder of events for TensorBoard; empty for none"})

    @property
    def name(self) -> str:
        """Name of the job in its messages: that of its state folder."""
        return self.state.name


@contextlib.contextmanager
def settled(settings: TrainingSettings) -> Iterator[None]:
    """Settle what the bits of a job depend on, and connect the processes of a distributed run.

    The signal handlers of before are back at the end, so that a process that trained can be interrupted again.
    Raises UserError where the number of processes, or the device, is not that of `settings`.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with _connected(settings):
            yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: installed by code that is not Python's, which cannot be named here
                signal.signal(number, handler)


@contextlib.contextmanager
def _connected(settings: TrainingSettings) -> Iterator[None]:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if settings.device != "cpu":
        from smelt.training.backends.gpu import prepare  # the compiler: a second that a core need not spend

        prepare(settings)
    group = processes.group(settings.device, settings.processes) if settings.distributed else contextlib.nullcontext()
    with group:
        yield


def identity(job: Job[RunSettings], inputs: Sequence[Path], without: Sequence[str] = ()) -> str:
    """Digest that names a state folder: of the spec, the code of the job's module and the input files.

    The recipe's keys `without` and the number of processes stay out, since a run may resume on another number.
    """
    recipe = {key: value for key, value in job.spec["training"].items() if key not in ("processes", *without)}
    digests = processes.first(lambda: [file_digest(path) for path in inputs])
    return digest(canonical_json([{**job.spec, "training": recipe}, fingerprint(job.module), digests]))[:16]


@contextlib.contextmanager
def state_folder(root: Path, identity: str) -> Iterator[Path]:
    """The state folder of this identity under `root`; the first process locks it for all (`resume.state_folder`)."""
    with contextlib.ExitStack() as stack:
        yield processes.first(lambda: stack.enter_context(resume.state_folder(root, identity)))


def stop_on_signals(trainer: Trainer) -> None:
    """Let SIGTERM, SIGUSR1 and SIGINT ask the trainer to end, until `settled` is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.stop_requested = True

    for number in SIGNALS:
        signal.signal(number, stop)


def watch(trainer: Trainer, options: Options, updates: int) -> None:
    """Let the trainer of the first process report each of its `updates` steps."""
    if processes.rank():
        return
    watching = Watch(options.name, updates, trainer, options.perf, options.flops_per_token, options.peak_flops)
    watching.to_tensorboard(options.tensorboard)
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
