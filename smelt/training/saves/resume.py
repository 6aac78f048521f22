"""What a killed run resumes from.

An undeclared folder, so that Snakemake does not delete it with a failed job's outputs: one checkpoint
(weights, moments, step, log) and what is finished. The folder's name is the digest of what decides the bits in it;
a folder of another digest belongs to another spec and is removed. A killed Snakemake leaves its trainer running,
so the folder is locked.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from smelt.errors import UserError
from smelt.locks import locked

CHECKPOINT = "checkpoint.pt"
DIGEST = 32  # bytes of the sha256 behind it
PART = 2**24  # bytes that are read at a time


@contextlib.contextmanager
def state_folder(root: Path, digest: str) -> Iterator[Path]:
    """Yield the state folder of this digest under `root`, held by this process alone.

    Raises UserError where another process trains the same run.
    """
    with locked(root, "trains this run"):
        for other in root.iterdir():
            if other.is_dir() and other.name != digest:
                shutil.rmtree(other)
        folder = root / digest
        folder.mkdir(exist_ok=True)
        yield folder


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write the checkpoint, append its SHA-256, then rename it.

    The previous checkpoint stays valid until the new one is complete.
    """
    temporary = folder / f".{CHECKPOINT}.tmp"
    try:
        with open(temporary, "w+b") as file:
            try:
                torch.save(state, file)
            except RuntimeError as error:  # torch's own, on top of what the file said
                raise error.__context__ if isinstance(error.__context__, OSError) else error from None
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").digest()
            file.seek(0, os.SEEK_END)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / CHECKPOINT)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(folder: Path) -> dict[str, Any] | None:
    """The checkpoint in `folder`, or None. Raises UserError where it is truncated or not ours."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    if not _holds(path):
        raise UserError(
            f"{path}: truncated or foreign checkpoint (its sha256 does not hold); "
            "delete it to train this run from its start"
        )
    return torch.load(path, weights_only=True, mmap=True)  # the digest behind the archive does not disturb it


def _holds(path: Path) -> bool:
    """Whether the digest at the end of a file is that of the bytes before it."""
    left, digest = path.stat().st_size - DIGEST, hashlib.sha256()
    with open(path, "rb") as file:
        while left > 0:
            part = file.read(min(left, PART))
            digest.update(part)
            left -= len(part)
        return file.read() == digest.digest()


def forget(folder: Path) -> None:
    """Remove the checkpoint alone."""
    (folder / CHECKPOINT).unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Remove the state of a finished run, the checkpoint first: without it a kill midway leaves nothing to trust."""
    forget(folder)
    shutil.rmtree(folder)
