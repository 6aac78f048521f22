"""A study whose decays are jobs of their own: the same results, and what runs again after a change."""

import re

import pytest

from tests.end_to_end.conftest import Workspace
from tests.end_to_end.test_reruns import RUNS

BRANCHES = (1, 2, 3)
TRAINING = ("stable", "decay", "join")


def training_jobs(workspace: Workspace) -> list[str]:
    """The jobs of training that wait."""
    return [job for job in workspace.waiting() if job.split()[0] in (*TRAINING, "train")]


def decays(*runs: str, branches=BRANCHES) -> list[str]:
    return [f"decay {run} {branch}" for run in runs for branch in branches]


def phases(*runs: str) -> list[str]:
    return [f"{rule} {run}" for rule in ("stable", "join") for run in runs]


def test_each_decay_is_a_job(workspace):
    workspace.change(training={"jobs": "branch"})
    assert training_jobs(workspace) == sorted([*phases(*RUNS), *decays(*RUNS)])


def test_every_job_that_trains_starts_as_many_processes_as_asked(workspace):
    workspace.change(training={"jobs": "branch", "batch_contexts": 2, "processes": 2})
    said = workspace.run("--dry-run", "--printshellcmds")
    started = re.findall(r"--nproc-per-node 2 -m -- smelt.training.(\w+) ", said)
    assert {job: started.count(job) for job in started} == {"stable": len(RUNS), "decay": len(RUNS) * len(BRANCHES)}


@pytest.mark.slow
def test_a_study_trained_apart_has_the_same_bytes(finished, tmp_path):
    """And one more branch step for all runs trains no stable step again but those behind the nearest checkpoint."""
    apart = finished.copy(tmp_path / "apart", linked=False)
    apart.change(training={"jobs": "branch"})
    target = "results/smoke/tables/runs.csv"
    apart.run("--cores", "2", target)
    before, after = finished.artifacts(), apart.artifacts()
    endpoints = [f"training/{run}/branch-{branch}.safetensors" for run in RUNS for branch in BRANCHES]
    for name in [*endpoints, *(f"training/{run}/log.parquet" for run in RUNS), "tables/runs.csv"]:
        assert after[name] == before[name], name
    assert not training_jobs(apart)

    apart.change(runs={"smelt-H16-S85": {"learning_rate": 0.03}})
    assert training_jobs(apart) == sorted([*phases("smelt-H16-S85"), *decays("smelt-H16-S85")])
    apart.change(runs={"smelt-H16-S85": {}})

    apart.change(training={"branch_steps": [2, 4, 5, 8]})
    logs = apart.results / "logs/training"
    apart.run("--cores", "2", target)
    told = {run: (logs / f"{run}.perf.jsonl").read_text().splitlines() for run in RUNS}
    assert {len(lines) for lines in told.values()} == {8 + 2}  # steps 3 and 4 once more, from step 2
    for run in RUNS:  # as they were, but for their number in the file's header
        weights = [apart.artifacts()[f"training/{run}/branch-{branch}.safetensors"] for branch in (1, 3, 4)]
        assert [data[-999:] for data in weights] == [before[name][-999:] for name in endpoints if f"/{run}/" in name]
