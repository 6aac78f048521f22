"""The door of the scaling stage: endpoints in, gain out, without a file, and the numbers of the workflow's tables."""

import json
from pathlib import Path

import pandas as pd
import pytest

from smelt import tables
from smelt.errors import UserError
from smelt.scaling import analysis
from smelt.scaling.endpoints import user_table
from smelt.scaling.gains import iso_loss_gain

EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "endpoints.csv"
SPEC = {"study": "own", "reference": "baseline"}
PUBLISHED = ("S85", "S95", "S97")


@pytest.fixture(scope="module")
def fitted():
    """As docs/endpoints.md prints it, from a DataFrame."""
    return analysis.fit(pd.read_csv(EXAMPLE), reference="baseline", draws=10_000, compute_budgets=[1e20, 1e21])


def test_the_example_gives_the_gain_of_its_page(fitted):
    gain = fitted.gain("smelt", budget=1e20, sparsity="S85")
    assert (gain.gain, gain.low, gain.high) == pytest.approx((0.1252, 0.0658, 0.1885), abs=5e-5)
    assert (gain.window, gain.resolved, gain.reference, gain.budget) == ("inside", False, "baseline", 1e20)
    assert gain.reason is not None
    assert gain.reason.startswith("all gains together are not told from zero (joint p 0.12)")
    assert gain.multiplier == pytest.approx(1 / (1 - gain.gain))


def test_tables_hold_the_same_rows(fitted):
    gains = tables.rows(fitted.gains())
    assert [(row["budget_flops"], row["sparsity"]) for row in gains] == [
        (c, s) for c in (1e20, 1e21) for s in PUBLISHED
    ]
    one = fitted.gain("smelt", budget=1e21, sparsity="S97")
    assert (gains[-1]["gain"], gains[-1]["gain_low"], gains[-1]["resolved"]) == (one.gain, one.low, one.resolved)
    assert fitted.coefficients()["architecture"].tolist() == ["baseline", "smelt"]
    assert len(fitted.allocation()) == 2 * 3 * 2
    assert fitted.frontier("baseline", "S85").window(1e20) == "inside"


def test_a_file_and_a_frame_are_the_same():
    from_file = analysis.fit(analysis.read(EXAMPLE), draws=40)
    from_frame = analysis.fit(pd.read_csv(EXAMPLE), "baseline", draws=40)
    assert from_file.gains().equals(from_frame.gains())
    assert from_file.budgets == from_frame.budgets


def test_the_iso_loss_gain_needs_no_fit_and_is_that_of_the_workflow_s_table(tmp_path):
    data = pd.read_csv(EXAMPLE)
    found = analysis.iso_loss_gain(data, "baseline")
    user_table.main(["--table", str(EXAMPLE), "--out", str(tmp_path / "endpoints.parquet")])
    told = json.dumps(SPEC | {"s_convention": "given"})
    paths = ["--endpoints", str(tmp_path / "endpoints.parquet"), "--out", str(tmp_path / "table.parquet")]
    iso_loss_gain.main([*paths, "--spec", told])
    assert tables.read(tmp_path / "table.parquet").equals(found)
    assert analysis.iso_loss_gain(EXAMPLE).equals(found)
    numbered = analysis.iso_loss_gain(data.assign(seed=0))  # without a column of seeds there is one
    assert numbered.equals(found)
    one = analysis.iso_loss_gain(data[data["architecture"] == "smelt"])
    assert one.empty
    with pytest.raises(UserError, match="no endpoint of 'dense'"):
        analysis.iso_loss_gain(data, "dense")


def test_another_surface_is_a_choice():
    without_sparsity = analysis.fit(pd.read_csv(EXAMPLE), draws=40, surface="chinchilla")
    assert without_sparsity.coefficients()["surface"].tolist() == ["chinchilla", "chinchilla"]
    gains = {label: without_sparsity.gain("smelt", 1e20, label).gain for label in PUBLISHED}
    assert len(set(gains.values())) == 1


def test_a_dense_model_is_compared_with_a_sparse_one_by_scale():
    """A label without a percentage makes pairs of them; by the default labels nothing pairs them, and that is said."""
    data = pd.read_csv(EXAMPLE).query("cell.str.endswith('S85')").drop(columns="source")
    data["S"] = data["S"].mask(data["architecture"] == "baseline", 0.0)
    scales = data["cell"].str.removesuffix("-S85")
    paired = analysis.fit(data.drop(columns="cell").assign(scale=scales, sparsity="paired"), draws=40)
    assert all(row["gain"] is not None for row in tables.rows(paired.gains()))
    assert not any("paired" in (row["reason"] or "") for row in tables.rows(paired.gains()))
    apart = data.drop(columns="cell").assign(
        scale=scales, sparsity=data["architecture"].map({"baseline": "S0", "smelt": "S85"})
    )
    gains = analysis.fit(apart, draws=40, fit_sparsities=("S0", "S85")).gains()
    for row in tables.rows(gains):
        assert not row["resolved"]
        assert "smelt has no endpoint at S0" in row["reason"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.drop(columns="loss"), "the DataFrame: .*loss"),
        (lambda data: data.assign(lossy=1.0), "unknown column 'lossy'; did you mean 'loss'"),
        (lambda data: data.assign(loss=data["loss"].mask(data.index == 3)), r"row 4 .*column loss"),
        (lambda data: data.head(0), "no row"),
    ],
)
def test_mistakes_name_row_and_column(change, message):
    with pytest.raises(UserError, match=message):
        analysis.read(change(pd.read_csv(EXAMPLE)))


def test_unknown_names_are_answered_with_those_that_are_known(fitted):
    with pytest.raises(UserError, match=r"no comparison of 'dense' at 'S85': architectures .* are smelt"):
        fitted.gain("dense", 1e20, "S85")
    with pytest.raises(UserError, match=r"no frontier of 'smelt' at 'S50': .* sparsities S85, S95, S97"):
        fitted.frontier("smelt", "S50")
    with pytest.raises(UserError, match=r"budget -1.0: expected training FLOPs"):
        fitted.gain("smelt", -1.0, "S85")
    with pytest.raises(UserError, match="unknown choice 'resamples'"):
        analysis.fit(pd.read_csv(EXAMPLE), resamples="cells")
    with pytest.raises(UserError, match="reference: no endpoint of 'dense'; known are baseline, smelt"):
        analysis.fit(pd.read_csv(EXAMPLE), "dense")
