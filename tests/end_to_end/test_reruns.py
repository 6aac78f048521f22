"""What runs again after a change: dry runs on a finished smoke study, the jobs counted and named."""

import os
import random
import re

import pytest

from tests.end_to_end.conftest import DONE, expected

CELLS = ("H16-S85", "H16-S90", "H24-S85")
RUNS = [f"{architecture}-{cell}" for cell in CELLS for architecture in ("baseline", "smelt")]
TABLES_AND_FIGURES = ["scaling_tables", "scaling_figures"]
OTHER_CHOICES = ["sensitivity", "sensitivity_tables"]
PARTS = ["subset_tables", "subset_figures"]
FITS = ["fit", "gain", "subsets", *OTHER_CHOICES]
LOGS = ["training_curves", "health"]
POOLED = ["collect", "breakdown", "length", "iso_loss_gain", *FITS, *TABLES_AND_FIGURES, *PARTS]


def trained(*runs: str) -> list[str]:
    """The jobs of runs that are trained: each is trained and evaluated once, and what is made of all logs."""
    return [f"{rule} {run}" for run in runs for rule in ("train", "heldout_loss")] + LOGS


def evaluated(*runs: str) -> list[str]:
    return [f"heldout_loss {run}" for run in runs]


def test_nothing_is_left_to_do(finished):
    assert finished.waiting() == []
    assert DONE in finished.run("--dry-run")


def test_all_results_stand(finished):
    names = finished.artifacts().keys()
    assert {name for name in names if name.startswith("training/") and name.endswith(".safetensors")} == {
        f"training/{run}/branch-{branch}.safetensors" for run in RUNS for branch in (1, 2, 3)
    }
    answers = (
        "ce_gain",
        "iso_loss_gain",
        "coefficients",
        "allocation",
        "endpoints",
        "leave_one_out",
        "surface_pairs",
        "sensitivity",
    )
    for table in (*answers, "subsets", "length", "plan", "budgets", "corpus", "streams", "runs"):
        assert {f"tables/{table}.csv", f"tables/{table}.parquet"} <= names
    scaling = ("loss_by_compute", "surfaces", "reducible_loss", "frontiers", "gain_curve", "iso_loss_gain")
    for figure in (*scaling, "subsets", "quartiles", "length_profile", "training_curves"):
        assert {f"figures/{figure}.{kind}" for kind in ("pdf", "svg", "png")} <= names
    assert not list(finished.results.glob("state/*/*/"))  # a finished run leaves no checkpoint


def test_another_place_another_cache_and_new_time_stamps_rerun_nothing(finished, tmp_path, monkeypatch):
    clone = finished.copy(tmp_path / "another place", linked=False)
    rng = random.Random(1)
    for path in sorted(clone.folder.rglob("*")):
        if ".snakemake" not in path.parts:
            moment = finished.study.stat().st_mtime + rng.uniform(0, 3600)
            os.utime(path, (moment, moment))
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "other cache"))
    assert clone.waiting() == []


def test_reordered_keys_and_comments_rerun_nothing(workspace):
    workspace.edit("config/smoke.yaml", "  steps: 8\n", "  # as long as it takes\n")
    workspace.edit("config/smoke.yaml", "  save_interval: 2\n", "  save_interval: 2\n  steps: 8\n")
    workspace.edit("config/smoke.yaml", "scaling:\n  bootstrap_draws: 40\n  fit_starts: 8\n", "")
    workspace.edit("config/smoke.yaml", "grid:\n", "scaling: {fit_starts: 8, bootstrap_draws: 40}\n\ngrid:\n")
    assert workspace.waiting() == []


def test_one_runs_learning_rate(workspace):
    """Exactly that run, its evaluation, and what is pooled over runs."""
    workspace.change(runs={"smelt-H16-S85": {"learning_rate": 0.03}})
    jobs = workspace.waiting()
    assert jobs == expected("train smelt-H16-S85", "heldout_loss smelt-H16-S85", LOGS, POOLED)
    assert len(jobs) == 17
    workspace.change(runs={"smelt-H16-S85": {}})
    assert workspace.waiting() == []


def test_a_cells_setting_reruns_both_of_its_pair(workspace):
    workspace.change(cells={"H24-S85": {"warmup_steps": 3}})
    assert workspace.waiting() == expected(trained("baseline-H24-S85", "smelt-H24-S85"), POOLED)


def test_the_whole_grids_setting_reruns_every_run(workspace):
    workspace.change(training={"gradient_clip": 0.5})
    assert workspace.waiting() == expected(trained(*RUNS), POOLED)


def test_a_seed_more_trains_new_runs_only(workspace):
    workspace.change(seeds=[0, 1])
    shards = [f"shard stable-seed1 {number:05d}" for number in range(4)] + ["shard decay-seed1 00000"]
    assert workspace.waiting() == expected(trained(*(f"{run}-seed1" for run in RUNS)), shards, "plan", POOLED)


def test_a_cell_more_trains_its_pair_only(workspace):
    workspace.change(grid={"exclude": []})
    assert workspace.waiting() == expected(
        trained("baseline-H24-S90", "smelt-H24-S90"), "plan", "budget_tables", POOLED
    )


def test_a_cell_less_trains_nothing(workspace):
    workspace.change(grid={"exclude": ["H24-S90", "H16-S90"]})
    assert workspace.waiting() == expected(LOGS, "plan", "budget_tables", POOLED)


def test_a_longer_run_packs_new_shards_only_and_retrains_no_other(workspace):
    workspace.change(runs={"smelt-H16-S85": {"steps": 12, "branch_steps": [2, 5, 12]}})
    assert workspace.waiting() == expected(
        trained("smelt-H16-S85"), "shard stable 00004", "shard stable 00005", "corpus_summary", "plan", POOLED
    )


def test_a_new_key_with_a_default_reruns_nothing(workspace):
    sections = {
        "file": ["Corpus"],
        "grid": ["Grid"],
        "evaluation": ["Evaluation"],
        "scaling": ["Comparison"],
        "training": ["Tuning"],
    }
    for file, classes in sections.items():
        path = workspace.folder / f"smelt/study/sections/{file}.py"
        text = path.read_text()
        for name in classes:
            text = re.sub(rf'(class {name}:\n    """.*"""\n)', r'\1    new_key: float = setting("New.", 0.5)\n', text)
        workspace.write(path, text)
    assert workspace.waiting() == []
    workspace.change(scaling={"new_key": 0.6})
    assert workspace.waiting() == []  # no job reads the key


@pytest.mark.parametrize(
    ("section", "change", "jobs"),
    [
        ("scaling", {"bootstrap_draws": 30}, [*FITS, "length", *TABLES_AND_FIGURES, *PARTS]),
        ("evaluation", {"precision": "float32"}, [*evaluated(*RUNS), *POOLED]),
        ("corpus", {"heldout_tokens": 500}, ["heldout", "corpus_summary", *evaluated(*RUNS), *POOLED]),
    ],
)
def test_a_stages_setting_reruns_that_stage_and_what_follows(workspace, section, change, jobs):
    workspace.change(**{section: change})
    assert workspace.waiting() == sorted(jobs)


@pytest.mark.parametrize(
    ("module", "jobs"),
    [
        ("corpus/summary", ["corpus_summary"]),
        ("corpus/contexts/heldout", ["heldout", "corpus_summary", *evaluated(*RUNS), *POOLED]),
        ("budgets/table", ["budget_tables"]),
        ("budgets/plan", ["plan"]),
        ("training/health", ["health"]),
        ("training/steps/step", [*trained(*RUNS), *POOLED]),
        ("model/transformer", [*trained(*RUNS), *POOLED]),
        ("model/execution", [*trained(*RUNS), "plan", "budget_tables", *POOLED]),
        ("evaluation/scoring/heldout_loss", [*evaluated(*RUNS), *POOLED]),
        ("scaling/endpoints/collect", POOLED),
        ("scaling/fitting/resampling", [*FITS, "length", *TABLES_AND_FIGURES, *PARTS]),
        ("scaling/fitting/refit", [*FITS, *TABLES_AND_FIGURES, *PARTS]),
        ("scaling/gains/gain", ["gain", "subsets", *TABLES_AND_FIGURES, *PARTS]),
        ("scaling/gains/iso_loss", ["iso_loss_gain", *TABLES_AND_FIGURES]),
        ("reporting/tables", ["scaling_tables", "sensitivity_tables", "subset_tables"]),
        ("reporting/style/page", ["scaling_figures", "subset_figures", "training_curves"]),
        ("scaling/endpoints/user_table", []),
        ("study/load", []),
        ("study/grid", []),
        ("study/endpoint_table", []),
        ("workflow/preflight", []),
    ],
)
def test_edited_code_reruns_what_it_reaches(workspace, module, jobs):
    """No edit behind the evaluation trains anything, and none of an earlier stage is passed over."""
    with_code(workspace, f"smelt/{module}.py", "\nEDITED = True\n")
    assert workspace.waiting() == sorted(jobs)


def test_edited_comments_and_docstrings_rerun_nothing(workspace):
    modules = ("training/trainer", "model/transformer", "artifacts", "corpus/contexts/shard", "scaling/fitting/fit")
    modules += ("reporting/style/page", "surfaces/frontier")
    for module in modules:
        path = workspace.folder / f"smelt/{module}.py"
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""')
        workspace.write(path, text.replace('"""', '"""In other words. ', 1) + "\n# A remark.\n")
    assert workspace.waiting() == []


def with_code(workspace, name: str, code: str) -> None:
    path = workspace.folder / name
    workspace.write(path, path.read_text(encoding="utf-8") + code)
