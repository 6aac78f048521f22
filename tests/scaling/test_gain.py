"""The stage from endpoints to answers: values, intervals, flags and every reason."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.errors import UserError
from smelt.scaling import frontier, gain
from smelt.scaling.draws import COEFFICIENTS, Draws, support
from smelt.scaling.settings import Settings
from smelt.scaling.surface import NAMES, Coefficients
from tests.scaling.published import SPEC, SURFACES, endpoint_rows, part, points, run_stage

Stage = Mapping[str, list[dict[str, Any]]]
BUDGETS = (1e20, 1e21, 1e22)
SETTINGS = Settings(**(SPEC | {"budgets": BUDGETS}))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return run_stage(tmp_path_factory.mktemp("exact"), endpoint_rows(), budgets=BUDGETS)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return run_stage(tmp_path_factory.mktemp("noisy"), endpoint_rows(noise=0.5, seed=1))


def test_published_gains_come_through_the_whole_stage(exact: Stage) -> None:
    rows = exact["ce_gain"]
    assert [(row["budget_flops"], row["sparsity"]) for row in rows] == [
        (budget, label) for budget in BUDGETS for label in ("S85", "S95", "S97")
    ]
    expected = (9.86, 7.70, 6.66, 17.94, 15.68, 14.57, 23.37, 20.76, 19.48)
    assert [100 * row["gain"] for row in rows] == pytest.approx(expected, abs=0.02)
    for row in rows:
        assert row["multiplier"] == pytest.approx(1 / (1 - row["gain"]))
        assert (row["endpoints"], row["draws"], row["reference"]) == (144, 60, "baseline")
        assert row["gain_low"] <= row["gain"] + 1e-6
        assert row["gain_high"] >= row["gain"] - 1e-6
    assert [row["window"] for row in rows] == ["inside"] * 3 + ["edge"] + ["inside"] * 2 + ["extrapolated"] * 3
    assert [row["resolved"] for row in rows] == [True] * 6 + [False] * 3
    assert {row["reason"] for row in rows[:6]} == {None}
    assert {row["reason"] for row in rows[6:]} == {"extrapolated beyond the trained compute"}


def test_coefficients_and_allocation(exact: Stage) -> None:
    for row in exact["coefficients"]:
        expected = SURFACES[row["architecture"]]
        assert [row[name] for name in NAMES] == pytest.approx(list(map(float, expected)), rel=1e-4)
        assert (row["at_bound"], row["endpoints"], row["reason"]) == ("none", 72, None)
        for name in (*NAMES, "gamma"):
            assert row[f"{name}_low"] <= row[name] * (1 + 1e-6)
            assert row[f"{name}_high"] >= row[name] * (1 - 1e-6)
    tpp = {(row["budget_flops"], row["sparsity"], row["architecture"]): row["tpp"] for row in exact["allocation"]}
    assert tpp[1e21, "S95", "baseline"] == pytest.approx(78.2, abs=0.06)
    assert tpp[1e21, "S97", "smelt"] == pytest.approx(86.4, abs=0.06)


def test_default_budgets_and_bands(noisy: Stage) -> None:
    budgets = sorted({row["budget_flops"] for row in noisy["ce_gain"]})
    assert budgets == [7.3e19, 4.0e20, 2.2e22]
    assert {row["window"] for row in noisy["ce_gain"] if row["budget_flops"] < 1e21} == {"inside"}
    for row in noisy["frontier"]:
        assert row["low"] <= row["loss"] * 1.01
        assert row["low"] < row["high"]
    curve = [row for row in noisy["frontier"] if (row["architecture"], row["sparsity"]) == ("smelt", "S95")]
    losses = [row["loss"] for row in curve]
    assert losses == sorted(losses, reverse=True)
    assert {row["window"] for row in curve} == {"inside", "edge", "extrapolated"}


def test_draws_and_residuals(noisy: Stage) -> None:
    assert len(noisy["draws"]) == 2 * 60
    assert all(row["identified"] and row["converged"] for row in noisy["draws"])
    assert len(noisy["residuals"]) == 144
    for row in noisy["residuals"]:
        assert row["residual_nats"] == pytest.approx(row["predicted"] - row["loss"])
    squares = [row["residual_nats"] ** 2 for row in noisy["residuals"] if row["architecture"] == "smelt"]
    rmse = next(row["rmse_nats"] for row in noisy["coefficients"] if row["architecture"] == "smelt")
    assert np.sqrt(np.mean(squares)) == pytest.approx(rmse)


def test_bytes_are_the_same_twice(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run_stage(tmp_path / folder, endpoint_rows(part(3, 2), noise=0.5), draws=20)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 7
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_too_few_cells_for_intervals(tmp_path: Path) -> None:
    stage = run_stage(tmp_path, endpoint_rows(part(2, 2), noise=0.2))
    for row in stage["ce_gain"]:
        assert row["gain"] is not None
        assert (row["gain_low"], row["gain_high"], row["draws"], row["resolved"]) == (None, None, 0, False)
        assert "no interval: 85 % of the draws leave a coefficient unidentified" in row["reason"]
    assert all(row["E_low"] is None and "no interval" in row["reason"] for row in stage["coefficients"])
    assert all(row["low"] is None for row in stage["frontier"])
    assert sum(not row["identified"] for row in stage["draws"]) == 2 * 51


def test_too_few_endpoints_for_a_surface(tmp_path: Path) -> None:
    stage = run_stage(tmp_path, endpoint_rows(part(2, 1)))
    for row in stage["ce_gain"]:
        assert (row["gain"], row["multiplier"], row["loss"], row["resolved"]) == (None, None, None, False)
        assert "smelt: 12 endpoints (scales: 2, sparsities: 1" in row["reason"]
        assert "baseline: 12 endpoints" in row["reason"]
    assert all(row["E"] is None and row["reason"] for row in stage["coefficients"])
    assert all(row["tpp"] is None and row["reason"] for row in stage["allocation"])
    assert stage["frontier"] == stage["residuals"] == []


def test_one_sparsity_is_said(tmp_path: Path) -> None:
    stage = run_stage(tmp_path, endpoint_rows(part(4, 1), noise=0.2))
    assert all(row["b"] == 0 and row["at_bound"] == "none" for row in stage["coefficients"])
    assert all("b is held at 0: there is one sparsity" in row["reason"] for row in stage["ce_gain"])
    assert all(row["gain"] is not None for row in stage["ce_gain"])


def test_no_other_architecture_gives_no_gain(tmp_path: Path) -> None:
    rows = [row for row in endpoint_rows(noise=0.2) if row["architecture"] == "baseline"]
    stage = run_stage(tmp_path, rows, draws=5)
    assert stage["ce_gain"] == []
    assert len(stage["allocation"]) == 9


# The reasons one by one, on sides made by hand.


def side(name: str, spread: float = 0.0, at_bound: str = "none", **changes: float) -> gain.Side:
    """An architecture whose surface is the published one with changes, and 40 draws around it."""
    surface = SURFACES[name]._replace(**{key: np.float64(value) for key, value in changes.items()})
    row: dict[str, Any] = dict.fromkeys(COEFFICIENTS.names)
    row |= {"architecture": name, "endpoints": 72, "at_bound": at_bound}
    noise = np.linspace(-1, 1, 40)
    drawn = Coefficients(*(np.full(40, float(value)) for value in surface))
    draws = Draws(drawn._replace(E=drawn.E + spread * noise), np.ones(40, bool), np.ones(40, bool), np.full(40, "none"))
    return gain.Side(row, surface, draws, frontier.box(points(endpoint_rows(), name)))


def gain_row(target: gain.Side, reference: gain.Side, budget: float = 1e20) -> dict[str, Any]:
    return gain.gain_row(target, reference, budget, "S95", SETTINGS)


def test_resolved() -> None:
    row = gain_row(side("smelt"), side("baseline"))
    assert (row["resolved"], row["reason"], row["window"]) == (True, None, "inside")


def test_interval_spans_zero() -> None:
    row = gain_row(side("smelt", spread=0.1), side("baseline"))
    assert row["gain_low"] < 0 < row["gain_high"]
    assert (row["resolved"], row["reason"]) == (False, "the interval spans zero")


def test_reference_never_reaches_the_loss() -> None:
    row = gain_row(side("smelt", E=0.9, A=500.0), side("baseline"))
    assert (row["gain"], row["multiplier"], row["resolved"]) == (1, None, False)
    assert row["reason"].startswith("the frontier cannot be inverted: baseline never reaches this loss")
    assert "in 100 % of the draws baseline never reaches this loss" in row["reason"]


def test_a_coefficient_on_a_bound_is_named_and_leaves_no_number() -> None:
    row = gain_row(side("smelt", at_bound="E"), side("baseline"))
    assert (row["resolved"], row["reason"]) == (False, "smelt: E on a bound of the fit")
    assert {row[name] for name in ("gain", "gain_low", "gain_high", "multiplier", "loss")} == {None}
    allocation = gain.allocation_row(side("smelt", at_bound="E"), 1e20, "S95", SETTINGS)
    assert (allocation["tpp"], allocation["reason"]) == (None, "smelt: E on a bound of the fit")


@pytest.mark.parametrize("name", ["a", "c"])
def test_an_exponent_of_zero_leaves_no_frontier(name: str) -> None:
    row = gain_row(side("smelt"), side("baseline", **{name: 0.0}, at_bound=name))
    assert (row["gain"], row["resolved"], row["window"]) == (None, False, "edge")
    assert f"baseline: {name} on a bound of the fit" in row["reason"]
    assert f"the exponent {name} is not positive" in row["reason"]
    allocation = gain.allocation_row(side("baseline", **{name: 0.0}), 1e20, "S95", SETTINGS)
    assert allocation["tpp"] is None
    assert "no frontier" in allocation["reason"]


def test_a_negative_b_is_remarked_and_computed() -> None:
    row = gain_row(side("smelt", b=-0.05), side("baseline"))
    assert row["gain"] is not None
    assert row["resolved"] is True  # the closed forms hold for any b
    assert "smelt: the exponent b is negative" in row["reason"]


def test_extrapolated_and_several_reasons() -> None:
    row = gain_row(side("smelt", spread=0.3), side("baseline"), 1e22)
    assert row["gain"] is not None
    assert row["reason"].split("; ")[:2] == ["extrapolated beyond the trained compute", "the interval spans zero"]


def test_a_few_excluded_draws_are_said_and_many_leave_no_interval() -> None:
    few, many = side("smelt"), side("smelt")
    few.draws.identified[:2] = few.draws.converged[:2] = False
    row = gain_row(few, side("baseline"))
    assert (row["draws"], row["resolved"]) == (38, True)
    assert row["reason"] == "draws excluded: 5 % of the draws leave a coefficient unidentified"
    many.draws.converged[:5] = False
    row = gain_row(many, side("baseline"))
    assert (row["draws"], row["resolved"], row["gain_low"]) == (0, False, None)
    assert row["reason"] == "no interval: 12.5 % of the draws did not converge"


def test_draws_with_a_coefficient_on_a_bound_are_remarked() -> None:
    target = side("smelt")
    target.draws.at_bound[3] = "E"
    row = gain_row(target, side("baseline"))
    assert (row["resolved"], row["reason"]) == (True, "in 2.5 % of the draws a coefficient is on a bound")


def test_support_counts_each_cause_over_all_architectures() -> None:
    one, other = side("smelt").draws, side("baseline").draws
    one.identified[0] = one.converged[0] = False
    other.converged[1] = False
    other.surface.a[2] = 0
    held = support([one, other])
    assert held.count == 37
    assert held.reason == (
        "draws excluded: 2.5 % of the draws leave a coefficient unidentified, "
        "2.5 % of the draws did not converge, 2.5 % of the draws have an exponent of zero"
    )
    assert support([other], frontier=False).count == 39


def test_windows_that_do_not_overlap() -> None:
    far = side("smelt")
    beyond = frontier.Box(far.box.flops, far.box.tokens, (1e30, 1e31))
    with pytest.raises(UserError, match=r"give scaling\.budgets"):
        gain.budgets([side("baseline"), gain.Side(far.row, far.surface, far.draws, beyond)], Settings(**SPEC))  # type: ignore[arg-type]
