"""Figures of where a gain lies: all is on the page, what is missing says so, the same bytes twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt

from smelt.errors import UserError
from smelt.reporting.figures.subsets import draw, forest, length_profile, quartiles
from smelt.reporting.style.labels import About
from smelt.scaling.endpoints.breakdown import BOUNDS
from smelt.scaling.subsets.length import LENGTH
from smelt.scaling.subsets.subsets import SUBSETS
from smelt.tables import from_rows
from tests.reporting.figures.test_scaling import caption, texts_on_the_page
from tests.scaling.held_out_texts import COUNTS, sources
from tests.scaling.published import VALUES

ABOUT = About("desk", "baseline", "own", draws=2000)
PLACE = (1e21, "S95")
NOTHING = {"gain": None, "gain_low": None, "gain_high": None, "resolved": False, "draws": 0}
BOUND = "smelt: E on a bound of the fit of the whole loss, whose exponents cannot be shared"
Row = dict[str, Any]


def subset_rows(names: Sequence[str] = ("smelt",)) -> list[Row]:
    """Rows of SUBSETS with gains around 15 %, at three budgets of which the last is extrapolated."""
    random = np.random.default_rng(0)
    parts = [("all", "all", None), *(("category", name, None) for name in COUNTS)]
    parts += [("source", name, category) for name, category in sources()]
    parts += [("quartile", f"Q{i}", None) for i in range(1, 5)]
    rows = []
    for name in names:
        for budget in (1e20, 1e21, 1e22):
            for label, value in VALUES.items():
                for kind, subset, category in parts:
                    gain = 0.15 + 0.04 * random.normal()
                    row: Row = dict.fromkeys(SUBSETS.names)
                    row |= {"kind": kind, "subset": subset, "category": category, "architecture": name}
                    row |= {"reference": "baseline", "budget_flops": budget, "sparsity": label, "S": value}
                    row |= {"gain": gain, "gain_low": gain - 0.05, "gain_high": gain + 0.05, "draws": 2000}
                    row |= {"endpoints": 144}
                    row |= {"resolved": gain > 0.05, "window": "extrapolated" if budget == 1e22 else "inside"}
                    rows.append(row)
    return rows


def length_rows(names: Sequence[str] = ("baseline", "smelt"), longer: int = 0) -> list[Row]:
    """Rows of LENGTH: the contrasts of each architecture."""
    rows = []
    for name in names:
        kinds = ["more_experts", "more_parameters"] + (["architecture"] if name != "baseline" else [])
        for kind in sorted(kinds):
            for place, bucket in enumerate([*BOUNDS, None]):
                row: Row = dict.fromkeys(LENGTH.names)
                row |= {"family": kind, "architecture": name, "bucket": bucket, "documents": 10, "tokens": 999}
                row |= {"reference": "baseline" if kind == "architecture" else None, "pairs": 48, "left_out": 0}
                row |= {"tilt": 1.52, "tilt_low": 1.3, "tilt_high": 1.7, "draws": 2000}
                value = 0.7 + 0.08 * place
                row |= {"profile": value, "low": value - 0.1, "high": value + 0.1}
                if bucket is None:
                    row |= {"profile": None, "low": None, "high": None, "documents": longer}
                rows.append(row)
    return rows


def subsets(rows: Sequence[Row]) -> pd.DataFrame:
    return from_rows(rows, SUBSETS)


def lengths(rows: Sequence[Row]) -> pd.DataFrame:
    return from_rows(rows, LENGTH)


def without(rows: Sequence[Row], reason: str = BOUND, **which: Any) -> list[Row]:
    """The rows with those of the given values made to miss their gain."""
    missing = NOTHING | {"reason": reason}
    return [row | (missing if all(row[key] == value for key, value in which.items()) else {}) for row in rows]


def run(
    folder: Path, rows: Sequence[Row], length: Sequence[Row], *names: str, kinds: Sequence[str] = ("svg",)
) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    first = {"s_convention": "own", "surface": "smelt", "resample": "cells", "draws": 2000}
    tables = {
        "endpoints": pa.Table.from_pylist([{"source": "trained"}]),
        "coefficients": pa.Table.from_pylist([{"architecture": name} | first for name in ("baseline", "smelt")]),
        "subsets": pa.Table.from_pylist(list(rows), schema=SUBSETS),
        "length": pa.Table.from_pylist(list(length), schema=LENGTH),
    }
    arguments = ["--spec", json.dumps({"study": "desk", "reference": "baseline"})]
    for name, data in tables.items():
        pq.write_table(data, folder / f"{name}.parquet")
        arguments += [f"--{name}", str(folder / f"{name}.parquet")]
    outs = [folder / f"{name}.{kind}" for name in names or draw.FIGURES for kind in kinds]
    draw.main([*arguments, "--out", *map(str, outs)])
    return outs


def test_bytes_are_the_same_twice(tmp_path: Path) -> None:
    first, second = (run(tmp_path / name, subset_rows(), length_rows()) for name in "ab")
    assert [path.stem for path in first] == ["subsets", "quartiles", "length_profile"]
    for paths, name in ((first, "a"), (second, "b")):  # the other kinds of file of one figure
        paths += run(tmp_path / name, subset_rows(), length_rows(), "quartiles", kinds=("pdf", "png"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000
        assert b"CreationDate" not in one.read_bytes()


def test_a_name_that_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no figure of that name; expected one of subsets, quartiles, length_profile"):
        run(tmp_path, subset_rows(), length_rows(), "forest")


@pytest.mark.parametrize("kind", ["some", "all", "one architecture", "none at all", "three architectures"])
def test_whatever_a_study_could_say_is_drawn(tmp_path: Path, kind: str) -> None:
    names = ["deep", "loop", "smelt"] if kind == "three architectures" else ["smelt"]
    rows = [] if kind == "one architecture" else subset_rows(names)
    if kind == "some":
        rows = without(without(rows, subset="co_3"), subset="Q2")
    if kind == "all":
        rows = without(rows)
    length = [row | {"profile": None, "low": None, "high": None, "tilt": None, "reason": "no profile: none"}
              for row in length_rows()] if kind == "none at all" else length_rows(["baseline", *names])  # fmt: skip
    assert len(run(tmp_path, rows, length)) == 3
    assert plt.get_fignums() == []


def test_the_budget_and_the_sparsity_that_are_shown() -> None:
    assert draw.shown(subsets(subset_rows())) == PLACE
    beyond = [row | {"window": "extrapolated"} for row in subset_rows()]
    assert draw.shown(subsets(beyond)) == (1e20, "S95")
    assert draw.shown(subsets([])) is None


# Subsets


def test_each_category_stands_above_its_sources() -> None:
    rows = [row for row in subset_rows() if (row["budget_flops"], row["sparsity"]) == PLACE]
    lines = forest.order(subsets(without(rows, subset="fi_0")))
    assert len(lines) == 44
    heads = [category for category, source in lines if not source]
    assert sorted(heads) == sorted(COUNTS)
    gains = {row["subset"]: row["gain"] for row in rows}
    assert heads == sorted(heads, key=lambda name: -gains[name])
    for category in heads:
        mine = [source for name, source in lines if name == category]
        assert mine[0] == ""
        assert len(mine) == 1 + COUNTS[category]
        if category == "Finance":
            assert mine.pop() == "fi_0"  # it has no gain
        assert mine[1:] == sorted(mine[1:], key=lambda name: -gains[name])


def test_names_line_and_caption() -> None:
    figure = forest.draw(subsets(subset_rows()), ABOUT, PLACE)
    texts = texts_on_the_page(figure)
    assert {"Code", "Web", "co_0", "we_6", "smelt over baseline", "CE gain", "whole loss"} <= set(texts)
    assert "CE gain at 1e+21 training FLOPs, S95" in caption(figure)
    assert "144 endpoints of both architectures" in caption(figure)
    assert "S convention: own" in caption(figure)
    assert "95 % intervals: 2,000 draws of cells" in caption(figure)
    plt.close(figure)


def test_missing_gains_say_so() -> None:
    figure = forest.draw(subsets(without(subset_rows(), subset="co_3")), ABOUT, PLACE)
    texts = texts_on_the_page(figure)
    assert sum(text.startswith("no gain: smelt: E on a bound") for text in texts) == 1
    assert "1 of 44 subsets without a gain: reasons in tables/subsets.csv" in caption(figure)
    plt.close(figure)
    for drawn in (forest.draw, quartiles.draw):
        texts_on_the_page(figure := drawn(subsets(without(subset_rows(("a", "b", "c")))), ABOUT, PLACE))
        plt.close(figure)
        figure = drawn(subsets(without(subset_rows())), ABOUT, PLACE)
        texts = [text.replace("\n", " ") for text in texts_on_the_page(figure)]
        assert f"no gain: {BOUND}" in texts
        assert "intervals" not in caption(figure)
        assert "144 endpoints of both architectures" in caption(figure)
        plt.close(figure)


def test_what_leaves_the_panel_ends_in_an_arrow_and_says_how_far() -> None:
    wide = [row | ({"gain": -7.0, "gain_low": -90.0} if row["subset"] == "we_1" else {}) for row in subset_rows()]
    here = [row for row in wide if row["kind"] != "quartile"]
    low, high = forest.span(subsets(here))
    assert -0.5 < low < 0 < high < 0.6
    figure = forest.draw(subsets(wide), ABOUT, PLACE)
    assert "-700%" in texts_on_the_page(figure)
    markers = [line.get_marker() for line in figure.axes[0].get_lines()]
    assert markers.count("<") == 1
    assert markers.count(">") == 0
    plt.close(figure)


def test_architectures_beyond_three_are_named() -> None:
    figure = forest.draw(subsets(subset_rows(("a", "b", "c", "d"))), ABOUT, PLACE)
    assert len(figure.axes) == 3
    assert "not shown: d" in caption(figure)
    plt.close(figure)


def test_one_architecture_has_no_gain() -> None:
    for drawn in (forest.draw, quartiles.draw):
        figure = drawn(subsets([]), ABOUT, None)
        assert any("there is one architecture" in text for text in texts_on_the_page(figure))
        plt.close(figure)


# Quartiles


def test_quartiles_from_the_lowest_loss_to_the_highest() -> None:
    figure = quartiles.draw(subsets(subset_rows()), ABOUT, PLACE)
    texts = texts_on_the_page(figure)
    assert {"Q1\nlowest loss", "Q2", "Q3", "Q4\nhighest loss", "S85", "S97"} <= set(texts)
    assert "sources ranked by the loss of baseline within each pair" in caption(figure)
    assert "144 endpoints of both architectures" in caption(figure)
    plt.close(figure)


def test_a_quartile_without_a_gain() -> None:
    figure = quartiles.draw(subsets(without(subset_rows(), subset="Q3")), ABOUT, PLACE)
    assert texts_on_the_page(figure).count("none") == 3  # one for each sparsity
    plt.close(figure)


# Lengths


def test_profiles_tilts_and_documents() -> None:
    figure = length_profile.draw(lengths(length_rows(longer=3)), ABOUT)
    texts = texts_on_the_page(figure)
    assert [axis.get_title() for axis in figure.axes] == ["baseline", "smelt"]
    assert {"over baseline", "more experts", "more parameters", "4096\n(10)"} <= set(texts)
    assert any("over baseline: tilt 1.52 [1.30, 1.70], 48 pairs" in text for text in texts)
    assert "3 longer documents left out" in caption(figure)
    assert "surface" not in caption(figure)  # none enters
    plt.close(figure)


def test_a_family_without_a_profile_says_why() -> None:
    why = {"profile": None, "low": None, "high": None, "tilt": None, "reason": "no profile: 30 of 36 pairs left out"}
    rows = [row | (why | {"left_out": 30} if row["family"] == "more_parameters" else {}) for row in length_rows()]
    figure = length_profile.draw(lengths(rows), ABOUT)
    texts = texts_on_the_page(figure)
    assert any("more parameters: no profile: 30 of 36 pairs left" in text for text in texts)
    assert "more parameters" not in texts  # no entry in the legend
    assert "pairs without a clear mean improvement left out" in caption(figure)
    plt.close(figure)
