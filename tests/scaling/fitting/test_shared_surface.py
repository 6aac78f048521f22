"""The stage with a surface that all architectures share: each is read at the shape of its own endpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.surfaces.catalogue import SURFACES, Surface
from tests.scaling.gains.test_sensitivity import run as sensitivity_rows
from tests.scaling.published import VALUES, endpoint_rows, run_stage

VALUES_OF = {  # E, A, K, a, c, phi
    "looped_depth": np.array([1.44, 300.0, 2e6, 0.32, 0.66, 0.4]),
    "chinchilla": np.array([1.44, 700.0, 2e6, 0.37, 0.66]),
}


def shaped(name: str) -> list[dict[str, Any]]:
    """The published grid with loops for smelt, and losses on one surface."""
    surface: Surface = SURFACES[name]
    rows = endpoint_rows()
    for row in rows:
        looped = row["architecture"] == "smelt"
        active = row["flops_per_token"] / (9 if looped else 6)
        row |= {"active_params": int(active), "looped_params": int(active / 2) if looped else 0}
        row |= {"visits": 2 if looped else 1, "expansion": 12.0 if looped else 8.0, "params": int(20 * active)}
        columns = {key: np.array(row[key], dtype=np.float64) for key in ("tokens", "active_params", "looped_params")}
        columns |= {"flops": np.array(row["flops_per_token"]), "visits": np.array(float(row["visits"]))}
        row["loss"] = row["loss_token_mean"] = float(surface.predict(VALUES_OF[name], columns))
    return rows


def test_loops_alone_make_the_difference(tmp_path: Path) -> None:
    stage = run_stage(
        tmp_path, shaped("looped_depth"), surface="looped_depth", compute_budgets=[1e20, 1e21], bootstrap_draws=40
    )
    phi = VALUES_OF["looped_depth"][-1]
    # Effective parameters for each FLOP per token; the gain follows from their ratio alone.
    ratio = np.log((1 + 2**phi) / 2 / 9) - np.log(1 / 6)
    expected = 1 - np.exp(-ratio)
    for row in stage["ce_gain"]:
        assert row["gain"] == pytest.approx(expected, abs=2e-4)
        assert (row["surface"], row["endpoints"]) == ("looped_depth", 144)
        assert row["inversion_error"] < 1e-8
        assert row["jackknife_low"] <= row["gain"] + 1e-4
    (pair,) = stage["surface_pairs"]
    assert (pair["gamma_ratio"], pair["data_crossover_tokens"]) == (1, None)
    assert pair["reason"] == "no crossover: the data terms are the same"
    assert len(stage["leave_one_out"]) == 12 * 2 * len(VALUES)


def test_a_form_without_sparsity_gives_one_gain_at_all(tmp_path: Path) -> None:
    stage = run_stage(tmp_path, shaped("chinchilla"), surface="chinchilla", compute_budgets=[1e21], bootstrap_draws=40)
    assert [row["gain"] for row in stage["ce_gain"]] == pytest.approx([0, 0, 0], abs=1e-4)
    assert all(row["b"] is None for row in stage["coefficients"])


def test_every_form_that_the_columns_allow_is_among_the_variations(tmp_path: Path) -> None:
    rows = sensitivity_rows(tmp_path, shaped("looped_depth"))
    found = {row["value"]: row for row in rows if row["varied"] == "surface"}
    assert list(found) == ["smelt", *(name for name in SURFACES if name != "smelt")]
    expected = 1 - np.exp(-(np.log((1 + 2**0.4) / 2 / 9) - np.log(1 / 6)))
    for name in ("smelt", "chinchilla", "looped_depth"):
        assert found[name]["gain"] == pytest.approx(expected, abs=1e-3)
    # Two numbers of visits do not tell how their effect saturates.
    assert found["looped_moe"]["gain"] is None
    assert "do not determine 13 coefficients" in found["looped_moe"]["reason"]
