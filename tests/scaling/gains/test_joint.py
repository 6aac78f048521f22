"""All gains together: the test over scales against arithmetic, and studies without a true gain."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks import coverage
from smelt.scaling.gains import joint
from smelt.scaling.settings import Settings
from smelt.surfaces.points import Points
from tests.scaling.published import GRID, SPEC, SURFACES, Grid, endpoint_rows, part, points

SETTINGS = Settings(**SPEC)  # type: ignore[arg-type]
FLAT = {"baseline": SURFACES["baseline"], "smelt": SURFACES["baseline"]}  # a true gain of zero


def side(name: str, rows: list[dict[str, Any]]) -> Points:
    return points(rows, name)


def ahead(stretch: float, **changes: Any) -> list[dict[str, Any]]:
    """Both on the baseline's surface, smelt as if F and D were `stretch` times as large."""
    E, A, K, a, b, c = SURFACES["baseline"]
    return endpoint_rows(surfaces=FLAT | {"smelt": np.array([E, A / stretch**a, K / stretch**c, a, b, c])}, **changes)


def test_a_lead_is_the_difference_of_the_losses_at_equal_size() -> None:
    """Alike but for the loss: the surface of both cancels, whatever it is."""
    rows = endpoint_rows(dense_grid(), FLAT)
    shift = dict(zip(("100M", "200M", "600M", "1.6B"), (0.01, 0.02, -0.01, 0.03), strict=True))
    moved = [row | {"loss": row["loss"] - shift[row["scale"]] * (row["architecture"] == "smelt")} for row in rows]
    leads = joint.scale_leads(side("smelt", moved), side("baseline", moved), SETTINGS)
    assert leads == pytest.approx([0.03, 0.01, 0.02, -0.01], abs=1e-12)  # scales by name


def dense_grid() -> Grid:
    return {cell: (baseline, baseline) for cell, (baseline, _) in GRID.items()}


def test_the_verdict_is_students_t_over_scales_with_holms_correction() -> None:
    rows = ahead(1.05, noise=1.0)
    others = [
        row | {"architecture": "other"} for row in ahead(1.0, noise=1.0, seed=1) if row["architecture"] == "smelt"
    ]
    by_name = {name: side(name, rows + others) for name in ("baseline", "smelt", "other")}
    found = joint.verdicts(by_name, SETTINGS)
    p = [
        float(ttest_1samp(joint.scale_leads(by_name[name], by_name["baseline"], SETTINGS), 0).pvalue)
        for name in ("smelt", "other")
    ]
    assert [found[name].p for name in ("smelt", "other")] == pytest.approx([min(2 * min(p), 1), max(p)])
    assert p[0] < p[1]
    assert found["smelt"].unresolved_because == []
    assert found["other"].unresolved_because == [f"all gains together are not told from zero (joint p {max(p):.2g})"]


def test_two_scales_in_common_are_too_few() -> None:
    rows = endpoint_rows(part(2, 3), noise=0.5)
    verdict = joint.verdicts({name: side(name, rows) for name in SURFACES}, SETTINGS)["smelt"]
    assert verdict.p is None
    said = "no test of all gains together: fewer than 3 scales have both architectures in a cell"
    assert verdict.unresolved_because == [said]


def test_a_surface_that_is_not_determined_leaves_no_test() -> None:
    rows = [row for row in endpoint_rows(GRID, steps=(10_000,)) if row["sparsity"] == "S85"]
    verdict = joint.verdicts({name: side(name, rows) for name in SURFACES}, SETTINGS)["smelt"]
    assert verdict.p is None
    assert "do not determine" in verdict.unresolved_because[0]


def test_a_surface_of_all_architectures_gives_way_to_one_that_does_not_know_them_apart() -> None:
    rows = ahead(1.02)
    plain = [joint.scale_leads(side("smelt", rows), side("baseline", rows), SETTINGS)]
    shared = dataclasses.replace(SETTINGS, surface="looped_depth")
    assert np.array_equal(joint.scale_leads(side("smelt", rows), side("baseline", rows), shared), plain[0])


@pytest.mark.parametrize("kind", ["5 dense run", "6 ladder run", "4x3 scale"])
def test_noise_that_runs_or_scales_share_resolves_nothing(kind: str) -> None:
    """Of these studies without a true gain some have a row whose bootstrap interval excludes zero."""
    design, noise = kind.rsplit(" ", 1)
    studies = [coverage.gains(coverage.simulated(design, noise, 0.0, seed), 60, seed) for seed in range(8)]
    rows = [row for study in studies for row in study if row["window"] != "extrapolated"]
    assert any(row["gain_low"] is not None and not row["gain_low"] <= 0 <= row["gain_high"] for row in rows)
    assert not any(row["resolved"] for row in rows)


def test_a_large_gain_is_resolved() -> None:
    rows = coverage.gains(coverage.simulated("4x3", "independent", 0.3, 0), 60)
    near = [row for row in rows if row["window"] != "extrapolated"]
    assert [row["resolved"] for row in near] == [True] * 6
    assert all(row["gain_low"] < 0.3 < row["gain_high"] for row in near)
