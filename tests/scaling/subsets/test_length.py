"""Profiles over lengths: known shapes come back, unclear pairs are left out and counted, halves are compared."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from smelt import labels
from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.labels import KEYS, Key
from smelt.scaling.endpoints.breakdown import BOUNDS
from smelt.scaling.settings import Settings
from smelt.scaling.subsets import length, matched_pairs
from tests.scaling.held_out_texts import Row, length_rows, write_lengths
from tests.scaling.published import GRID, SPEC, VALUES, endpoint_rows, part, write_endpoints

FLAT = (1.0,) * 8
LONG = (0.4, 0.5, 0.6, 0.7, 1.1, 1.3, 1.5, 1.9)
TILT = np.mean(LONG[4:]) / np.mean(LONG[:4])


def run(folder: Path, endpoints: Sequence[Row], lengths: Sequence[Row], **changes: Any) -> list[Row]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        "endpoints": write_endpoints(folder / "endpoints.parquet", endpoints),
        "lengths": write_lengths(folder / "lengths.parquet", lengths),
        "out": folder / "length.parquet",
    }
    options = [piece for name, path in paths.items() for piece in (f"--{name}", str(path))]
    length.main(["--spec", json.dumps(SPEC | changes), *options])
    return pq.read_table(paths["out"]).to_pylist()


def family(rows: Sequence[Row], name: str, architecture: str) -> list[Row]:
    return [row for row in rows if (row["family"], row["architecture"]) == (name, architecture)]


def test_known_shapes_come_back(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    rows = run(tmp_path, endpoints, length_rows(endpoints, {"baseline": LONG, "smelt": FLAT}))
    assert len(rows) == 9 * 5  # one contrast with the reference, two within each architecture
    for name in ("more_experts", "more_parameters"):
        for architecture, shape in (("baseline", LONG), ("smelt", FLAT)):
            mine = family(rows, name, architecture)
            assert [row["bucket"] for row in mine] == [*BOUNDS, None]
            profile = np.array([row["profile"] for row in mine[:8]])
            np.testing.assert_allclose(profile, np.array(shape) / np.mean(shape), rtol=1e-9)
            assert mine[0]["tilt"] == pytest.approx(TILT if shape is LONG else 1)
            assert (mine[0]["reference"], mine[0]["reason"]) == (None, None)
            # Every pair has the same shape, so that all draws agree.
            np.testing.assert_allclose([row["low"] for row in mine[:8]], profile, rtol=1e-9)
            assert mine[0]["tilt_low"] == pytest.approx(mine[0]["tilt_high"])
    # 4 scales x 2 steps of sparsity, 3 steps of scale x 3 sparsities, 6 branches each.
    assert family(rows, "more_experts", "smelt")[0]["pairs"] == 48
    assert family(rows, "more_parameters", "smelt")[0]["pairs"] == 54


def test_against_the_reference_pairs_that_gain_nothing_are_counted(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    for row in endpoints:
        if (row["architecture"], row["scale"], row["sparsity"]) == ("smelt", "100M", "S97"):
            row["loss"] += 0.3
    rows = run(tmp_path, endpoints, length_rows(endpoints, {"baseline": LONG, "smelt": LONG}))
    mine = family(rows, "architecture", "smelt")
    assert (mine[0]["pairs"], mine[0]["left_out"]) == (66, 6)
    assert mine[0]["reason"].startswith("6 of 72 pairs left out: no mean improvement above 2 standard errors")
    assert mine[0]["reference"] == "baseline"
    assert mine[0]["tilt"] == pytest.approx(TILT)


def test_intervals_follow_the_noise(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    rows = run(tmp_path, endpoints, length_rows(endpoints, {"baseline": LONG, "smelt": FLAT}, noise=0.005))
    mine = family(rows, "more_parameters", "baseline")
    assert mine[0]["draws"] == SPEC["bootstrap_draws"]
    assert mine[0]["tilt_low"] < mine[0]["tilt"] < mine[0]["tilt_high"]
    assert mine[0]["tilt"] == pytest.approx(TILT, abs=0.3)
    assert all(row["low"] < row["profile"] < row["high"] for row in mine[:8])


def test_few_draws_give_no_interval(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    lengths = length_rows(endpoints, {"baseline": LONG, "smelt": FLAT}, noise=0.005)
    first = family(run(tmp_path, endpoints, lengths, bootstrap_draws=39), "more_parameters", "baseline")[0]
    assert first["profile"] is not None
    assert (first["low"], first["tilt_low"], first["draws"]) == (None, None, 0)
    assert first["reason"] == "no interval: 39 draws are too few for its ends; 40 at least (scaling.bootstrap_draws)"


def test_no_profile_where_most_pairs_are_unclear(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    rows = run(tmp_path, endpoints, length_rows(endpoints, {"baseline": LONG, "smelt": LONG}, noise=1.0))
    for row in family(rows, "more_experts", "baseline")[:8]:
        assert (row["profile"], row["low"], row["tilt"], row["draws"]) == (None, None, None, 0)
        assert row["reason"].startswith("no profile: ")
        assert row["left_out"] > 24
        assert row["documents"] == 10


def test_a_grid_without_such_pairs(tmp_path: Path) -> None:
    endpoints = endpoint_rows(part(1, 1))
    rows = run(tmp_path, endpoints, length_rows(endpoints, {"baseline": FLAT, "smelt": FLAT}))
    for name in ("more_experts", "more_parameters"):
        assert family(rows, name, "baseline")[0]["reason"] == "no profile: the grid has no such pair"


def test_an_empty_bucket_and_longer_documents(tmp_path: Path) -> None:
    endpoints = endpoint_rows()
    lengths = length_rows(endpoints, {"baseline": LONG, "smelt": LONG})
    for row in lengths:
        if row["bucket"] == 32:
            row |= {"tokens": 0, "documents": 0, "loss": None}
        if row["bucket"] is None:
            row |= {"tokens": 6000, "documents": 1, "loss": 3.0}
    mine = family(run(tmp_path, endpoints, lengths), "more_experts", "smelt")
    np.testing.assert_allclose([row["profile"] for row in mine[1:8]], np.array(LONG[1:]) / np.mean(LONG[1:]))
    assert (mine[0]["profile"], mine[0]["documents"]) == (None, 0)
    assert mine[0]["reason"] == "no document in the bucket of up to 32 tokens"
    assert mine[0]["tilt"] == pytest.approx(np.mean(LONG[4:]) / np.mean(LONG[1:4]))
    assert (mine[8]["documents"], mine[8]["profile"]) == (1, None)
    assert mine[8]["reason"] == "longer than 4096 tokens: no part of the profile"


def test_no_tilt_where_short_documents_do_not_gain() -> None:
    assert np.isnan(length.tilt(np.array([-1.0, 0, 0, 0.5, 2, 2, 2, 2.5])))
    assert length.tilt(np.array([[1.0] * 4 + [2.0] * 4, [2.0] * 8])).tolist() == [2, 1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("filled", [BOUNDS[:1], BOUNDS[:4], BOUNDS[4:]])
def test_no_tilt_where_half_of_the_buckets_are_empty(tmp_path: Path, filled: Sequence[int]) -> None:
    endpoints = endpoint_rows()
    lengths = length_rows(endpoints, {"baseline": LONG, "smelt": LONG})
    empty = {"tokens": 0, "documents": 0, "loss": None}
    rows = run(tmp_path, endpoints, [row | (empty if row["bucket"] not in filled else {}) for row in lengths])
    for row in family(rows, "more_experts", "smelt")[:8]:
        assert row["tilt"] is None
        assert (row["profile"] is None) == (row["bucket"] not in filled or len(filled) == 1)
        assert "no document in the bucket of up to" in row["reason"] or "no profile" in row["reason"]


def test_a_pair_of_two_cells_comes_up_as_their_product() -> None:
    cells = [("a", "x"), ("a", "y")]
    both = length.Shapes([(cells[0], cells[0]), (cells[0], cells[1])], np.ones((2, 8)), 0)
    weights = length.pair_weights(both, cells, np.array([[2.0, 0.0], [1.0, 3.0]]))
    assert weights.tolist() == [[2, 0], [1, 3]]


def test_every_document_is_too_long(tmp_path: Path) -> None:
    endpoints = endpoint_rows(part(1, 1))
    lengths = [
        row
        | ({"tokens": 5000, "documents": 1, "loss": 3.0} if row["bucket"] is None else {"documents": 0, "loss": None})
        for row in length_rows(endpoints, {"baseline": FLAT, "smelt": FLAT})
    ]
    with pytest.raises(UserError, match="every document is longer than 4096 tokens"):
        run(tmp_path, endpoints, lengths)


def test_an_endpoint_without_losses(tmp_path: Path) -> None:
    endpoints = endpoint_rows(part(2, 2))
    lengths = length_rows(endpoints[1:], {"baseline": FLAT, "smelt": FLAT})
    with pytest.raises(UserError, match=r"lengths\.parquet: no loss of the endpoint baseline, 100M, S85, 0, 10000 "):
        run(tmp_path, endpoints, lengths)


def test_bytes_and_provenance(tmp_path: Path) -> None:
    endpoints = endpoint_rows(noise=0.5)
    lengths = length_rows(endpoints, {"baseline": FLAT, "smelt": LONG}, noise=0.01)
    for folder in ("a", "b"):
        run(tmp_path / folder, endpoints, lengths)
    one, other = (tmp_path / folder / "length.parquet" for folder in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert read_provenance(one)["module"] == "smelt.scaling.subsets.length"


# Pairs


def keys(**changes: Sequence[Any]) -> pd.DataFrame:
    """Endpoints of a grid with the given labels, F rising in the order of the scales."""
    grid = {"architecture": ["baseline"], "scale": ["H9", "H10"], "sparsity": ["S0", "S97", "S85"], "seed": [0]}
    grid |= {"branch_step": [5]} | changes
    endpoints = pd.DataFrame(itertools.product(*grid.values()), columns=list(KEYS))
    return endpoints.assign(flops_per_token=[1.0 + grid["scale"].index(scale) for scale in endpoints["scale"]])


def named(pairs: pd.DataFrame, endpoints: pd.DataFrame) -> list[tuple[Key, Key]]:
    """The endpoints of each pair by name."""
    return [(labels.key(endpoints.loc[first]), labels.key(endpoints.loc[second])) for first, second in pairs.to_numpy()]


def test_consecutive_sparsities_and_scales_in_order_of_size() -> None:
    endpoints = keys()
    settings = Settings("s", "baseline", VALUES | {"S0": 0.0})
    pairs = named(matched_pairs.more_experts(endpoints, "baseline", settings), endpoints)
    steps = [(a.scale, a.sparsity, b.sparsity) for a, b in pairs]
    assert steps == [(scale, *pair) for scale in ("H9", "H10") for pair in (("S0", "S85"), ("S85", "S97"))]
    pairs = named(matched_pairs.more_parameters(endpoints, "baseline", "baseline"), endpoints)
    steps = [(a.sparsity, a.scale, b.scale) for a, b in pairs]
    assert sorted(steps) == [(label, "H9", "H10") for label in ("S0", "S85", "S97")]


def test_a_missing_cell_makes_its_neighbours_consecutive() -> None:
    endpoints = keys()
    endpoints = endpoints[(endpoints["sparsity"] != "S85") | (endpoints["scale"] != "H9")]
    settings = Settings("s", "baseline", VALUES | {"S0": 0.0})
    pairs = named(matched_pairs.more_experts(endpoints, "baseline", settings), endpoints)
    assert [(a.sparsity, b.sparsity) for a, b in pairs if a.scale == "H9"] == [("S0", "S97")]


def test_pairs_share_seed_and_branch() -> None:
    endpoints = keys(architecture=["baseline", "smelt"], seed=[0, 1], branch_step=[5, 9])
    left_out = [labels.key(row) == Key("smelt", "H9", "S0", 1, 9) for row in endpoints.to_dict("records")]
    endpoints = endpoints[~np.array(left_out)]
    pairs = named(matched_pairs.matched(endpoints, "smelt", "baseline"), endpoints)
    assert len(pairs) == 2 * 3 * 2 * 2 - 1
    assert all(a[1:] == b[1:] and (a[0], b[0]) == ("baseline", "smelt") for a, b in pairs)


def test_skipped_branches_take_no_part(tmp_path: Path) -> None:
    path = write_endpoints(tmp_path / "endpoints.parquet", endpoint_rows(GRID))
    every = matched_pairs.read_endpoints(path, Settings("s", "baseline", VALUES))
    later = matched_pairs.read_endpoints(path, Settings("s", "baseline", VALUES, skip_branches=2))
    assert len(every) == 144
    assert len(later) == 96
    assert later["branch_step"].min() == 50_000
