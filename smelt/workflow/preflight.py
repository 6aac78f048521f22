"""What is checked before a study starts: its results root, the disk and the memory.

Only the Snakefile uses it, when jobs are about to run on this machine.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from smelt.budgets.memory import checkpoint_bytes, model_bytes, state_bytes
from smelt.errors import UserError
from smelt.study.base import Study
from smelt.study.grid import GridStudy, Run

PROCESS = 900_000_000  # bytes of Python, torch and one context's activations at desk sizes
CORPUS = 300_000_000  # bytes of packages, documents and shards
GIB = 2**30


def disk(run: Run, branch_jobs: bool = False) -> int:
    """Bytes on disk of a run: one float32 model for each branch and, with `branch_jobs`, the checkpoint that the
    branch starts from. Hard links in the state folder need no extra space."""
    branch = model_bytes(run.model) + (checkpoint_bytes(run.model) if branch_jobs else 0)
    return len(run.training.branch_steps) * branch


def memory(run: Run) -> int:
    """Largest memory of a training job in bytes: its state, the copy that a branch returns to, and a save."""
    return PROCESS * run.training.processes + state_bytes(run.model) + 2 * checkpoint_bytes(run.model)


def check_machine(study: Study, waiting: Iterable[Run], jobs: int) -> None:
    """Raise UserError where the runs still to train need more disk or memory than there is.

    `jobs` is how many train at the same time.
    """
    runs = list(waiting)
    if not runs:
        return
    saves = sorted(checkpoint_bytes(run.model) for run in runs)[-jobs:]
    branch_jobs = isinstance(study, GridStudy) and study.branch_jobs
    needed = CORPUS + sum(disk(run, branch_jobs) for run in runs) + sum(saves)
    place = next(folder for folder in (Path(study.root), *Path(study.root).parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            f"study {study.name} needs {needed / GIB:.1f} GiB of disk under {study.root}/ and {free / GIB:.1f} GiB are "
            "free; free some, or train fewer cells (grid.exclude) or branches (training.branch_steps)"
        )
    wanted, available = sum(sorted(map(memory, runs))[-jobs:]), _available_memory()
    if available is not None and available < wanted:
        raise UserError(
            f"study {study.name} needs {wanted / GIB:.1f} GiB of memory to train {min(jobs, len(runs))} runs at a time "
            f"and {available / GIB:.1f} GiB are free; give snakemake fewer --cores"
        )


def _available_memory() -> int | None:
    """Bytes that a new process may take, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)
