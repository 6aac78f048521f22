"""Several seeds of one grid through the stage: endpoints of each, cells resampled whole, gains of all together."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from smelt.scaling.endpoints import collect
from smelt.scaling.fitting import resampling
from smelt.scaling.settings import Settings
from tests.scaling.published import (
    BATCH,
    CONTEXT,
    DECAY,
    RMSE,
    SPEC,
    STEPS,
    SURFACES,
    VALUES,
    endpoint_rows,
    part,
    points,
    run_stage,
    surface_loss,
    write_losses,
)

SEEDS = (0, 1)
CELLS = part(3, 2)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Endpoints from the held-out losses of 24 runs, each with noise of its own: 2 x 6 cells x 2 seeds."""
    folder, random = tmp_path_factory.mktemp("seeds"), np.random.default_rng(5)
    runs, files = [], []
    for place, (name, surface) in enumerate(SURFACES.items()):
        for (scale, sparsity), budgets in CELLS.items():
            flops, value = budgets[place]
            for seed in SEEDS:
                run = f"{name}-{scale}-{sparsity}-seed{seed}"
                branches = {}
                for step in STEPS:
                    loss = surface_loss(surface, flops, value, (step + DECAY) * BATCH * CONTEXT)
                    loss += RMSE[name] * random.normal()
                    branches[step] = {"document": ["d"], "source": ["s"], "tokens": [100], "loss": [100 * loss]}
                files.append(write_losses(folder / f"{run}.parquet", run, branches))
                runs.append(
                    {"run": run, "architecture": name, "scale": scale, "sparsity": sparsity, "seed": seed, "S": value}
                    | {"flops_per_token": float(flops), "params": int(flops), "kv_bytes_per_token": 512}
                    | {
                        "S_own": None,
                        "S_baseline": value,
                        "S_nominal": VALUES[sparsity],
                        "batch_contexts": BATCH,
                        "branch_steps": [],
                        "decay_steps": DECAY,
                    }
                    | {"active_params": int(flops) // 6, "looped_params": 0, "visits": 1, "expansion": 8.0}
                )
    spec = json.dumps({"context": CONTEXT, "s_convention": "baseline", "runs": runs})
    out = folder / "endpoints.parquet"
    collect.main(["--spec", spec, "--losses", *map(str, files), "--out", str(out)])
    return pq.read_table(out).to_pylist()


def test_every_seed_has_its_endpoints(collected: list[dict[str, Any]]) -> None:
    keys = [
        tuple(row[key] for key in ("architecture", "scale", "sparsity", "seed", "branch_step")) for row in collected
    ]
    assert len(keys) == len(set(keys)) == 2 * len(CELLS) * len(SEEDS) * len(STEPS)
    losses = {key: row["loss"] for key, row in zip(keys, collected, strict=True)}
    assert all(losses[key] != losses[(*key[:3], 1, key[4])] for key in keys if key[3] == 0)


def test_a_draw_takes_all_seeds_of_a_cell_or_none(collected: list[dict[str, Any]]) -> None:
    mine = points(collected, "smelt")
    drawn = resampling.draw_weights({"smelt": mine}, Settings(**(SPEC | {"bootstrap_draws": 50})))["smelt"]  # type: ignore[arg-type]
    for cell in CELLS:
        there = np.array([found == cell for found in mine.cells])
        assert there.sum() == len(SEEDS) * len(STEPS)
        assert (drawn[:, there] == drawn[:, there][:, :1]).all()


def test_gains_come_from_all_seeds_together(collected: list[dict[str, Any]], tmp_path: Path) -> None:
    found = run_stage(tmp_path / "both", collected)
    assert {row["endpoints"] for row in found["ce_gain"]} == {2 * len(CELLS) * len(SEEDS) * len(STEPS)}
    assert {row["endpoints"] for row in found["coefficients"]} == {len(CELLS) * len(SEEDS) * len(STEPS)}
    assert len(found["residuals"]) == len(collected)
    by_cell = [row for row in found["surfaces_without"] if row["sparsity"] is not None]
    assert len(by_cell) == 2 * len(CELLS)  # whatever the seeds
    assert len(found["surfaces_without"]) - len(by_cell) == 2 * len({scale for scale, _ in CELLS})
    truth = run_stage(tmp_path / "truth", endpoint_rows(CELLS))
    one = run_stage(tmp_path / "one", [row for row in collected if row["seed"] == 0])
    for row, other, exact in zip(found["ce_gain"], one["ce_gain"], truth["ce_gain"], strict=True):
        if row["window"] == "inside":
            assert row["gain"] == pytest.approx(exact["gain"], abs=0.05)
        assert row["gain"] != other["gain"]


def test_two_equal_seeds_are_fitted_like_one(tmp_path: Path) -> None:
    rows = endpoint_rows(CELLS, noise=1.0, seed=3)
    one = run_stage(tmp_path / "one", rows)
    two = run_stage(tmp_path / "two", [*rows, *(row | {"seed": 1} for row in rows)])
    for first, second in zip(one["ce_gain"], two["ce_gain"], strict=True):
        assert second["gain"] == pytest.approx(first["gain"], abs=1e-6)
        assert second["gain_low"] == pytest.approx(first["gain_low"], abs=1e-4)
        assert second["gain_high"] == pytest.approx(first["gain_high"], abs=1e-4)
