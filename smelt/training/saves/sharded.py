"""Checkpoints of a run over several processes, in slices that any number of processes can read.

A save is a folder `saved-N` (the N-th) in PyTorch's distributed format, each process writing its slices of weights and
moments under their global names, with `about.json`: the place in the run, its log among it, and the sha256 of every
other file. It is written beside and renamed when it is whole, then its predecessor goes. Hyperparameters are not in it:
they are those of the run's spec.

A save is asynchronous: the slices are copied, training goes on while they are written (by a group of processes of its
own, so that its messages do not meet those of training), and the next save, or the end, waits for it.
"""

import contextlib
import functools
import json
import os
import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import CheckpointException, FileSystemReader, FileSystemWriter
from torch.optim import AdamW

from smelt.artifacts import file_digest
from smelt.errors import UserError
from smelt.model.transformer import Transformer
from smelt.training.processes import PATIENCE, first, rank

ABOUT = "about.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


class Saves:
    """The saves in a run's state folder; needs a process group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pending: Future[Any] | None = None
        self.group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def save(self, model: Transformer, adamw: AdamW, place: dict[str, Any]) -> None:
        """Begin to save the state; `place` is what the run needs besides (plain values)."""
        self.finish()
        position = json.dumps(place)  # now: training goes on while the rest is written
        temporary = self.folder / ".saving"
        if rank() == 0:
            shutil.rmtree(temporary, ignore_errors=True)
        dist.barrier(self.group)
        writer = FileSystemWriter(temporary)  # syncs its files
        result = dcp.async_save(tensors(model, adamw), storage_writer=writer, process_group=self.group)
        assert isinstance(result, Future)
        self.pending = result
        if rank() == 0:  # whose future ends when all processes have written
            self.published: Future[Any] = _then(result, functools.partial(_publish, temporary, self.folder, position))

    def finish(self) -> None:
        """Wait for the save that was begun. Raises what it failed with: an OSError, if there is one."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        try:
            pending.result()
            if rank() == 0:
                self.published.result()
        except CheckpointException as error:  # of one process or more, with what each failed with
            raise next((cause for cause in map(_cause, error.failures.values()) if cause), error) from None
        dist.barrier(self.group)

    def found(self) -> tuple[Path, dict[str, Any]] | None:
        """The last save that is whole, whatever number of processes wrote it, and its place; or None.

        Raises UserError, on every process, where a file of it is missing or has other bytes than were written.
        """
        return first(self._found)  # by one for all: it reads every byte

    def load(self, save: Path, model: Transformer, adamw: AdamW) -> None:
        """Go back to a save that `found` gave: the format's own index is a pickle, and is read unchecked."""
        dcp.load(tensors(model, adamw), storage_reader=FileSystemReader(save), process_group=self.group)

    def remove(self) -> None:
        """Remove all saves; the first process calls it, after `finish`."""
        for save in _saves(self.folder):
            shutil.rmtree(save)

    def _found(self) -> tuple[Path, dict[str, Any]] | None:
        saves = _saves(self.folder)
        if not saves:
            return None
        place = _checked(saves[-1])
        if place is None:
            raise UserError(
                f"{saves[-1]}: truncated or foreign checkpoint (its sha256 do not hold); "
                "delete it to train this run from its start"
            )
        return saves[-1], place


def tensors(model: Transformer, adamw: AdamW) -> dict[str, Tensor]:
    """Weights, moments and step counts by global name; moments that do not exist yet are made, as zeros."""
    by_name: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        state = adamw.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state.update({moment: torch.zeros_like(parameter.detach()) for moment in MOMENTS})
        by_name[f"model.{name}"] = parameter.detach()
        by_name |= {f"{moment}.{name}": state[moment] for moment in MOMENTS}
        by_name[f"step.{name}"] = state["step"]
    return by_name


def _then(result: "Future[Any]", act: Any) -> "Future[Any]":
    """A future of `act()`, which runs as soon as `result` is there."""
    after: Future[Any] = Future()

    def run(done: "Future[Any]") -> None:
        try:
            done.result()
            after.set_result(act())
        except BaseException as error:
            after.set_exception(error)

    result.add_done_callback(run)
    return after


def _cause(failure: Any) -> OSError | None:
    """The OSError behind what a process says that it failed with: an exception and its trace."""
    return failure[0] if isinstance(failure[0], OSError) else None


def _saves(folder: Path) -> list[Path]:
    return sorted(folder.glob("saved-*"))


def _publish(temporary: Path, folder: Path, place: str) -> None:
    files = {path.name: file_digest(path) for path in sorted(temporary.iterdir())}
    with open(temporary / ABOUT, "w", encoding="utf-8") as file:
        json.dump({"files": files, "place": json.loads(place)}, file)
        file.flush()
        os.fsync(file.fileno())
    before = _saves(folder)
    # A name of its own: the last save stands until this one does.
    number = int(before[-1].name.removeprefix("saved-")) + 1 if before else 1
    os.replace(temporary, folder / f"saved-{number:09d}")
    for older in before:
        shutil.rmtree(older)


def _checked(folder: Path) -> dict[str, Any] | None:
    """The place of a save, or None unless all of its files hold what was written."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if all(file_digest(folder / name) == digest for name, digest in about["files"].items()):
            return about["place"]
    return None
