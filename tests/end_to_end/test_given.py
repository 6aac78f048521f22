"""Studies whose endpoints are given: which jobs they have, what runs again, and the example from end to end."""

import csv
import subprocess
import sys

import pytest

from tests.end_to_end.conftest import DONE, ROOT, Workspace, expected, finished_once

EXAMPLE = "config/examples/own.yaml"
TRAINING = {
    "fetch",
    "documents",
    "tokenizer",
    "shard",
    "heldout",
    "corpus_summary",
    "budget_tables",
    "train",
    "heldout_loss",
    "collect",
}
FITS = ["fit", "gain", "sensitivity"]
ISO = ["iso_loss_gain"]
TABLES_AND_FIGURES = ["scaling_tables", "sensitivity_tables", "scaling_figures"]


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Workspace:
    """The example, made small, run to its end."""
    return finished_once(tmp_path_factory, "given", EXAMPLE, scaling={"bootstrap_draws": 50, "fit_starts": 4})


@pytest.fixture
def workspace(finished, tmp_path) -> Workspace:
    return finished.copy(tmp_path / "clone")


def rows(workspace: Workspace, name: str) -> list[dict[str, str]]:
    with (workspace.results / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("study", "first"), [("published", "simulate"), (EXAMPLE, "user_table")])
def test_no_job_trains(tmp_path, study, first):
    jobs = {job.split()[0] for job in Workspace.cloned(tmp_path / "clone", study).waiting()}
    assert first in jobs
    assert jobs >= {*FITS, *ISO, *TABLES_AND_FIGURES}
    assert not jobs & {*TRAINING, "endpoints", "training_curves", "breakdown"}


def test_reading_a_study_loads_no_torch():
    code = "import sys; from smelt.study import load; from smelt.workflow import preflight, specs; "
    code += "load.read(load.find('published'))"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_from_a_file_of_endpoints_to_a_gain_with_an_interval(finished):
    assert DONE in finished.run("--dry-run")
    gains = rows(finished, "ce_gain")
    assert [(row["budget_flops"], row["sparsity"]) for row in gains] == [
        (budget, label) for budget in ("1e+20", "1e+21") for label in ("S85", "S95", "S97")
    ]
    for row in gains:
        assert float(row["gain_low"]) < float(row["gain"]) < float(row["gain_high"])
        assert (row["s_convention"], row["endpoints"]) == ("given", "144")
    last = [row for row in rows(finished, "iso_loss_gain") if row["horizon"] == "6" and row["kind"] == "all"]
    assert [(row["gain"][:5], row["cells"], row["endpoints"], row["resolved"]) for row in last] == [
        ("0.219", "12", "144", "true")
    ]
    assert last[0]["source"] == "simulated from the published surfaces, with noise"
    assert [row["architecture"] for row in rows(finished, "coefficients")] == ["baseline", "smelt"]
    assert {row["source"] for row in rows(finished, "endpoints")} == {
        "simulated from the published surfaces, with noise"
    }
    assert (finished.results / "figures" / "frontiers.pdf").exists()
    assert (finished.results / "study").read_text() == f"{EXAMPLE}\n"
    places = [name for name, data in finished.artifacts().items() if str(finished.folder).encode() in data]
    assert places == []


@pytest.mark.slow
def test_one_architecture_has_a_surface_and_a_frontier_and_no_gain(finished, tmp_path):
    workspace = finished.copy(tmp_path / "clone", linked=False)
    table = workspace.folder / "config/examples/endpoints.csv"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    workspace.write(table, "".join(line for line in lines if not line.startswith("baseline")))
    workspace.change(scaling={"reference": ""})
    workspace.finish(cores=1)
    assert rows(workspace, "ce_gain") == rows(workspace, "iso_loss_gain") == []
    assert [row["architecture"] for row in rows(workspace, "coefficients")] == ["smelt"]
    assert {row["architecture"] for row in rows(workspace, "allocation")} == {"smelt"}


def test_another_place_and_new_time_stamps_rerun_nothing(workspace):
    for path in workspace.folder.rglob("*.csv"):
        path.touch()
    workspace.study.touch()
    assert workspace.waiting() == []


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        ({"bootstrap_draws": 60}, [*FITS, *TABLES_AND_FIGURES]),
        ({"sparsities": {"S85": 0.845}}, [*FITS, *TABLES_AND_FIGURES]),
        ({"s_convention": "own"}, ["user_table", *FITS, *ISO, *TABLES_AND_FIGURES]),
    ],
)
def test_a_setting_reruns_what_uses_it(workspace, change, jobs):
    workspace.change(scaling=change)
    assert workspace.waiting() == expected(jobs)


def test_an_edited_endpoint_reruns_all(workspace):
    workspace.edit("config/examples/endpoints.csv", ",2.3180,", ",2.3181,")
    assert workspace.waiting() == expected("user_table", FITS, ISO, TABLES_AND_FIGURES)


@pytest.mark.slow
def test_noise_reruns_all(tmp_path):
    study = Workspace.cloned(tmp_path / "clone", "published")
    study.change(scaling={"bootstrap_draws": 20, "fit_starts": 2})
    study.run("--cores", "1", "results/published/scaling/ce_gain.parquet")
    target = "results/published/scaling/ce_gain.parquet"
    assert study.waiting(target) == []
    config = study.study.read_text(encoding="utf-8")
    study.write(study.study, config.replace("simulation:\n", "simulation:\n  noise: 1.0\n"))
    assert study.waiting(target) == ["fit", "gain", "simulate"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "20485760000",
            "20.5",
            "endpoints.csv: row 2 (the header is row 1), column tokens: 20.5; tokens are counted one",
        ),
        ("flops_per_token", "flops", "endpoints.csv: unknown column 'flops'; did you mean 'flops_per_token'?"),
    ],
)
def test_a_mistake_in_the_file_shows_before_any_job(workspace, old, new, words):
    table = workspace.folder / "config/examples/endpoints.csv"
    workspace.write(table, table.read_text(encoding="utf-8").replace(old, new, 1))
    result = workspace.call("--cores", "1")
    assert result.returncode == 1
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert line.startswith("error: ")
    assert words in line
