"""Cells are resampled as wholes, alike for all architectures, and unidentified draws are seen."""

import numpy as np
import pytest

from smelt.scaling import bootstrap
from smelt.scaling.settings import Points, Settings
from smelt.scaling.surface import Coefficients
from tests.scaling.published import SPEC, SURFACES, endpoint_rows, part, points


def both(rows: list[dict]) -> dict[str, Points]:
    return {name: points(rows, name) for name in ("baseline", "smelt")}


def test_draws_depend_on_seed_and_index_alone() -> None:
    cells = [("a", "x"), ("b", "x"), ("c", "x")]
    few, many = bootstrap.cell_weights(cells, 5, 7), bootstrap.cell_weights(cells, 50, 7)
    np.testing.assert_array_equal(few, many[:5])
    assert (many.sum(axis=1) == 3).all()
    assert (many != bootstrap.cell_weights(cells, 50, 8)).any()


def test_a_cell_goes_in_or_out_as_a_whole_for_both_architectures() -> None:
    rows = endpoint_rows()
    rows += [row | {"seed": 1} for row in rows if row["architecture"] == "smelt"]
    sides = both(rows)
    cells = sorted(set(sides["baseline"].cells))
    drawn = bootstrap.cell_weights(cells, 20, 0)
    for side in sides.values():
        weights = bootstrap.point_weights(drawn, cells, side)
        for place, cell in enumerate(cells):
            mine = [at for at, one in enumerate(side.cells) if one == cell]
            assert len(mine) == (6 if side.architecture == "baseline" else 12)
            np.testing.assert_array_equal(weights[:, mine], np.repeat(drawn[:, [place]], len(mine), axis=1))


# Exact shares where known: 2 x 2 needs all four cells, n x 1 three of n, since E, A and a stand in one line.
@pytest.mark.parametrize(
    ("scales", "sparsities", "share", "near"),
    [(2, 2, 1 - 24 / 256, 0.02), (3, 1, 1 - 6 / 27, 0.03), (4, 1, 1 - 168 / 256, 0.03), (3, 3, 0.004, 0.004)],
)
def test_share_of_unidentified_draws(scales: int, sparsities: int, share: float, near: float) -> None:
    side = points(endpoint_rows(part(scales, sparsities)), "baseline")
    cells = sorted(set(side.cells))
    weights = bootstrap.point_weights(bootstrap.cell_weights(cells, 2000, 1), cells, side)
    assert 1 - bootstrap.identified(side, weights, sparsities == 1).mean() == pytest.approx(share, abs=near)


@pytest.mark.parametrize(
    ("scales", "sparsities", "steps", "fix_b", "expected"),
    [
        (4, 3, (10_000, 100_000, 196_075), False, True),
        (4, 3, (10_000, 196_075), False, False),  # E, K and c need three token counts
        (1, 3, (10_000, 100_000, 196_075), False, False),
        (2, 1, (10_000, 100_000, 196_075), True, False),
        (3, 1, (10_000, 100_000, 196_075), True, True),
        (3, 1, (10_000, 100_000, 196_075), False, False),
    ],
)
def test_rank_of_whole_grids(scales: int, sparsities: int, steps: tuple[int, ...], fix_b: bool, expected: bool) -> None:
    side = points(endpoint_rows(part(scales, sparsities), steps=steps), "baseline")
    assert bootstrap.identified(side, np.ones((1, side.loss.size)), fix_b)[0] == expected


def test_equal_surfaces_get_equal_draws() -> None:
    """Pairing: on the same data both architectures have the same surface in every draw."""
    from smelt.scaling.fit import fit_surfaces

    one: dict[str, Coefficients] = {"baseline": SURFACES["baseline"]}
    rows = endpoint_rows(surfaces=one, noise=1.0, seed=2)
    twin = points([row | {"architecture": "smelt"} for row in rows], "smelt")
    settings = Settings(**{**SPEC, "draws": 10})  # type: ignore[arg-type]
    first, second = fit_surfaces({"baseline": points(rows, "baseline"), "smelt": twin}, settings)
    np.testing.assert_array_equal(first.draws.surface, second.draws.surface)
    assert np.ptp(first.draws.surface.a) > 0.001
    assert first.draws.converged.all()
