"""What share of a finished study went into Snakemake and into starting Python.

Reads the benchmark files of the study's jobs: each says how long its job ran and was written when the job
ended. Three things are counted as overhead: times in which no job ran, the wait of a core between one job and
the next (up to WAIT seconds: a longer one is a job that others depend on), and the imports at each job's start,
measured anew for each stage.

  python benchmarks/overhead.py results --cores 2 [--wall SECONDS, of the whole command, as `time` gives it]
"""

import argparse
import csv
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WAIT = 5.0
TORCH = {"training", "evaluation"}  # stages whose jobs load it


class Job(NamedTuple):
    start: float  # seconds since the epoch
    end: float
    stage: str


def read_jobs(results: Path) -> list[Job]:
    jobs = []
    for file in sorted((results / "benchmarks").rglob("*.tsv")):
        with file.open() as text:
            seconds = sum(float(row["s"]) for row in csv.DictReader(text, delimiter="\t"))
        end = file.stat().st_mtime
        jobs.append(Job(end - seconds, end, file.relative_to(results / "benchmarks").parts[0]))
    if not jobs:
        sys.exit(f"error: {results}/benchmarks holds no benchmark of a job; run the study first")
    return sorted(jobs)


def start_up(stage: str, repeats: int = 3) -> float:
    """Seconds until the slowest command of a stage has been imported."""
    rules = ROOT / "rules" / f"{stage}.smk"
    modules = set(re.findall(r"python -m (smelt\.[\w.]+)", rules.read_text())) if rules.exists() else set()
    extra = "import torch; " if stage in TORCH else ""
    slowest = 0.0
    for module in sorted(modules) or ["smelt"]:
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"{extra}import {module}"], cwd=ROOT, check=True)
            times.append(time.perf_counter() - start)
        slowest = max(slowest, min(times))
    return slowest


def no_job(jobs: list[Job]) -> float:
    """Seconds between the first start and the last end in which nothing ran."""
    idle, latest = 0.0, jobs[0].end
    for job in jobs:
        idle += max(0.0, job.start - latest)
        latest = max(latest, job.end)
    return idle


def handovers(jobs: list[Job]) -> float:
    """Core-seconds between the end of a job and the start of the next one on the same core, short waits only."""
    free: list[float] = []
    total = 0.0
    for when, order, job in sorted([(j.start, 1, j) for j in jobs] + [(j.end, 0, j) for j in jobs]):
        if order == 0:
            free.append(job.end)
        elif free:
            wait = when - free.pop()
            total += wait if wait <= WAIT else 0.0
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--wall", type=float, help="seconds of the whole command; first start to last end otherwise")
    arguments = parser.parse_args()
    jobs = read_jobs(arguments.results)
    span = max(job.end for job in jobs) - jobs[0].start
    wall = arguments.wall or span
    work = sum(job.end - job.start for job in jobs)
    imports = {stage: start_up(stage) for stage in sorted({job.stage for job in jobs})}
    starting = sum(imports[job.stage] for job in jobs)
    between = max(handovers(jobs) / arguments.cores, no_job(jobs))
    outside = max(0.0, wall - span)  # reading the workflow, and what follows the last job
    overhead = outside + between + starting / arguments.cores
    print(f"{len(jobs)} jobs, {wall:.1f} s on {arguments.cores} cores, {work:.1f} s of job time")
    print("imports a job: " + ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in imports.items()))
    print(f"before and after the jobs {outside:.1f} s, between jobs {between:.1f} s, imports {starting:.1f} core-s")
    print(f"overhead: {overhead / wall:.1%} of the wall time (target: below 10 %)")


if __name__ == "__main__":
    main()
