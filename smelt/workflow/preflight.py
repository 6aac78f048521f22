"""What is checked before a study starts: its results root, the disk and the memory.

Only the Snakefile uses it, when jobs are about to run on this machine.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from smelt.budgets.memory import all_params
from smelt.errors import UserError
from smelt.study.base import Study
from smelt.study.grid import GridStudy, Run

WEIGHT = 4  # bytes of a float32
TRAINING_STATE = 3 * WEIGHT  # a parameter's weight and its two moments
# Of a parameter while it is trained: weight, gradient, two moments, and the copy that a branch returns to.
TRAINING_COPIES = 4 * WEIGHT + TRAINING_STATE
PROCESS = 900_000_000  # bytes of Python, torch and one context's activations at desk sizes
CORPUS = 300_000_000  # bytes of packages, documents and shards
GIB = 2**30


def disk(run: Run, branch_jobs: bool = False) -> int:
    """Bytes that a run keeps: one float32 model for each branch and, with `branch_jobs`, the state that each
    of them branches off from. Links to them take none."""
    kept = WEIGHT + (TRAINING_STATE if branch_jobs else 0)
    return len(run.training.branch_steps) * kept * all_params(run.model)


def memory(run: Run) -> int:
    """Bytes that a training job takes at the most."""
    copies = TRAINING_COPIES + TRAINING_STATE  # a save holds a second state
    return PROCESS * run.training.processes + copies * all_params(run.model)


def check_machine(study: Study, waiting: Iterable[Run], jobs: int) -> None:
    """Raise UserError where the runs still to train need more disk or memory than there is.

    `jobs` is how many train at the same time.
    """
    runs = list(waiting)
    if not runs:
        return
    largest = sorted(all_params(run.model) for run in runs)[-jobs:]
    branch_jobs = isinstance(study, GridStudy) and study.branch_jobs
    needed = CORPUS + sum(disk(run, branch_jobs) for run in runs) + TRAINING_STATE * sum(largest)
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
