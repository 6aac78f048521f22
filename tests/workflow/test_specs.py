"""What the jobs of a study are told: conventions of S, controls, and what a spec leaves out."""

import pytest
import yaml

from smelt.errors import UserError
from smelt.spec import plain
from smelt.study import load
from smelt.workflow import scaling_specs, specs


def variant(tmp_path, **changes):
    config = yaml.safe_load(load.find("smoke").read_text())
    for section, values in changes.items():
        config[section] = {**config.get(section, {}), **values} if isinstance(values, dict) else values
    path = tmp_path / "variant.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return load.read(path)


def sparsities(found):
    return {(run.architecture, run.sparsity): run.S for run in scaling_specs.endpoints(found).runs}


def test_conventions_of_s_differ_for_the_looped_architecture_alone(tmp_path):
    by = {
        name: sparsities(variant(tmp_path, scaling={"s_convention": name})) for name in ("baseline", "own", "nominal")
    }
    assert by["nominal"]["smelt", "S85"] == by["nominal"]["baseline", "S85"] == 0.85
    assert by["baseline"]["baseline", "S85"] == by["own"]["baseline", "S85"] == pytest.approx(0.85, abs=0.01)
    assert by["baseline"]["smelt", "S85"] != by["own"]["smelt", "S85"]


@pytest.mark.parametrize("seeds", [[0], [1], [0, 3]])
def test_the_own_control_is_found_whatever_the_seeds(tmp_path, seeds):
    found = variant(tmp_path, seeds=seeds, scaling={"s_convention": "own"})
    rows = specs.budgets(found).runs
    assert all((row.control is None) == (row.architecture == "baseline") for row in rows)
    assert len(rows) == len({(row.architecture, row.scale, row.sparsity) for row in rows})
    assert all(0 < s < 1 for s in sparsities(found).values())


def test_costs_are_those_of_each_trained_network_once(tmp_path):
    found = variant(tmp_path, seeds=[1, 0], runs={"smelt-H16-S85": {"batch_contexts": 2, "precision": "float32"}})
    told = specs.costs(found)
    assert (told.context, told.reference) == (4096, "baseline")
    names = [f"{row.architecture}-{row.scale}-{row.sparsity}" for row in told.runs]
    assert names == [run.id.removesuffix("-seed1") for run in found.trained if run.seed == 1]
    (row,) = [row for row, name in zip(told.runs, names, strict=True) if name == "smelt-H16-S85"]
    assert (row.batch_contexts, row.precision) == (2, "float32")
    assert row.model == specs.training(found, found.runs["smelt-H16-S85"]).model


def test_the_own_convention_without_a_control_is_refused(tmp_path):
    found = variant(tmp_path, grid={"sparsities": {"S85": {"sparsity": 0.85}, "S90": {"sparsity": 0.9}}},
                    scaling={"s_convention": "own"})  # fmt: skip
    with pytest.raises(UserError, match="no S0 control"):
        scaling_specs.endpoints(found)


@pytest.mark.parametrize("entry", [{"experts": 16}, {"sparsity": 0.1}])
def test_s0_must_be_the_fully_active_control(tmp_path, entry):
    with pytest.raises(UserError, match="S0: the fully active control; give it experts: 8"):
        variant(tmp_path, grid={"sparsities": {"S0": entry, "S85": {"sparsity": 0.85}}, "exclude": []})


def test_a_sweep_of_learning_rates_has_a_held_out_sample_of_its_own(tmp_path):
    usual = plain(specs.heldout(variant(tmp_path)))
    assert "split" not in usual
    sweep = variant(tmp_path, tuning={"learning_rates": [0.001, 0.002]})
    assert plain(specs.heldout(sweep)) == {**usual, "split": "tuning"}


def test_a_run_is_told_what_decides_its_bits_alone(tmp_path):
    found = variant(tmp_path)
    told = plain(specs.training(found, found.runs["smelt-H16-S85"]))
    assert set(told) == {"run", "context", "model", "training"}
    assert "save_interval" not in told["training"]
    assert "weight_decay" not in told["training"]  # its default
