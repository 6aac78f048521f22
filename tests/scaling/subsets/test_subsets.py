"""Gains on parts of the text: the whole comes back, known surfaces are found, quartiles are means of gains."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.fitting import fit, newton, resampling
from smelt.scaling.fitting.intervals import Draws
from smelt.scaling.gains import gain
from smelt.scaling.gains.frontiers import FittedSurface, read_surfaces
from smelt.scaling.gains.leave_one_out import Jackknife
from smelt.scaling.settings import Settings
from smelt.scaling.subsets import level_fits, subsets
from smelt.surfaces import catalogue, frontier
from smelt.surfaces.frontier import Slice
from tests.scaling.held_out_texts import COUNTS, Row, levels, source_rows, sources, write_sources
from tests.scaling.published import SPEC, SURFACES, VALUES, endpoint_rows, points, write_endpoints

FEW = {"Code": 2, "Web": 3}
BUDGETS = [1e20, 1e21]
FITTED = ("coefficients", "draws", "surfaces-without", "residuals")
ANSWERS = ("ce-gain", "allocation", "frontier", "gain-curve", "leave-one-out", "surface-pairs")


def paths(folder: Path, names: Sequence[str]) -> list[str]:
    return [piece for name in names for piece in (f"--{name}", str(folder / f"{name}.parquet"))]


def run(folder: Path, endpoints: Sequence[Row], texts: Sequence[Row], **changes: Any) -> list[Row]:
    """Fit and gain on the endpoints, then the subsets."""
    folder.mkdir(parents=True, exist_ok=True)
    write_endpoints(folder / "endpoints.parquet", endpoints)
    write_sources(folder / "sources.parquet", texts)
    spec = ["--spec", json.dumps(SPEC | {"compute_budgets": BUDGETS} | changes)]
    fit.main([*spec, *paths(folder, ["endpoints", *FITTED])])
    (folder / "without.parquet").write_bytes((folder / "surfaces-without.parquet").read_bytes())
    inputs = paths(folder, ["endpoints", "coefficients", "draws", "without"])
    gain.main([*spec, *inputs, *paths(folder, ANSWERS)])
    subsets.main([*spec, *inputs, *paths(folder, ["sources"]), "--out", str(folder / "subsets.parquet")])
    return pq.read_table(folder / "subsets.parquet").to_pylist()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    folder = tmp_path_factory.mktemp("noisy")
    endpoints = endpoint_rows(noise=0.3)
    return folder, run(folder, endpoints, source_rows(endpoints, FEW))


def test_the_whole_is_the_fit_on_the_whole_loss(noisy: tuple[Path, list[Row]]) -> None:
    folder, rows = noisy
    whole = [row for row in rows if row["kind"] == "all"]
    main = pq.read_table(folder / "ce-gain.parquet").to_pylist()
    assert len(whole) == len(main) == 6
    for mine, theirs in zip(whole, main, strict=True):
        for name in ("budget_flops", "sparsity", "S", "endpoints", "draws", "s_convention", "window", "resolved"):
            assert mine[name] == theirs[name], name
        assert mine["reason"] == theirs["reason"] or "jackknife" in theirs["reason"]
        for name in ("gain", "gain_low", "gain_high", "multiplier"):
            assert mine[name] == pytest.approx(theirs[name], abs=1e-7), name
    coefficients = {row["architecture"]: row for row in pq.read_table(folder / "coefficients.parquet").to_pylist()}
    for name in ("E", "A", "K"):
        assert whole[0][name] == pytest.approx(coefficients["smelt"][name], rel=1e-6)
        assert whole[0][f"{name}_reference"] == pytest.approx(coefficients["baseline"][name], rel=1e-6)


def test_rows_of_every_kind(noisy: tuple[Path, list[Row]]) -> None:
    _, rows = noisy
    here = [row for row in rows if (row["budget_flops"], row["sparsity"]) == (1e21, "S95")]
    assert len(here) * 6 == len(rows)
    kinds = [(row["kind"], row["subset"], row["category"], row["sources"]) for row in here]
    assert kinds[:3] == [("all", "all", None, 5), ("category", "Code", None, 2), ("category", "Web", None, 3)]
    assert kinds[3:5] == [("source", "co_0", "Code", 1), ("source", "co_1", "Code", 1)]
    assert kinds[-4:] == [("quartile", f"Q{i}", None, size) for i, size in ((1, 2), (2, 1), (3, 1), (4, 1))]
    for row in here:
        assert row["gain_low"] < row["gain"] < row["gain_high"]
        assert (row["draws"], row["architecture"], row["reference"]) == (SPEC["bootstrap_draws"], "smelt", "baseline")
        reason = row["reason"] or ""
        assert ("the interval spans zero" in reason) == (row["gain_low"] <= 0 <= row["gain_high"])
        assert row["resolved"] == (reason == "")
        assert (row["E"] is None) == (row["kind"] == "quartile")


def test_known_surfaces_of_all_39_sources_are_found(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    rows = run(tmp_path, endpoints, source_rows(endpoints), bootstrap_draws=3)
    known = {name: dict(zip([name for name, _ in sources()], values, strict=True)) for name, values in levels().items()}
    found = [row for row in rows if row["kind"] == "source"]
    assert len(found) == 39 * 6
    assert sum(row["kind"] == "category" for row in rows) == len(COUNTS) * 6
    for row in found:
        sections = []
        for name, end in (("smelt", ""), ("baseline", "_reference")):
            E, A, K = known[name][row["subset"]]
            np.testing.assert_allclose([row[f"{level}{end}"] for level in "EAK"], [E, A, K], rtol=1e-3)
            *_, a, b, c = SURFACES[name]
            sections.append(Slice(E, A * (1 - row["S"]) ** b, K, a, c))
        assert row["gain"] == pytest.approx(float(frontier.gain(*sections, row["budget_flops"])), abs=1e-4)


def test_no_start_of_any_draw_does_better(noisy: tuple[Path, list[Row]]) -> None:
    folder, _ = noisy
    settings = Settings(**SPEC)
    read = read_points(folder / "endpoints.parquet", settings)
    fitted = [folder / f"{name}.parquet" for name in ("coefficients", "draws", "without")]
    side = read_surfaces(read, settings, *fitted)[1]
    loss = np.full(144, np.nan)
    loss[side.points.rows] = side.points.loss * 1.4 - 0.3 + 0.02 * np.random.default_rng(0).normal(size=72)
    (found,) = level_fits.refit([side], {"part": loss}, settings)["part"]
    assert found.draws is not None
    assert found.draws.converged.all()
    assert side.draws is not None
    np.testing.assert_array_equal(found.draws.values[:, 3:], side.draws.values[:, 3:])  # the draws' own exponents
    design = side.surface.design(dataclasses.replace(side.points, loss=loss[side.points.rows]))
    weights = resampling.draw_weights({"smelt": side.points}, settings)["smelt"]
    held = np.array([False] * 3 + [True] * 3)
    ends = side.surface.to_theta(found.draws.values, design)
    reached = newton.minimise(ends, design, weights, settings.huber_delta, held).objective
    for seed in range(4):
        start = ends.copy()
        start[:, :3] += np.random.default_rng(seed).normal(scale=[0.1, 0.5, 0.5], size=(len(ends), 3))
        again = newton.minimise(start, design, weights, settings.huber_delta, held, steps=200)
        assert (reached <= again.objective * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        (
            "at_bound",
            ["E", "none"],
            "baseline: E on a bound of the fit of the whole loss, whose exponents cannot be shared",
        ),
        ("E", [1.44, None], "smelt: the whole loss has no surface whose exponents could be shared (too few)"),
    ],
)
def test_without_exponents_there_is_no_gain_and_the_reason_is_said(
    noisy: tuple[Path, list[Row]], tmp_path: Path, column: str, values: list[Any], reason: str
) -> None:
    folder, _ = noisy
    fitted = pq.read_table(folder / "coefficients.parquet")
    for name, found in ((column, values), ("reason", [None, "too few"])):
        fitted = fitted.set_column(fitted.column_names.index(name), fitted.schema.field(name), [found])
    pq.write_table(fitted, tmp_path / "coefficients.parquet")
    inputs = [*paths(folder, ["endpoints", "draws", "without", "sources"]), *paths(tmp_path, ["coefficients", "out"])]
    subsets.main(["--spec", json.dumps(SPEC | {"compute_budgets": BUDGETS}), *inputs])
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(rows) == 12 * 6
    for row in rows:
        assert (row["gain"], row["gain_low"], row["multiplier"], row["draws"]) == (None, None, None, 0)
        assert (row["resolved"], row["reason"]) == (False, reason)
        assert row["window"] in ("edge", "extrapolated")


def test_bytes_and_provenance(noisy: tuple[Path, list[Row]], tmp_path: Path) -> None:
    folder, _ = noisy
    endpoints = endpoint_rows(noise=0.3)
    run(tmp_path, endpoints, source_rows(endpoints, FEW))
    assert (tmp_path / "subsets.parquet").read_bytes() == (folder / "subsets.parquet").read_bytes()
    assert read_provenance(tmp_path / "subsets.parquet")["module"] == "smelt.scaling.subsets.subsets"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[5:], "no loss of the endpoint baseline, 100M, S85, 0, 10000"),
        (
            lambda rows: rows[:-1],
            r"source 'we_2' \(Web\) is not in all endpoints alike \(see smelt, 1.6B, S97, 0, 196075",
        ),
        (
            lambda rows: [row | {"category": "Web"} if i == 5 else row for i, row in enumerate(rows)],
            "is not in all endpoints alike",
        ),
    ],
)
def test_what_cannot_be_compared(noisy: tuple[Path, list[Row]], tmp_path: Path, change: Any, message: str) -> None:
    folder, _ = noisy
    write_sources(tmp_path / "sources.parquet", change(source_rows(endpoint_rows(noise=0.3), FEW)))
    inputs = paths(folder, ["endpoints", "coefficients", "draws", "without"])
    with pytest.raises(UserError, match=message):
        subsets.main(
            ["--spec", json.dumps(SPEC), *inputs, *paths(tmp_path, ["sources"]), "--out", str(tmp_path / "out.parquet")]
        )


def test_a_surface_of_all_architectures_says_nothing_of_parts() -> None:
    one = points(endpoint_rows(), "smelt")
    draws = Draws(np.ones((60, 6)), np.ones(60, bool), np.ones(60, bool), np.array(["none"] * 60))
    side = FittedSurface(one, catalogue.LOOPED_DEPTH, np.ones(6), "none", "", draws)
    (found,) = level_fits.refit([side], {"part": one.loss}, Settings(**SPEC))["part"]
    assert found.values is None
    assert found.reason == "one surface for all architectures says the same of all parts of the text"


def test_a_draw_just_above_a_bound_converges(tmp_path: Path) -> None:
    """With exponents of Chinchilla's law on data of Eq. 2 many draws have E on its bound."""
    endpoints = endpoint_rows(noise=0.5)
    rows = run(tmp_path, endpoints, source_rows(endpoints, FEW), surface="chinchilla")
    main = pq.read_table(tmp_path / "ce-gain.parquet").to_pylist()
    for mine, theirs in zip([row for row in rows if row["kind"] == "all"], main, strict=True):
        assert mine["draws"] == theirs["draws"]
        assert mine["gain_low"] == pytest.approx(theirs["gain_low"], abs=1e-6)


# Quartiles


def pairs_of(*losses: Sequence[float]) -> tuple[pd.DataFrame, np.ndarray]:
    """Pairs whose first endpoints have these losses."""
    first = np.arange(len(losses))
    return pd.DataFrame({"first": first, "second": first + len(losses)}), np.array(losses)


def test_ranks_are_taken_in_each_pair() -> None:
    shares = subsets.shares(*pairs_of([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares[0], [0.25, 0.25, 0, 0, 0.25, 0.25])
    np.testing.assert_allclose(shares[3], [0.5, 0, 0, 0, 0, 0.5])


def test_39_sources_make_groups_of_10_10_10_9_by_the_lowest_loss_first() -> None:
    shares = subsets.shares(*pairs_of(np.arange(39.0).tolist()))
    assert (shares > 0).sum(axis=1).tolist() == [10, 10, 10, 9]
    assert (shares[0, :10] == 0.1).all()


SHIFTS = np.array([-1.0, 0.0, 0.5, 0.5])  # of a gain without each scale


def gain_row(
    value: float | None, draws: Sequence[float] = (), window: str = "inside", spread: float = 0.0
) -> subsets.Gain:
    if value is None:
        return subsets.Gain({"window": window, "reason": "smelt: E on a bound of the fit"}, None, None, None)
    drawn = np.array(draws or [value] * 100, dtype=np.float64)
    usable = subsets.UsableDraws(np.ones(drawn.size, dtype=bool), "", "")
    by_scale = Jackknife(-np.log1p(-min(value, 0.5)), -np.log1p(-min(value, 0.5) + SHIFTS * spread), "")
    row = {"window": window, "gain": value, "gain_low": value, "gain_high": value}
    return subsets.Gain(row, drawn, usable, by_scale)


def test_a_quartile_whose_scales_do_not_agree_is_not_resolved() -> None:
    gains = [gain_row(0.1, spread=0.1), gain_row(0.2, spread=0.1)]
    row = subsets.quartile_row(np.array([0.5, 0.5]), gains, list("ab"))
    assert (row["resolved"], row["reason"]) == (False, "the interval over scales spans zero")
    missing = gains[0]._replace(by_scale=Jackknife(0.1, np.empty(0), "no interval over scales: why"))
    row = subsets.quartile_row(np.array([0.5, 0.5]), [missing, gains[1]], list("ab"))
    assert (row["resolved"], row["reason"]) == (False, "no interval over scales: why")


def test_a_quartile_is_the_mean_of_its_sources_gains() -> None:
    row = subsets.quartile_row(
        np.array([0.5, 0.25, 0.25, 0]),
        [gain_row(0.1), gain_row(0.2, window="edge"), gain_row(0.3), gain_row(9.0, window="extrapolated")],
        list("abcd"),
    )
    assert row["gain"] == pytest.approx(0.175)
    assert row["multiplier"] == pytest.approx(1 / (1 - 0.175))
    assert (row["window"], row["resolved"], row["draws"], row["reason"]) == ("edge", True, 100, None)


def test_few_draws_give_a_quartile_no_interval() -> None:
    row = subsets.quartile_row(np.ones(1), [gain_row(0.1, [0.1] * 39)], ["a"])
    assert (row["gain"], row["gain_low"], row["draws"], row["resolved"]) == (pytest.approx(0.1), None, 0, False)
    assert row["reason"] == "no interval: 39 draws are too few for its ends; 40 at least (scaling.bootstrap_draws)"


def test_few_sources_without_a_gain_are_left_out_and_named() -> None:
    gains = [gain_row(0.1)] * 19 + [gain_row(None)]
    row = subsets.quartile_row(np.full(20, 0.05), gains, [f"s{i}" for i in range(20)])
    assert row["gain"] == pytest.approx(0.1)
    assert row["reason"] == "left out, without a gain: s19 (5 % of the quartile)"


def test_many_sources_without_a_gain_leave_none() -> None:
    row = subsets.quartile_row(np.full(4, 0.25), [gain_row(0.1)] * 3 + [gain_row(None)], list("abcd"))
    assert row.get("gain") is None
    assert row["reason"] == "1 of its sources, 25 % of the quartile, have no gain"
    row = subsets.quartile_row(np.full(2, 0.5), [gain_row(None)] * 2, list("ab"))
    assert row["reason"] == "smelt: E on a bound of the fit"


def test_a_grid_without_pairs_and_a_text_with_few_sources(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    for row in endpoints:  # another seed, so that no pair matches
        row["seed"] = int(row["architecture"] == "smelt")
    rows = run(tmp_path / "a", endpoints, source_rows(endpoints, FEW))
    assert {row["reason"] for row in rows if row["kind"] == "quartile"} == {"no matched pair"}
    rows = run(tmp_path / "b", endpoint_rows(), source_rows(endpoint_rows(), {"Code": 2}))
    found = [row for row in rows if row["kind"] == "quartile"]
    assert {row["reason"] for row in found} == {"2 sources, fewer than quartiles"}
    assert {row["gain"] for row in found} == {None}


# Draws


def test_draws_that_the_whole_does_not_identify_stay_out() -> None:
    settings = Settings("s", "baseline", VALUES, bootstrap_draws=4)
    one = points(endpoint_rows(), "smelt")
    values = np.tile(SURFACES["smelt"], (4, 1))
    values[0] = np.nan
    flags = np.array([False, True, True, True])
    draws = Draws(values, flags, flags, np.array(["none", "a", "E K", "none"]))
    side = FittedSurface(one, catalogue.SMELT, np.array(SURFACES["smelt"]), "none", "", draws)
    (found,) = level_fits.refit([side], {"part": one.loss}, settings)["part"]
    assert found.draws is not None
    assert found.draws.converged.tolist() == [False, True, True, True]
    assert np.isnan(found.draws.values[0]).all()
    assert found.draws.at_bound.tolist() == ["none", "a", "none", "none"]  # E and K are fitted anew
    np.testing.assert_allclose(found.draws.values[1:, :3], values[1:, :3], rtol=1e-6)
