"""The table of iso-loss gains: pools by hand, no sign where there is none, and intervals that hold the truth."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from smelt import tables
from smelt.artifacts import read_provenance, write_table
from smelt.errors import UserError
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.scaling.gains import iso_loss_gain
from smelt.scaling.gains.iso_loss import pair_rows
from smelt.scaling.gains.iso_loss_gain import gain_of, pooled, resolved
from smelt.surfaces.points import Array
from tests.scaling.gains.straight_lines import SCALES, SPARSITIES, STEPS, Run, endpoints, grid, straight

GRIDS = 300  # simulated
ALL = {"kind": "all", "horizon": 4}


def analyse(frame: pd.DataFrame) -> pd.DataFrame:
    return iso_loss_gain.analyse(frame, "baseline", "own")


def chosen(found: pd.DataFrame, **names: Any) -> dict[str, Any]:
    """The one row with these values."""
    for name, value in names.items():
        found = found[found[name] == value]
    (row,) = tables.rows(found)
    return row


def test_pools_and_intervals_are_those_by_hand() -> None:
    by_scale = {name: place / 10 for place, name in enumerate(SCALES, start=1)}
    shift = dict(zip(SPARSITIES, (-0.02, 0.0, 0.05), strict=True))
    found = analyse(grid(lambda scale, sparsity: by_scale[scale] + shift[sparsity]))
    row = chosen(found, **ALL)
    cells = np.array([by_scale[scale] + shift[sparsity] for scale in SCALES for sparsity in SPARSITIES])
    means = cells.reshape(4, 3).mean(axis=1)
    reach = stats.t.ppf(0.975, 3) * means.std(ddof=1) / 2
    assert (row["cells"], row["pairs"], row["endpoints"], row["censored"], row["unit"]) == (12, 12, 96, 0, "scales")
    assert (row["reference"], row["s_convention"], row["tokens"], row["seed"]) == ("baseline", "own", 80, None)
    assert row["gain"] == pytest.approx(1 - math.exp(-cells.mean()))
    assert row["multiplier"] == pytest.approx(math.exp(cells.mean()))
    ends = [gain_of(cells.mean() - reach), gain_of(cells.mean() + reach)]
    assert [row["gain_low"], row["gain_high"]] == pytest.approx(ends)
    assert [row["scales_low"], row["scales_high"]] == [row["gain_low"], row["gain_high"]]
    assert row["p_value"] == pytest.approx(stats.ttest_1samp(means, 0).pvalue)
    reach = stats.t.ppf(0.975, 11) * cells.std(ddof=1) / math.sqrt(12)
    ends = [gain_of(cells.mean() - reach), gain_of(cells.mean() + reach)]
    assert [row["cells_low"], row["cells_high"]] == pytest.approx(ends)
    alone = chosen(found, kind="scale", horizon=4, scale="H2")
    assert (alone["unit"], alone["cells"], alone["resolved"]) == ("cells", 3, False)
    assert "one scale" in alone["reason"]
    single = chosen(found, kind="cell", horizon=4, scale="H2", sparsity="S95")
    assert (single["gain"], single["seed"], single["gain_low"]) == (pytest.approx(gain_of(0.2)), 0, None)


def test_the_interval_over_cells_counts_where_it_is_wider() -> None:
    shift = dict(zip(SPARSITIES, (-0.3, 0.0, 0.3), strict=True))  # the same mean at every scale
    row = chosen(analyse(grid(lambda scale, sparsity: 0.5 + shift[sparsity])), **ALL)
    assert row["unit"] == "cells"
    assert [row["gain_low"], row["gain_high"]] == [row["cells_low"], row["cells_high"]]
    assert row["scales_high"] - row["scales_low"] < 1e-9


def test_seeds_are_averaged_within_their_cell_first() -> None:
    losses: dict[Run, list[float]] = {}
    for scale, leads in {"H1": (0.1, 0.3), "H2": (0.5,)}.items():
        for seed, lead in enumerate(leads):
            losses["baseline", scale, "S85", seed] = straight()
            losses["smelt", scale, "S85", seed] = straight(lead)
    found = analyse(endpoints(losses))
    assert chosen(found, **ALL)["gain"] == pytest.approx(gain_of((0.2 + 0.5) / 2))
    cell = chosen(found, kind="cell", horizon=4, scale="H1")
    assert (cell["unit"], cell["pairs"], cell["seed"], cell["resolved"]) == ("seeds", 2, None, False)
    assert cell["gain_low"] < gain_of(0.2) < cell["gain_high"]
    pairs = found[(found["kind"] == "pair") & (found["horizon"] == 4)]
    assert pairs["seed"].tolist() == [0, 1]
    assert pairs["gain"].tolist() == pytest.approx([gain_of(0.1), gain_of(0.3)])


def test_a_censored_cell_leaves_no_mean_but_a_bound_of_its_own() -> None:
    found = analyse(grid(lambda scale, sparsity: 3.0 if scale == "H1" else 0.5))
    row = chosen(found, kind="all", horizon=2)
    assert (row["censored"], row["resolved"], row["gain"], row["gain_low"]) == (3, False, None, None)
    assert "only a bound is known" in row["reason"]
    cell = {"kind": "cell", "horizon": 2, "scale": "H1", "sparsity": "S85"}
    bound = chosen(found, **cell)
    assert (bound["bound"], bound["gain"]) == ("at least", pytest.approx(0.5))
    behind = analyse(grid(lambda scale, sparsity: -3.0))
    assert chosen(behind, **cell)["bound"] == "at most"
    first = chosen(behind, **cell | {"horizon": 1})  # equal compute: the bound is 0, on the side of the reference
    assert (first["bound"], first["gain"]) == ("at most", 0.0)


def test_other_rows_wait_for_the_gain_over_all_cells() -> None:
    clear = analyse(grid(lambda scale, sparsity: 0.2 + (scale == "H1") * 0.01))
    assert chosen(clear, **ALL)["resolved"]
    assert chosen(clear, kind="sparsity", horizon=4, sparsity="S85")["resolved"]
    assert chosen(clear, **ALL)["reason"] is None
    mixed = analyse(grid(lambda scale, sparsity: 0.2 if sparsity == "S85" else -0.1))
    assert not mixed["resolved"].any()
    assert "not tested" in chosen(mixed, kind="sparsity", horizon=4, sparsity="S85")["reason"]


def test_what_has_no_partner_is_said() -> None:
    frame = grid(lambda scale, sparsity: 0.2 + (scale == "H1") * 0.01)
    short = frame[~((frame["architecture"] == "smelt") & (frame["scale"] == "H4"))]
    row = chosen(analyse(short), **ALL)
    assert (row["cells"], row["resolved"]) == (9, True)
    assert row["reason"] == "runs of smelt and baseline without a partner, left out: 3"
    other = frame[frame["architecture"] == "smelt"].assign(architecture="deep", seed=7)
    (alone,) = tables.rows(analyse(pd.concat([frame[frame["architecture"] == "baseline"], other])))
    assert alone["reason"] == "no pair: deep and baseline have no cell and seed in common"
    assert (alone["architecture"], alone["gain"], alone["pairs"], alone["resolved"]) == ("deep", None, 0, False)
    assert analyse(frame[frame["architecture"] == "baseline"]).empty


def simulated(lead: float, scale_noise: float, noise: float, seed: int) -> pd.DataFrame:
    """The pairs of GRIDS simulated grids, an architecture each: noise in nats of each scale's runs and of endpoints.

    The losses fall by 0.4 nats where C grows by a factor of e.
    """
    rng = np.random.default_rng(seed)
    fall = 0.4 * np.log(STEPS)
    parts = []
    for number in range(GRIDS):
        losses: dict[Run, Array] = {}
        for scale in SCALES:
            errors = scale_noise * rng.normal(size=2)
            for sparsity in SPARSITIES:
                for name, ahead, error in zip(("baseline", "smelt"), (0.0, lead), errors, strict=True):
                    own = noise * rng.normal(size=len(STEPS))
                    losses[name, scale, sparsity, 0] = 5 - fall - 0.4 * ahead + error + own
        parts.append(pair_rows(endpoints({run: values.tolist() for run, values in losses.items()}), "baseline"))
        parts[-1]["architecture"] = f"grid{number}"
    return pd.concat(parts, ignore_index=True)


def resolved_grids(pairs: pd.DataFrame) -> int:
    """In how many of the simulated grids, a table each, any row is resolved."""
    return sum(resolved(one).any() for _, one in pooled(pairs).groupby("architecture", sort=False))


@pytest.mark.parametrize("scale_noise", [0.0, 0.02], ids=["independent", "shared by a scale"])
def test_without_a_true_gain_a_table_resolves_a_row_in_at_most_5_percent(scale_noise: float) -> None:
    false = resolved_grids(simulated(0.0, scale_noise, 0.01, seed=1))
    assert false <= stats.binom.ppf(0.99, GRIDS, 0.05)


def test_a_true_gain_lies_in_95_percent_of_the_intervals_in_spite_of_noise_shared_by_a_scale() -> None:
    lead = -math.log(1.2)  # a gain of -20 %
    pairs = simulated(lead, 0.03, 0.01, seed=2)
    rows = pooled(pairs)
    last = rows[(rows["kind"] == "all") & (rows["horizon"] == len(STEPS))]
    held = {
        unit: int(((last[f"{unit}_low"] <= -0.2) & (last[f"{unit}_high"] >= -0.2)).sum())
        for unit in ("cells", "scales")
    }
    low, high = stats.binom.ppf([0.005, 0.995], GRIDS, 0.95)
    assert len(last) == GRIDS
    assert low <= held["scales"] <= high
    assert held["cells"] < low  # cells of one scale are not independent, which is why scales count
    gains = tables.numbers(last, "gain")
    assert np.median(gains) == pytest.approx(-0.2, abs=0.02)
    assert not (last["gain_low"] > 0).any()


def test_the_command_writes_the_table(tmp_path: Path) -> None:
    frame = grid(lambda scale, sparsity: 0.2)
    write_table(tables.to_arrow(frame, ENDPOINTS), tmp_path / "endpoints.parquet", {})
    spec = {"study": "x", "reference": "baseline", "s_convention": "own", "fit_sparsities": ["S85", "S97"]}

    def run(name: str, **changes: Any) -> Path:
        arguments = ["--spec", json.dumps(spec | changes), "--endpoints", str(tmp_path / "endpoints.parquet")]
        iso_loss_gain.main([*arguments, "--out", str(tmp_path / f"{name}.parquet")])
        return tmp_path / f"{name}.parquet"

    assert run("a").read_bytes() == run("b").read_bytes()
    assert read_provenance(run("a"))["module"] == iso_loss_gain.MODULE
    written = tables.rows(tables.read(run("a")))
    assert {row["sparsity"] for row in written} == {None, "S85", "S97"}
    assert all(row["gain"] is not None or row["reason"] for row in written)
    assert all(row["resolved"] or row["reason"] for row in written)
    with pytest.raises(UserError, match="no endpoint of the reference architecture 'dense'"):
        run("c", reference="dense")
