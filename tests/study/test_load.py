"""A study file as its runs, and what each key does to them."""

import copy
import dataclasses

import pytest
import yaml

from smelt.budgets.ledger import budget
from smelt.errors import UserError
from smelt.spec import canonical_json, plain
from smelt.study import load as studies
from smelt.study.schema import study_schema
from smelt.workflow import scaling_specs, specs
from tests.study.conftest import REMOVED, SMOKE

STUDIES = sorted(path for path in studies.CONFIG.glob("*.yaml") if path.stem not in ("schema", "tasks"))
SHIPPED = [path for path in STUDIES if "grid:" in path.read_text(encoding="utf-8")]
JOBS = (specs.fetch, specs.documents, specs.tokenizer, specs.shard, specs.heldout, specs.evaluation, scaling_specs.fits)


def run_specs(study) -> dict[str, str]:
    """The settings of every training job and of the jobs that read other sections, as Snakemake compares them."""
    told = {run.id: specs.training(study, run) for run in study.runs.values()}
    told |= {job.__name__: job(study) for job in JOBS}
    return {name: canonical_json(plain(settings)) for name, settings in told.items()}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_study_is_valid(path):
    study = studies.read(path)
    assert study.name == path.stem
    assert study.trained
    assert studies.find(path.stem) == path
    for run in study.runs.values():
        reference = next(other for other in study.runs.values() if other.cell == run.cell)
        assert reference.architecture == study.reference
        mine, theirs = (budget(model, study.attention_keys) for model in (run.model, reference.model))
        tolerance = study.config["grid"]["tolerance"]
        assert mine.flops_per_token == pytest.approx(theirs.flops_per_token, rel=tolerance["flops"])
        assert mine.params == pytest.approx(theirs.params, rel=tolerance["params"])
        assert mine.kv_bytes_per_token == pytest.approx(theirs.kv_bytes_per_token, rel=tolerance["kv"])


def test_the_desk_grid_is_as_large_and_as_well_matched_as_it_says():
    study = studies.read(studies.CONFIG / "desk.yaml")
    assert len(study.trained) == 24
    assert sum(len(run.training.branch_steps) for run in study.trained) == 144
    assert {label for run in study.trained for label in [run.sparsity]} == {"S85", "S95", "S97"}
    tolerance = study.config["grid"]["tolerance"]
    assert tolerance["flops"] <= 0.015
    assert tolerance["params"] <= 0.005
    assert tolerance["kv"] <= 0.015
    assert study.config["corpus"]["context"] == 4096
    assert study.root == "results"


def test_smoke_runs(read):
    study = read()
    assert [run.id for run in study.trained] == [
        f"{architecture}-{cell}" for cell in ("H16-S85", "H16-S90", "H24-S85") for architecture in ("baseline", "smelt")
    ]
    assert set(study.runs) - {run.id for run in study.trained} == {
        f"{architecture}-{scale}-S0" for scale in ("H16", "H24") for architecture in ("baseline", "smelt")
    }
    assert study.root == "results/smoke"
    run = study.runs["smelt-H24-S85"]
    assert (run.model.visits, run.model.loop_start, run.model.loop_length) == (2, 1, 2)
    assert run.training.branch_steps == (2, 5, 8)
    assert run.contexts == {"stable": 8, "decay": 2}
    assert study.runs["baseline-H24-S0"].model == study.control("H24")
    assert study.sparsity_values == {"S0": 0.0, "S85": 0.85, "S90": 0.9}


def test_steps_follow_the_papers_proportions_where_left_out(read):
    study = read({"training/steps": 196_075, "training/branch_steps": REMOVED, "training/decay_steps": REMOVED})
    training = study.trained[0].training
    assert training.branch_steps == (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
    assert training.decay_steps == 9_537


def test_batches_multiply_the_contexts(read):
    assert read({"training/batch_contexts": 3}).trained[0].contexts == {"stable": 24, "decay": 6}


def rates(study) -> dict[str, float]:
    return {run.id: run.training.learning_rate for run in study.trained}


def test_learning_rates_by_architecture_and_scale(read):
    by_both = {"baseline": {"H16": 0.01, "H24": 0.02}, "smelt": {"H16": 0.03, "H24": 0.04}}
    assert rates(read({"training/learning_rate": by_both})) == {
        "baseline-H16-S85": 0.01,
        "smelt-H16-S85": 0.03,
        "baseline-H16-S90": 0.01,
        "smelt-H16-S90": 0.03,
        "baseline-H24-S85": 0.02,
        "smelt-H24-S85": 0.04,
    }
    by_architecture = rates(read({"training/learning_rate": {"baseline": 0.01, "smelt": 1}}))
    assert {(run.split("-")[0], rate) for run, rate in by_architecture.items()} == {("baseline", 0.01), ("smelt", 1.0)}


def test_a_shared_rate_is_the_references(read):
    by_both = {"baseline": {"H16": 0.01, "H24": 0.02}, "smelt": {"H16": 0.03, "H24": 0.04}}
    shared = rates(read({"training/learning_rate": by_both, "training/shared_learning_rate": True}))
    assert {run: rate for run, rate in shared.items() if run.startswith("smelt")} == {
        "smelt-H16-S85": 0.01,
        "smelt-H16-S90": 0.01,
        "smelt-H24-S85": 0.02,
    }
    assert set(rates(read({"training/shared_learning_rate": True})).values()) == {0.02}


def test_a_run_overrides_its_cell_and_a_cell_the_study(read):
    study = read(
        {
            "cells/H16-S85": {"learning_rate": 0.1, "warmup_steps": 2},
            "runs/smelt-H16-S85": {"learning_rate": 0.2},
        }
    )
    changed = {run.id: run.training for run in study.trained if run.training != read().runs[run.id].training}
    assert {run: (training.learning_rate, training.warmup_steps) for run, training in changed.items()} == {
        "baseline-H16-S85": (0.1, 2),
        "smelt-H16-S85": (0.2, 2),
    }


def test_seeds_are_runs_of_their_own(read):
    study = read({"seeds": [0, 3]})
    assert len(study.trained) == 12
    assert {run.id for run in study.trained if run.seed == 3} == {f"{run.id}-seed3" for run in read().trained}
    for run in study.trained:
        assert run.training.seed == run.seed
    one = {key: value for key, value in run_specs(study).items() if "seed" not in key}
    assert one == run_specs(read())


def test_seeds_and_rates_may_be_lists_by_scale(read):
    seeds = {(run.scale, run.seed) for run in read({"seeds": {"H16": [0], "H24": [0, 1]}}).trained}
    assert seeds == {("H16", 0), ("H24", 0), ("H24", 1)}
    sweep = read({"tuning/learning_rates": {"H16": [0.02, 0.04], "H24": [0.01]}})
    assert {(run.scale, run.rate, run.training.learning_rate) for run in sweep.trained} == {
        ("H16", 1, 0.02),
        ("H16", 2, 0.04),
        ("H24", 1, 0.01),
    }


def test_a_sweep_trains_each_run_at_each_rate(read):
    sweep = read({"tuning/learning_rates": [0.01, 0.02]})
    assert rates(sweep) == {
        f"{run.id}-rate{number}": rate for run in read().trained for number, rate in ((1, 0.01), (2, 0.02))
    }
    longer = read({"tuning/learning_rates": [0.01, 0.02, 0.04]})
    assert run_specs(longer).items() >= run_specs(sweep).items()  # a rate added behind trains only new runs


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [0]},
        {"corpus/context": 4096, "corpus/decay_share": 0.15},
        {"corpus/weights": {}},
        {"training/warmup_steps": 5, "training/gradient_clip": 1},
        {"grid/multiple": 8, "grid/active_experts": 8},
        {"grid/tolerance": {"kv": 0.04}},
        {"grid/attention_keys": 543.0},
        {"scaling/s_convention": "baseline", "scaling/compute_budgets": []},
        {"evaluation": {"precision": "bfloat16"}},
        {"cells": {}, "runs": {"smelt-H16-S85": {}}},
        {"runs/smelt-H16-S85": {"learning_rate": 0.02}},
        {"tuning": {"learning_rates": []}},
        {"grid/architectures/baseline": {"visits": 1}},
        {"grid/architectures/smelt/span": [1, 3]},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_saying_what_holds_anyway_changes_no_spec(read, changes):
    assert run_specs(read(changes)) == run_specs(read())


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(part) for key, part in reversed(value.items())}
    return value


def test_the_order_of_keys_changes_no_spec(read):
    config = yaml.safe_load(SMOKE.read_text())
    architectures = config["grid"]["architectures"]  # the first is the reference: this order alone has a meaning
    config = reversed_keys(config)
    config["grid"]["architectures"] = architectures
    assert run_specs(read.text(yaml.safe_dump(config, sort_keys=False))) == run_specs(read())


def test_a_new_key_with_a_default_changes_no_spec(read, monkeypatch):
    before = run_specs(read())
    schema = copy.deepcopy(study_schema())
    for section in ("corpus", "grid", "evaluation", "scaling", "tuning"):
        schema["properties"][section]["properties"]["new"] = {"description": "New.", "type": "number", "default": 0.5}
    schema["properties"]["later"] = {"type": "object", "properties": {"on": {"default": True}}, "default": {}}
    monkeypatch.setattr(studies, "study_schema", lambda: schema)
    study = read()
    assert study.config["scaling"]["new"] == 0.5
    assert study.config["later"] == {"on": True}
    assert run_specs(study) == before
    assert run_specs(read({"evaluation/new": 0.7})) == before  # nor does a key that no job reads


def test_a_cell_more_changes_no_spec(read):
    assert run_specs(read({"grid/exclude": []})).items() >= run_specs(read()).items()


def test_a_pinned_run_takes_its_sizes_and_the_others_their_own(read):
    sizes = {"hidden_size": 12, "heads": 2, "kv_heads": 1, "head_size": 8, "experts": 97, "expert_width": 20}
    before, study = read().runs, read({"grid/geometry/smelt-H16-S85": {**sizes, "note": "an older match"}})
    model = study.runs["smelt-H16-S85"].model
    assert {name: getattr(model, name) for name in sizes} == sizes
    assert (model.layers, model.loop_start, model.loop_length, model.visits) == (4, 1, 2, 2)
    assert model != before["smelt-H16-S85"].model
    assert {name for name, run in study.runs.items() if run.model != before[name].model} == {"smelt-H16-S85"}
    assert [row.note for row in specs.budgets(study).runs if row.sparsity == "S85"] == [
        None, "an older match", None, None
    ]  # fmt: skip


def test_a_single_run_can_be_left_out(read):
    before, study = read().runs, read({"grid/exclude": ["H24-S90", "smelt-H16-S90", "smelt-H24-S0"]})
    assert before.keys() - study.runs.keys() == {"smelt-H16-S90", "smelt-H24-S0"}
    controls = {(row.architecture, row.scale): row.control for row in specs.budgets(study).runs}
    assert controls["smelt", "H24"] is None  # no S = 0 network of its own is left there
    assert controls["smelt", "H16"] is not None


def test_an_architecture_may_have_other_layers(read):
    study = read(
        {"grid/architectures": {"baseline": {}, "deep": {"layers": 6}, "loop": {"layers": 3, "visits": 2, "span": 1.0}}}
    )
    for cell in ("H16-S85", "H24-S85"):
        base, deep, loop = (study.runs[f"{name}-{cell}"].model for name in ("baseline", "deep", "loop"))
        assert (base.layers, deep.layers, loop.layers, loop.loop_length) == (4, 6, 3, 3)
        cost = budget(base, study.attention_keys)
        for model in (deep, loop):
            mine = budget(model, study.attention_keys)
            assert mine.flops_per_token == pytest.approx(cost.flops_per_token, rel=0.04)
            assert mine.params == pytest.approx(cost.params, rel=0.04)
            assert mine.kv_bytes_per_token == pytest.approx(cost.kv_bytes_per_token, rel=0.04)


def test_a_job_is_told_the_keys_that_it_reads_and_no_default(read):
    study = read({"corpus/context": 2048})
    assert plain(specs.shard(study)) == {"context": 2048, "shard_contexts": 2}
    assert plain(specs.tokenizer(study)) == {"vocabulary": 384, "tokenizer_megabytes": 0.5}
    assert plain(specs.evaluation(study)) == {}


def test_a_study_is_a_name_or_a_path(tmp_path):
    assert studies.find("smoke").name == "smoke.yaml"
    file = tmp_path / "mine.yml"
    file.touch()
    assert studies.find(str(file)) == file
    with pytest.raises(UserError, match=r"study=nosuch: no file .*/config/nosuch.yaml; give a path, or one of .*desk"):
        studies.find("nosuch")
    with pytest.raises(UserError, match="schema") as error:
        studies.find(str(tmp_path / "schema"))
    assert "one of" in str(error.value)
    offered = set(str(error.value).split("one of ")[1].split(", "))
    assert offered == {path.stem for path in STUDIES}
    for name in ("tasks", "schema"):
        with pytest.raises(
            UserError, match=rf"study={name}: .*/config/{name}\.yaml is no study .*; give a path, or one"
        ):
            studies.find(name)


def test_runs_are_frozen(read):
    run = read().trained[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.seed = 1
