"""The same bytes from scratch, and after kills at moments that nobody chose."""

import random
import re
import time
from collections.abc import Callable

import pytest

from tests.end_to_end.conftest import Workspace, kill_session

KINDS = {"csv", "json", "parquet", "pdf", "png", "safetensors", "svg", ""}  # the last: the record of the study
PATIENCE = 300  # seconds until a moment must have come
RUNS, STEPS = 6, 8
CORPUS_JOBS = ("documents", "tokenizer", "stable-00001", "heldout")


def differing(one: Workspace, other: Workspace) -> list[str]:
    """Names of the results that are not the same bytes in both, or not in both."""
    first, second = one.artifacts(), other.artifacts()
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def test_results_name_no_place_and_no_machine(finished):
    places = [str(finished.folder).encode(), b"/tmp/", b"/home/"]
    contents = finished.artifacts()
    assert {name.rpartition(".")[2] if "." in name else "" for name in contents} == KINDS
    # Documents are other people's text, which may name any path.
    own = {name: data for name, data in contents.items() if not name.startswith("corpus/")}
    assert [name for name, data in own.items() if any(place in data for place in places)] == []
    assert [name for name, data in contents.items() if places[0] in data] == []


@pytest.mark.slow
def test_another_run_from_scratch_has_the_same_bytes(finished, tmp_path):
    """At another place, on another number of cores."""
    again = finished.copy(tmp_path / "another place", linked=False, results=False)
    again.finish(cores=1)
    assert again.artifacts().keys() == finished.artifacts().keys()
    assert differing(finished, again) == []


def kill_when(workspace: Workspace, moment: Callable[[], bool], delay: float = 0.0) -> None:
    """Start the study, wait for a moment, and kill Snakemake and all its jobs with SIGKILL."""
    with workspace.started("--cores", "2") as process:
        deadline = time.monotonic() + PATIENCE
        while not moment():
            assert process.poll() is None, "the study ended before the moment came"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(delay)
        kill_session(process.pid)
        assert process.wait() < 0
    workspace.run("--unlock")


def steps_logged(workspace: Workspace) -> int:
    """Stable steps that the training logs tell of."""
    logs = workspace.results.glob("logs/training/*.log")
    return sum(len(re.findall(r"step \d+ of", log.read_text())) for log in logs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_kills_leave_no_trace(finished, tmp_path, seed):
    """Once while the corpus is built and three times in training, each time resumed by the plain command."""
    rng = random.Random(seed)
    killed = finished.copy(tmp_path / "killed", linked=False, results=False)

    job = killed.results / f"logs/corpus/{rng.choice(CORPUS_JOBS)}.log"
    kill_when(killed, job.exists, delay=rng.uniform(0, 0.3))
    assert not (killed.results / "scaling").exists()

    resumed = False
    for _ in range(3):
        for log in killed.results.glob("logs/training/*.log"):
            log.unlink()  # so that only the steps of this start are counted
        steps = rng.randint(1, RUNS * STEPS // 4)
        kill_when(killed, lambda steps=steps: steps_logged(killed) >= steps)
        resumed |= any(killed.results.glob("state/*/*/checkpoint.pt"))
        assert not (killed.results / "scaling").exists()
    assert resumed, "no kill came between a save and the end of a run; take another seed"

    killed.finish()
    assert differing(finished, killed) == []
    assert not list(killed.results.glob("state/*/*/"))
    assert killed.waiting() == []
