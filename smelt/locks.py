"""A folder that one process holds at a time."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from smelt.errors import UserError


@contextlib.contextmanager
def locked(folder: Path, work: str | None = None) -> Iterator[None]:
    """Hold `folder`, which is made where it is missing, for this process alone; a process that ends lets go of it.

    A lock that another process has is waited for. With `work`, what that process then does ("trains this run"),
    UserError is raised instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if work else 0))
        except BlockingIOError:
            raise UserError(
                f"{folder}: another process {work} (a stopped Snakemake may have left it); "
                "wait for it or end it, then start again"
            ) from None
        yield
