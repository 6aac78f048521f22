"""What goes wrong ends in one line that a person can act on, and leaves nothing half done."""

import pytest

from tests.end_to_end.conftest import Workspace


@pytest.fixture
def fresh(finished, tmp_path) -> Workspace:
    """A clone without results."""
    return finished.copy(tmp_path / "clone", results=False)


def mistake(workspace: Workspace, *arguments: str, study: str = "smoke") -> str:
    """The error line of a command that a mistake ends; checks that it is the only word on it."""
    result = workspace.call(*arguments, study=study)
    assert result.returncode == 1
    said = result.stderr.splitlines()
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    # Snakemake itself says first which profile it uses.
    (line,) = [line for line in said if not line.startswith("Using workflow specific profile")]
    assert not workspace.results.exists()
    return line


def test_an_unknown_study(fresh):
    line = mistake(fresh, "--dry-run", study="nosuch")
    assert line.startswith("error: study=nosuch: no file ")
    assert "one of " in line
    assert " desk, " in line


def test_a_mistake_in_the_study_file(fresh):
    """Also where jobs were asked for."""
    fresh.edit("config/smoke.yaml", "  steps: 8\n", "  stps: 8\n")
    line = mistake(fresh, "--cores", "2")
    assert line.endswith("/config/smoke.yaml: training: unknown key 'stps'; did you mean 'steps'?")


def test_a_table_of_sources_that_is_not_there(fresh):
    fresh.edit("config/smoke.yaml", "sources/desk.tsv", "sources/mine.tsv")
    assert "corpus.sources: no file config/sources/mine.tsv" in mistake(fresh, "--dry-run")


@pytest.mark.parametrize(
    ("study", "target", "words"),
    [
        ("smoke", "evaluation/core.parquet", "evaluation.tasks is empty"),
        ("smoke", "scaling/calibration.parquet", "no downstream scores"),
        ("published", "tables/costs.csv", "its endpoints are given"),
        ("published", "tables/corpus.csv", "its endpoints are given"),
        ("published", "figures/training_curves.pdf", "its endpoints are given"),
    ],
)
def test_a_target_of_another_study(fresh, study, target, words):
    """Before any job runs, and not in the log of one that follows a training."""
    result = fresh.call("--dry-run", f"results/{study}/{target}", study=study)
    assert result.returncode == 1
    assert "rule " not in result.stdout
    said = result.stdout + result.stderr
    (line,) = [line for line in said.splitlines() if "rror" in line or "Traceback" in line]
    assert line.startswith("error: ")
    assert words in line


@pytest.mark.slow
def test_a_run_that_diverges_fails_alone(finished, tmp_path):
    """One run's loss is not finite; it leaves no endpoint and one line, and the run beside it is trained."""
    workspace = finished.copy(tmp_path / "clone", linked=False)
    before = workspace.artifacts()
    short = {"steps": 3, "branch_steps": [1, 2, 3], "decay_steps": 1, "warmup_steps": 1}
    workspace.change(runs={"smelt-H16-S85": {"learning_rate": 1.0e30, "warmup_steps": 0}, "baseline-H16-S85": short})
    result = workspace.call("--cores", "2", "--keep-going")
    assert result.returncode == 1

    log = (workspace.results / "logs/training/smelt-H16-S85.log").read_text()
    assert "Traceback" not in log
    (line,) = [line for line in log.splitlines() if "error" in line.lower()]
    assert line.startswith("error: step ")
    assert "no endpoint is written. Lower training.learning_rate" in line
    assert line in result.stdout + result.stderr  # shown where the person looks
    assert not list(workspace.results.glob("training/smelt-H16-S85/*"))
    assert not list(workspace.results.glob("state/smelt-H16-S85/*/*.safetensors"))

    after = workspace.artifacts()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    changed -= {"tables/plan.csv", "tables/plan.parquet"}  # of the shorter run, made without training
    runs = {name.split("/")[1] for name in changed}
    assert all(name.split("/")[0] in ("training", "evaluation") for name in changed)
    assert runs == {"smelt-H16-S85", "baseline-H16-S85"}
    assert "evaluation/baseline-H16-S85/losses.parquet" in changed & after.keys()

    # With the rate mended, what has been done stays done.
    workspace.change(runs={"smelt-H16-S85": {"learning_rate": 0.01}, "baseline-H16-S85": short})
    waiting = workspace.waiting()
    assert "train smelt-H16-S85" in waiting
    assert not any(job.endswith(" baseline-H16-S85") for job in waiting)
