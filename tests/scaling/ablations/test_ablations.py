"""Ablation sweeps: rows by hand, pairing by seed, missing seeds, and what a study may not ask for."""

import dataclasses
import json

import pytest
import yaml

from smelt import artifacts
from smelt.errors import UserError
from smelt.scaling.ablations import ablations
from smelt.scaling.ablations.ablations import last_endpoints, resolved
from smelt.scaling.ablations.settings import Point
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.study import load as studies
from smelt.tables import from_rows
from smelt.workflow import scaling_specs
from tests.end_to_end.conftest import Workspace

CELL = {"scale": "H40", "sparsity": "S85"}


def endpoint(architecture, seed, loss, *, step=60, tokens=1000, flops=100.0, params=50, kv=8):
    row = dict.fromkeys(ENDPOINTS.names)
    return row | {
        "architecture": architecture,
        **CELL,
        "seed": seed,
        "branch_step": step,
        "tokens": tokens,
        "loss": loss,
        "flops_per_token": flops,
        "params": params,
        "kv_bytes_per_token": kv,
        "source": "trained",
    }


def point(architecture, looped=0, **changes):
    plan = {"layers": 12, "looped": looped, "executed_layers": 12 + looped, "visits": 2 if looped else 1}
    return Point(**{"line": "looped", "reference": "baseline", "architecture": architecture, **CELL, **plan, **changes})


def analyse(points, rows):
    return ablations.analyse(points, from_rows(rows, ENDPOINTS))


BOTH = [point("baseline"), point("span6", 6)]


def test_a_row_by_hand():
    rows = [
        *(endpoint("baseline", seed, loss) for seed, loss in enumerate((4.0, 4.2, 4.4))),
        *(endpoint("span6", seed, loss, flops=101.0, params=49, kv=9) for seed, loss in enumerate((3.9, 4.0, 4.3))),
    ]
    first, second = analyse(BOTH, rows)
    assert first["loss"] == pytest.approx(4.2)
    assert first["loss_se"] == pytest.approx(0.2 / 3**0.5)
    assert (first["difference"], first["difference_se"], first["resolved"], first["endpoints"]) == (0, 0, False, 3)
    # differences -0.1, -0.2, -0.1: mean -0.4 / 3, squared deviations 1/900 + 4/900 + 1/900 over 2
    error = (6 / 900 / 2 / 3) ** 0.5
    assert second["difference"] == pytest.approx(-0.4 / 3)
    assert second["difference_se"] == pytest.approx(error)
    assert error * 4.302653 > 0.4 / 3
    assert not second["resolved"]
    assert [second[name] for name in ("flops_ratio", "params_ratio", "kv_ratio")] == pytest.approx([1.01, 0.98, 1.125])
    assert (second["span_pct"], second["executed_layers"], second["endpoints"], second["pairs"]) == (50, 18, 6, 3)
    assert second["reason"] == ""
    assert set(second) == set(ablations.ABLATION.names)


def test_a_difference_is_resolved_beyond_the_interval_of_its_pairs():
    assert resolved(-0.13, 0.01, 2)
    assert not resolved(-0.12, 0.01, 2)
    assert resolved(0.044, 0.01, 3)
    assert not resolved(0.042, 0.01, 3)
    assert not resolved(1.0, None, 1)


def test_noise_that_a_pair_shares_cancels():
    rows = [endpoint("baseline", seed, 4 + seed) for seed in range(3)]
    rows += [endpoint("span6", seed, 4 + seed - 0.1 + 0.001 * seed) for seed in range(3)]
    row = analyse(BOTH, rows)[1]
    assert row["loss_se"] > 0.5
    assert row["difference_se"] < 0.001
    assert row["resolved"]


def test_only_seeds_in_common_are_paired():
    rows = [endpoint("baseline", 0, 4.0), endpoint("baseline", 1, 4.2)]
    rows += [endpoint("span6", 1, 4.1), endpoint("span6", 2, 3.0)]
    row = analyse(BOTH, rows)[1]
    assert (row["seeds"], row["pairs"], row["loss"]) == (2, 1, pytest.approx(3.55))
    assert row["difference"] == pytest.approx(-0.1)
    assert row["difference_se"] is None
    assert not row["resolved"]
    assert "one seed in common with baseline" in row["reason"]
    apart = analyse(BOTH, [endpoint("baseline", 0, 4.0), endpoint("span6", 1, 4.1)])[1]
    assert apart["difference"] is None
    assert "no seed in common" in apart["reason"]


def test_one_seed_has_no_error_and_resolves_nothing():
    row = analyse(BOTH, [endpoint("baseline", 0, 4.0), endpoint("span6", 0, 3.0)])[1]
    assert row["difference"] == pytest.approx(-1.0)
    assert (row["loss_se"], row["difference_se"], row["resolved"]) == (None, None, False)
    assert row["reason"] == "one seed: no standard error"


@pytest.mark.parametrize(("left", "reason"), [("baseline", "span6 was not trained"), ("span6", "reference baseline")])
def test_a_run_that_was_not_trained_has_its_reason(left, reason):
    row = analyse(BOTH, [endpoint(left, 0, 4.0), endpoint(left, 1, 4.1)])[1]
    assert row["difference"] is None
    assert row["flops_ratio"] is None
    assert reason in row["reason"]
    assert (row["loss"] is None) == (left == "baseline")


def test_the_last_endpoint_of_a_run_counts():
    rows = [endpoint("baseline", 0, 4.0, step=60), endpoint("baseline", 0, 5.0, step=30)]
    assert last_endpoints(from_rows(rows, ENDPOINTS))["loss"].tolist() == [4.0]


def test_runs_of_different_length_are_not_compared():
    with pytest.raises(UserError, match=r"endpoints of 1,000 and 2,000 tokens"):
        analyse(BOTH, [endpoint("baseline", 0, 4.0), endpoint("span6", 0, 4.0, tokens=2000)])


def test_the_command_writes_one_table_a_sweep(tmp_path):
    rows = [endpoint(name, seed, 4.0 + seed) for name in ("baseline", "span6") for seed in (0, 1)]
    source, target = tmp_path / "endpoints.parquet", tmp_path / "span_sweep.parquet"
    artifacts.write_table(artifacts.table(rows, ENDPOINTS), source, {})
    told = json.dumps({"ablations": {"span_sweep": [dataclasses.asdict(point) for point in BOTH]}})
    ablations.main(["--spec", told, "--endpoints", str(source), "--out", str(target)])
    assert [row["architecture"] for row in artifacts.read_table(target).to_pylist()] == ["baseline", "span6"]
    with pytest.raises(UserError, match="do not match the ablations"):
        ablations.main(["--spec", told, "--endpoints", str(source), "--out", str(tmp_path / "other_sweep.parquet")])


@pytest.fixture
def read(tmp_path):
    """The study of ablations with changed keys, as `read({"seeds": [0]})`; a path with slashes goes deeper."""

    def changed(changes=None):
        config = yaml.safe_load((studies.CONFIG / "ablations.yaml").read_text())
        for path, value in (changes or {}).items():
            *sections, last = path.split("/")
            inside = config
            for section in sections:
                inside = inside[section]
            inside[last] = value
        (tmp_path / "ablations.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        return studies.read(tmp_path / "ablations.yaml")

    return changed


LINE = "ablations/span_sweep/lines/looped"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{LINE}/architectures": ["baseline", "span7"]}, r"lines\.looped\.architectures: no 'span7'; known are base"),
        ({f"{LINE}/reference": "visits3"}, r"lines\.looped\.reference: no 'visits3'; known are baseline, span2"),
        ({"ablations/span_sweep/sparsities": ["S90"]}, r"span_sweep\.sparsities: no 'S90'; known are S85, S95"),
        ({"ablations/span_sweep/axis": "visits"}, r"span2 and span4 have the same visits"),
        ({"ablations/span_sweep/axis": "width"}, r"ablations\.span_sweep\.axis: 'width' is not one of"),
        ({"ablations/endpoints": {}}, r"ablations: .*endpoints"),
        ({"tuning": {"learning_rates": [0.01]}}, r"ablations: a study that tunes"),
        (
            {"ablations/depth_sweep/sparsities": ["S95"], "grid/exclude": ["H40-S95"]},
            r"baseline' is trained in no cell",
        ),
    ],
)
def test_a_mistake_shows_while_the_study_is_read(read, changes, message):
    with pytest.raises(UserError, match=message):
        read(changes)


def test_the_study_makes_the_paper_s_three_sweeps(read):
    study = read()
    assert len(study.trained) == 44
    assert len(study.config["grid"]["architectures"]) == 15
    told = scaling_specs.sweeps(study).ablations
    span = [(entry.sparsity, entry.looped, entry.executed_layers) for entry in told["span_sweep"]]
    assert span == [(label, looped, 12 + looped) for label in ("S85", "S95") for looped in range(0, 13, 2)]
    depth = [(entry.line, entry.layers, entry.executed_layers) for entry in told["depth_sweep"]]
    assert depth == [
        *(("baseline", layers, layers) for layers in (9, 12, 15, 18)),
        *(("looped", layers, layers + layers // 2) for layers in (8, 10, 12, 14)),
    ]
    visits = [(entry.visits, entry.executed_layers) for entry in told["loop_count"]]
    assert visits == [(1, 12), (2, 18), (3, 24), (4, 30)]
    assert {entry.reference for entry in told["depth_sweep"]} == {"baseline", "span6"}


def test_a_run_left_out_of_the_grid_stays_a_row_of_its_sweep(read):
    exclude = yaml.safe_load((studies.CONFIG / "ablations.yaml").read_text())["grid"]["exclude"]
    told = scaling_specs.sweeps(read({"grid/exclude": [*exclude, "span4-H40-S95"]})).ablations["span_sweep"]
    left = next(entry for entry in told if (entry.architecture, entry.sparsity) == ("span4", "S95"))
    assert left.layers is None
    row = analyse([left], [endpoint("baseline", 0, 4.0) | {"sparsity": "S95"}])[0]
    assert (row["layers"], row["loss"]) == (None, None)
    assert "not trained" in row["reason"]


@pytest.mark.slow
def test_a_study_of_sweeps_goes_from_text_to_its_tables_and_figures(tmp_path):
    """Two seeds of two architectures, three steps each; nothing is fitted."""
    clone = Workspace.cloned(tmp_path / "clone")
    clone.change(
        name="smoke",
        seeds=[0, 1],
        grid={
            "scales": {"H16": yaml.safe_load(clone.study.read_text())["grid"]["scales"]["H16"]},
            "sparsities": {"S85": {"sparsity": 0.85}},
            "exclude": [],
        },
        training={"steps": 3, "branch_steps": [3], "decay_steps": 1, "warmup_steps": 1},
        ablations={"loop_count": {"axis": "visits", "lines": {"half": {"architectures": ["baseline", "smelt"]}}}},
    )
    planned = {job.split()[0] for job in clone.waiting()}
    assert planned >= {
        "train",
        "heldout_loss",
        "collect",
        "ablations",
        "ablation_figures",
        "scaling_tables",
        "budget_tables",
    }
    assert not planned & {"fit", "gain", "sensitivity", "subsets", "length", "breakdown", "scaling_figures"}
    clone.finish()
    written = {path.name for path in (clone.results / "tables").iterdir()}
    assert written >= {
        "loop_count.csv",
        "loop_count.parquet",
        "endpoints.csv",
        "budgets.csv",
        "corpus.csv",
        "streams.csv",
    }
    assert {f"loop_count.{kind}" for kind in ("pdf", "svg", "png")} <= {
        path.name for path in (clone.results / "figures").iterdir()
    }
    baseline, looped = artifacts.read_table(clone.results / "tables/loop_count.parquet").to_pylist()
    assert [baseline["visits"], looped["visits"]] == [1, 2]
    assert (looped["pairs"], looped["reason"]) == (2, "")
    assert looped["difference"] == pytest.approx(looped["loss"] - baseline["loss"])
    assert looped["difference_se"] > 0
