"""The smoke study through a real Slurm of one node, with a training cancelled and another requeued on the way."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from tests.end_to_end import one_node
from tests.end_to_end.conftest import Workspace, finished_once
from tests.end_to_end.test_determinism import differing

ASKED = "SMELT_SLURM"  # environment variable: the test writes /etc/slurm/slurm.conf and starts daemons
PLUGIN = "snakemake_executor_plugin_slurm"
PATIENCE = 900  # seconds until a moment must have come, on a busy machine
# One node has no accounts and no database of jobs, and its files are there at once.
SITE = """\
slurm-no-account: true
slurm-status-command: squeue
slurm-init-seconds-before-status-checks: 2
seconds-between-status-checks: 2
"""
# Behind the profile's own, which they win over: two cores, since a node with fewer than a job asks for never starts it.
OPTIONS = ("--workflow-profile", "profiles/slurm", "--profile", "site", "--cores", "2", "--latency-wait", "10")


def reason() -> str:
    """Why the test cannot run here; empty where it can."""
    if not os.environ.get(ASKED):
        return f"{ASKED} is not set; it lets the test start a Slurm on this machine"
    if importlib.util.find_spec(PLUGIN) is None:
        return 'the plugin is not installed: pip install -e ".[slurm]"'
    return one_node.missing()


class Training(NamedTuple):
    """A training that stands still after a save."""

    run: str
    job: str  # Slurm's number
    pid: int
    checkpoint: Path


@pytest.mark.slow
def test_smoke_study_survives_a_cancel_and_a_requeue(tmp_path_factory, tmp_path) -> None:
    """Bytes are those of a run on this machine; the cancelled job is another one, the requeued job the same."""
    if why := reason():
        pytest.skip(why)
    local = finished_once(tmp_path_factory, "smoke")
    cluster = local.copy(tmp_path / "cluster", linked=False, results=False)
    (cluster.folder / "site").mkdir()
    (cluster.folder / "site" / "profile.yaml").write_text(SITE, encoding="utf-8")

    said, slurm = tmp_path / "said", tmp_path / "slurm"
    slurm.mkdir()
    with one_node.one_node(slurm), open(said, "wb") as out, running(cluster, out) as snakemake:
        cancelled = stopped_training(cluster, snakemake, exclude="")
        scontrol("scancel", cancelled.job)
        wait(lambda: not alive(cancelled.pid), snakemake)
        assert cancelled.checkpoint.exists()

        requeued = stopped_training(cluster, snakemake, exclude=cancelled.run)
        scontrol("scontrol", "requeue", requeued.job)
        wait(lambda: not alive(requeued.pid), snakemake)
        assert requeued.checkpoint.exists()
        wait(lambda: "JobState=PENDING" in job(requeued.job), snakemake)
        scontrol("scontrol", "update", f"JobId={requeued.job}", "StartTime=now")

        assert snakemake.wait(PATIENCE) == 0, said.read_text()
        assert "JobState=CANCELLED" in job(cancelled.job)
        assert "JobState=COMPLETED" in job(requeued.job)
        assert "Restarts=1" in job(requeued.job)
    text = said.read_text()
    assert text.count("Trying to restart job") == 1, text
    for run in (cancelled.run, requeued.run):
        assert "resumed at step" in (cluster.results / f"logs/training/{run}.log").read_text()
    assert differing(local, cluster) == []
    # Rules of seconds share a job, and none is sent twice but the one that was cancelled.
    submitted, finished = text.count("has been submitted with SLURM jobid"), text.count("Finished jobid")
    assert submitted < 0.7 * finished, text
    assert not list(cluster.results.glob("state/*/*/"))


@contextlib.contextmanager
def running(workspace: Workspace, out: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Snakemake on the cluster; it is killed at the end if it still runs, and its jobs by the end of the cluster."""
    process = subprocess.Popen(
        workspace.command(*OPTIONS),
        cwd=workspace.folder,
        env=workspace.environment(),
        stdout=out,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stopped_training(workspace: Workspace, snakemake: subprocess.Popen[bytes], exclude: str) -> Training:
    """Wait until a run other than `exclude` has saved its state, and stop its process, so that it does not end before
    Slurm's signal comes; Slurm sends SIGCONT before SIGTERM."""
    found: list[Training] = []

    def search() -> bool:
        for pid, run in trainers(workspace):
            saved = list(workspace.results.glob(f"state/{run}/*/checkpoint.pt"))
            if run != exclude and saved:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    found.append(Training(run, slurm_job(run), pid, saved[0]))
                    return True
        return False

    wait(search, snakemake)
    return found[0]


def trainers(workspace: Workspace) -> list[tuple[int, str]]:
    """Process and run of each training of this workspace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            trains = "-m" in words[1:2] and words[2].startswith("smelt.training.") and "--state" in words
            if trains and (entry / "cwd").readlink() == workspace.folder.resolve():
                found.append((int(entry.name), Path(words[words.index("--state") + 1]).name))
    return found


def slurm_job(run: str) -> str:
    """Number of the Slurm job that trains `run`: the plugin puts rule and wildcards into the comment."""
    for line in one_node.said("squeue", "-h", "-t", "R", "-o", "%i %k").splitlines():
        number, comment = line.split(" ", 1)
        if comment.endswith(f"_wildcards_{run}"):
            return number
    raise AssertionError(f"no job of {run}")


def alive(pid: int) -> bool:
    """Whether a process runs: one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def job(number: str) -> str:
    return one_node.said("scontrol", "show", "job", number)


def scontrol(*command: str) -> None:
    subprocess.run(command, check=True)


def wait(moment: Callable[[], bool], snakemake: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not moment():
        assert snakemake.poll() is None, "the study ended before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.01)
