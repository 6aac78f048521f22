"""Cells are resampled as wholes, alike for all architectures, and unidentified draws are seen."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from smelt.errors import UserError
from smelt.scaling.fitting import point_fit, refit, resampling
from smelt.scaling.fitting.fit import fit_surfaces
from smelt.scaling.settings import Settings
from smelt.surfaces.catalogue import SMELT
from smelt.surfaces.points import Points
from tests.scaling.published import SPEC, SURFACES, endpoint_rows, part, points

SETTINGS = Settings(**SPEC)  # type: ignore[arg-type]


def using(**changes: Any) -> Settings:
    return dataclasses.replace(SETTINGS, **changes)


def both(rows: list[dict[str, Any]]) -> dict[str, Points]:
    return {name: points(rows, name) for name in ("baseline", "smelt")}


def doubled() -> dict[str, Points]:
    """Both architectures, one of them with two seeds."""
    rows = endpoint_rows()
    return both(rows + [row | {"seed": 1} for row in rows if row["architecture"] == "smelt"])


@pytest.mark.parametrize("resample", resampling.RESAMPLES)
def test_draws_depend_on_seed_and_index_alone(resample: str) -> None:
    units = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    few, many = (
        resampling.weights(units, using(bootstrap_draws=count, seed=7, resample=resample)) for count in (5, 50)
    )
    np.testing.assert_array_equal(few, many[:5])
    assert (many.sum(axis=1) == 4).all()
    assert (many != resampling.weights(units, using(bootstrap_draws=50, seed=8, resample=resample))).any()


def test_every_unit_comes_up_equally_often() -> None:
    drawn = resampling.weights([(str(cell), "x") for cell in range(12)], using(bootstrap_draws=20_000))
    np.testing.assert_allclose(drawn.mean(axis=0), 1, atol=0.03)
    np.testing.assert_allclose(drawn.var(axis=0), 11 / 12, atol=0.04)


def test_cells_by_scale_keeps_every_scale() -> None:
    units = [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"), ("b", "z")]
    drawn = resampling.weights(units, using(bootstrap_draws=200, resample="cells_by_scale"))
    assert (drawn[:, [0, 2]].sum(axis=1) == 2).all()
    assert (drawn[:, [1, 3, 4]].sum(axis=1) == 3).all()
    assert set(np.unique(drawn)) == {0, 1, 2, 3}


def test_a_scale_with_a_single_cell_cannot_be_resampled_within_itself() -> None:
    with pytest.raises(UserError, match="cells_by_scale, but scale b has a single cell"):
        resampling.weights([("a", "x"), ("a", "y"), ("b", "x")], using(bootstrap_draws=5, resample="cells_by_scale"))


@pytest.mark.parametrize("resample", ["cells", "cells_by_scale"])
def test_a_cell_goes_in_or_out_as_a_whole_for_both_architectures(resample: str) -> None:
    sides = doubled()
    drawn = resampling.draw_weights(sides, using(bootstrap_draws=20, resample=resample))
    per_cell = {}
    for name, side in sides.items():
        for cell in set(side.cells):
            mine = [at for at, one in enumerate(side.cells) if one == cell]
            assert len(mine) == (6 if name == "baseline" else 12)
            assert (np.ptp(drawn[name][:, mine], axis=1) == 0).all()
            expected = per_cell.setdefault(cell, drawn[name][:, mine[0]])
            np.testing.assert_array_equal(drawn[name][:, mine[0]], expected)


def test_endpoints_that_are_paired_share_their_draws() -> None:
    sides = both(endpoint_rows())
    drawn = resampling.draw_weights(sides, using(bootstrap_draws=20, resample="endpoints"))
    keys = {name: list(zip(side.cells, side.tokens.tolist(), strict=True)) for name, side in sides.items()}
    order = [keys["smelt"].index(key) for key in keys["baseline"]]
    np.testing.assert_array_equal(drawn["baseline"], drawn["smelt"][:, order])
    assert len(np.unique(drawn["baseline"], axis=1).T) > 60  # columns of their own
    more = doubled()["smelt"]
    assert len(set(resampling.unit_keys(more, "endpoints"))) == 144


def test_leaving_out_each_cell() -> None:
    side = points(endpoint_rows(), "baseline")
    cells = sorted(set(side.cells))
    kept = resampling.without_each(side.cells, cells)
    assert kept.shape == (12, 72)
    assert (kept.sum(axis=1) == 66).all()
    assert (kept.sum(axis=0) == 11).all()
    assert not kept[3, [one == cells[3] for one in side.cells]].any()
    assert resampling.without_each(side.scale.tolist(), ["100M", "600M"]).sum(axis=1).tolist() == [54, 54]


# Exact shares where known: 2 x 2 needs all four cells, n x 1 three of n, since E, A and a stand in one line.
@pytest.mark.parametrize(
    ("scales", "sparsities", "share", "near"),
    [(2, 2, 1 - 24 / 256, 0.02), (3, 1, 1 - 6 / 27, 0.03), (4, 1, 1 - 168 / 256, 0.03), (3, 3, 0.004, 0.004)],
)
def test_share_of_unidentified_draws(scales: int, sparsities: int, share: float, near: float) -> None:
    side = points(endpoint_rows(part(scales, sparsities)), "baseline")
    design = SMELT.design(side, {name: value for name, (value, _) in SMELT.fixed(side).items()})
    drawn = resampling.draw_weights({"one": side}, using(bootstrap_draws=2000, seed=1))["one"]
    assert 1 - refit.identified(side, design, drawn).mean() == pytest.approx(share, abs=near)


def test_a_stratum_of_two_cells_leaves_fewer_unidentified() -> None:
    side = points(endpoint_rows(part(3, 2)), "baseline")
    design = SMELT.design(side)
    shares = [
        refit.identified(
            side, design, resampling.draw_weights({"one": side}, using(bootstrap_draws=2000, resample=how))["one"]
        )
        for how in ("cells", "cells_by_scale")
    ]
    assert shares[0].mean() < 0.8
    assert shares[1].mean() > shares[0].mean()


@pytest.mark.parametrize(
    ("scales", "sparsities", "steps", "held", "expected"),
    [
        (4, 3, (10_000, 100_000, 196_075), {}, True),
        (4, 3, (10_000, 196_075), {}, False),  # E, K and c need three token counts
        (1, 3, (10_000, 100_000, 196_075), {}, False),
        (2, 1, (10_000, 100_000, 196_075), {"b": 0.0}, False),
        (3, 1, (10_000, 100_000, 196_075), {"b": 0.0}, True),
        (3, 1, (10_000, 100_000, 196_075), {}, False),
    ],
)
def test_rank_of_whole_grids(
    scales: int, sparsities: int, steps: tuple[int, ...], held: dict[str, float], expected: bool
) -> None:
    side = points(endpoint_rows(part(scales, sparsities), steps=steps), "baseline")
    design = SMELT.design(side, held)
    assert refit.identified(side, design, np.ones((1, side.loss.size)))[0] == expected


def test_equal_surfaces_get_equal_draws() -> None:
    """Pairing: on the same data both architectures have the same surface in every draw."""
    rows = endpoint_rows(surfaces={"baseline": SURFACES["baseline"]}, noise=1.0, seed=2)
    twin = points([row | {"architecture": "smelt"} for row in rows], "smelt")
    found = fit_surfaces({"baseline": points(rows, "baseline"), "smelt": twin}, using(bootstrap_draws=10))
    first, second = (one.drawn.draws for one in found.values())
    np.testing.assert_array_equal(first.values, second.values)
    assert np.ptp(first.values[:, 3]) > 0.001
    assert first.converged.all()


def test_draws_of_data_without_noise_are_the_truth() -> None:
    found = fit_surfaces(both(endpoint_rows()), using(bootstrap_draws=40))
    for name, one in found.items():
        assert one.drawn.draws.converged.all()
        np.testing.assert_allclose(one.drawn.draws.values, np.tile(SURFACES[name], (40, 1)), rtol=1e-5)
        np.testing.assert_allclose(one.without_cells.draws.values, np.tile(SURFACES[name], (12, 1)), rtol=1e-5)
        np.testing.assert_allclose(one.without_scales.draws.values, np.tile(SURFACES[name], (4, 1)), rtol=1e-5)


def test_a_better_solution_of_another_draw_is_taken() -> None:
    """Draws that begin at a poor place of their own still end where the others do."""
    side = points(endpoint_rows(noise=1.0, seed=9), "smelt")
    design = SMELT.design(side)
    fit = point_fit.fit(side, SMELT, design, SETTINGS)
    drawn = resampling.draw_weights({"one": side}, using(bootstrap_draws=40))["one"]
    whole = refit.refit(fit.theta, design, drawn, SETTINGS)
    single = refit.refit(fit.theta, design, drawn, SETTINGS, starts=1)
    assert whole.misses >= 0
    np.testing.assert_allclose(single.minimum.objective, whole.minimum.objective, rtol=1e-9)
