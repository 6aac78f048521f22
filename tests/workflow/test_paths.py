"""Where files lie and which tables a study has, asked without Snakemake."""

from types import SimpleNamespace

import pytest
import yaml

from smelt.study import load as studies
from smelt.study import tasks
from smelt.workflow import paper, specs, targets
from smelt.workflow.job_specs import Specs
from smelt.workflow.paths import NEVER, UNUSED, Paths
from tests.workflow.parsed import ROOT


def study(name):
    return studies.read(studies.find(name))


def paths(name):
    return Paths(study(name), ROOT, "cache")


def test_one_of_three_rules_writes_the_endpoints():
    for name, writer in (("smoke", "collect"), ("published", "simulate"), ("config/examples/own.yaml", "user_table")):
        one = paths(str(ROOT / name) if "/" in name else name)
        writers = {rule: one.pathvars[rule] for rule in ("collect", "simulate", "user_table")}
        assert writers.pop(writer) == f"{one.results}/scaling"
        assert all(folder.startswith(f"{one.results}/{UNUSED}/") for folder in writers.values())


def test_one_of_two_forms_trains():
    one = paths("smoke").pathvars
    assert (one["run_jobs"], one["branch_jobs"]) == ("results/smoke/training", "results/smoke/unused/branch_jobs")
    one = paths("paper").pathvars
    assert (one["run_jobs"], one["branch_jobs"]) == ("results/paper/unused/run_jobs", "results/paper/training")


def test_runs_and_shards_of_a_grid():
    one = paths("smoke")
    assert len(one.trained) == 6
    assert list(one.branches) == [1, 2, 3]
    wildcards = SimpleNamespace(run="smelt-H16-S85", stream="stable", shard="00001")
    assert one.run_shards("stable")(wildcards) == [
        f"results/smoke/corpus/stable/shard-{number:05d}.parquet" for number in range(4)
    ]  # eight steps of one context, two contexts a shard
    assert one.previous_shard(wildcards) == ["results/smoke/corpus/stable/shard-00000.parquet"]
    assert one.previous_shard(SimpleNamespace(stream="stable", shard="00000")) == []
    logs = one.of_runs("training/{run}/log.parquet")(wildcards)
    assert logs[0] == "results/smoke/training/baseline-H16-S85/log.parquet"


def test_each_seed_reads_shards_of_its_own(tmp_path):
    config = yaml.safe_load(studies.find("smoke").read_text()) | {"name": "two", "seeds": [3, 0]}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(config))
    one = paths(str(tmp_path / "two.yaml"))
    seeds = {seed: SimpleNamespace(run=f"smelt-H16-S85{seed}") for seed in ("", "-seed3")}
    for seed, wildcards in seeds.items():
        names = [f"results/two/corpus/decay{seed}/shard-00000.parquet"]
        assert one.run_shards("decay")(wildcards) == names
    assert one.all_shards("decay")(None) == names  # of the first seed that the study names
    assert one.contexts_needed("stable-seed3") == one.contexts_needed("stable") == 8
    assert one.previous_shard(SimpleNamespace(stream="stable-seed3", shard="00001")) == [
        "results/two/corpus/stable-seed3/shard-00000.parquet"
    ]


def test_a_study_that_trains_nothing_has_no_runs():
    one = paths("published")
    assert (one.runs, one.trained, list(one.branches), one.run_pattern) == ({}, [], [], NEVER)
    assert (one.models, one.contexts_needed("stable")) == ([], 0)
    assert [path.split("config/")[1] for path in one.table] == ["published/endpoints.csv"]


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("published", lambda one: one.of_runs("{run}"), "its endpoints are given"),
        ("published", lambda one: one.all_shards("stable"), "its endpoints are given"),
        ("published", lambda one: one.item_files, "its endpoints are given"),
        ("published", lambda one: one.scores, "no downstream scores"),
        ("smoke", lambda one: one.requests("all_endpoints"), r"evaluation\.tasks is empty"),
        ("smoke", lambda one: one.item_files, r"evaluation\.tasks is empty"),
        ("smoke", lambda one: one.scores, "no downstream scores"),
    ],
)
def test_files_that_a_study_lacks_end_with_one_line_when_they_are_asked_for(name, files, message):
    one = paths(name)
    with pytest.raises(SystemExit, match=rf"^error: .*/{name}\.yaml: .*{message}"):
        files(one)(SimpleNamespace(part="all_endpoints"))


def test_requests_of_a_study_with_tasks():
    one, wildcards = paths("desk"), SimpleNamespace(part="all_endpoints")
    assert one.requests("all_endpoints")(wildcards) == ["results/evaluation/requests_all_endpoints.parquet"]
    assert one.item_files(wildcards) == list(tasks.files(one.study).values())
    assert one.scores(wildcards) == "results/evaluation/calibration_scores.parquet"


def test_state_may_lie_outside(monkeypatch):
    assert paths("smoke").state == "results/smoke/state"
    monkeypatch.setenv("SMELT_STATE", "/scratch")
    assert paths("smoke").state == "/scratch/smoke"


@pytest.mark.parametrize(
    ("name", "tables", "figures"),
    [
        ("published", [*targets.ANSWERS, "sensitivity", "paper_comparison"], targets.FIGURES),
        (
            "tune",
            ["learning_rate", "plan", "budgets", "corpus", "streams", "runs"],
            ["learning_rate", "training_curves"],
        ),
    ],
)
def test_tables_and_figures_of_a_study(name, tables, figures):
    assert targets.tables(study(name)) == tables
    assert targets.figures(study(name)) == figures


def test_a_grid_has_tables_of_every_stage():
    tables, figures = targets.tables(study("desk")), targets.figures(study("desk"))
    assert {"ce_gain", "sensitivity", "subsets", "core", "icl", "calibration", "budgets", "runs"} <= set(tables)
    assert {"gain_curve", "quartiles", "downstream", "icl", "calibration", "training_curves"} <= set(figures)
    assert len(tables) == len(set(tables))
    assert targets.figure_files(["icl"]) == [f"<results>/figures/icl.{kind}" for kind in ("pdf", "svg", "png")]


def test_ablations_take_the_place_of_fits():
    one = study("ablations")
    names = targets.ablations(one)
    assert names
    assert targets.scaling_tables(one) == [*names, "endpoints"]
    assert not targets.fits(one)
    assert "ce_gain" not in targets.tables(one)


def test_only_the_paper_s_study_or_its_surfaces_are_compared_with_the_paper():
    assert paper.source(study("paper")) == "measured"
    assert paper.source(study("published")) == "simulated"
    assert paper.source(study("smoke")) == "other"
    assert "tables/budgets.parquet" in targets.compared_tables(study("paper"))


def test_a_spec_of_training_in_a_study_that_trains_nothing_ends_with_one_line():
    with pytest.raises(SystemExit, match=r"published\.yaml: its endpoints are given"):
        Specs(study("published")).of(specs.budgets)(SimpleNamespace())
