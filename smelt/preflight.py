"""What is checked before a study starts: its results root, the disk and the memory.

Only the Snakefile uses it, when jobs are about to run on this machine.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from smelt.artifacts import replacing
from smelt.budgets.memory import all_params
from smelt.errors import UserError
from smelt.grid import GridStudy, Run
from smelt.study import CONFIG, is_study
from smelt.study_file import Study

WEIGHT = 4  # bytes of a float32
TRAINING_STATE = 3 * WEIGHT  # a parameter's weight and its two moments
# Of a parameter while it is trained: weight, gradient, two moments, and the copy that a branch returns to.
TRAINING_COPIES = 4 * WEIGHT + TRAINING_STATE
PROCESS = 900_000_000  # bytes of Python, torch and one context's activations at desk sizes
CORPUS = 300_000_000  # bytes of packages, documents and shards
GIB = 2**30
RECORD = "study"  # file in a results root: the path of the study that it belongs to


def disk(run: Run, apart: bool = False) -> int:
    """Bytes that a run keeps: one float32 model for each branch and, where decays are jobs of their own (`apart`), the
    state that each of them leaves from. Links to them take none."""
    kept = WEIGHT + (TRAINING_STATE if apart else 0)
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
    apart = isinstance(study, GridStudy) and study.apart
    needed = CORPUS + sum(disk(run, apart) for run in runs) + TRAINING_STATE * sum(largest)
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


def check_root(study: Study) -> None:
    """Raise UserError where the study's results root is that of a study of config/, or holds another one's results."""
    shipped = CONFIG / f"{study.name}.yaml"
    if shipped.is_file() and is_study(shipped) and study.path.resolve() != shipped.resolve():
        raise UserError(
            f"{study.path}: name: {study.name} is that of config/{shipped.name}, whose results go to {study.root}/; "
            "give it another name"
        )
    other = _recorded(study)
    if other not in ("", _identity(study)) and (CONFIG.parent / other).exists():
        raise UserError(
            f"{study.root}/ holds the results of {other}, and {study.path} has the same name; "
            "give it another `name:`, or move those results away"
        )


def claim_root(study: Study) -> None:
    """Record in its results root which study it holds, after `check_root`."""
    check_root(study)
    if _recorded(study) != _identity(study):
        with replacing(Path(study.root, RECORD)) as temporary:
            temporary.write_text(_identity(study) + "\n", encoding="utf-8")


def _recorded(study: Study) -> str:
    record = Path(study.root, RECORD)
    return record.read_text(encoding="utf-8").strip() if record.exists() else ""


def _identity(study: Study) -> str:
    """Where the study's file is, from the workflow's folder where it lies inside."""
    path = study.path.resolve()
    return path.relative_to(CONFIG.parent).as_posix() if path.is_relative_to(CONFIG.parent) else os.fspath(path)
