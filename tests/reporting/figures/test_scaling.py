"""Figures: the same bytes twice, drawn from whatever the fits could say, nothing outside the page."""

import functools
import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from smelt.errors import UserError
from smelt.reporting.figures.scaling import draw, iso_loss_gain, surfaces
from smelt.reporting.style import gains, page
from smelt.reporting.style.labels import About, about, simulation
from smelt.tables import from_arrow
from tests.reporting.closed_form import BUDGETS, VALUES, Row, frames, stage, typed, write

SPEC = {"study": "paper", "reference": "baseline"}
KINDS = ("pdf", "png", "svg")
Stage = Mapping[str, list[Row]]
STAGES: dict[str, dict[str, Any]] = {
    "grid": {},
    "three architectures": {"names": ("baseline", "deep", "smelt")},
    "five architectures": {"names": ("a", "b", "baseline", "d", "smelt"), "sparsities": ("S85",)},
    "one architecture": {"names": ("baseline",)},
    "one scale": {"scales": ("200M",)},
    "one cell": {"scales": ("100M",), "sparsities": ("S85",), "fitted": False},
    "no interval": {"interval": False, "sparsities": ("S85",)},
    "another surface": {"surface": "chinchilla", "sparsities": ("S85",)},
    "simulated": {"source": "simulated from the published surfaces", "sparsities": ("S85",)},
}


def draw_all(read: Stage, folder: Path, kinds: tuple[str, ...] = KINDS) -> list[Path]:
    """Run the command on artifacts; the files that it wrote."""
    write(read, folder / "scaling")
    arguments = ["--spec", json.dumps(SPEC)]
    for name in draw.ARTIFACTS:
        arguments += [f"--{name.replace('_', '-')}", str(folder / "scaling" / f"{name}.parquet")]
    outs = [folder / f"{name}.{kind}" for name in draw.FIGURES for kind in kinds]
    draw.main([*arguments, "--out", *map(str, outs)])
    return outs


def drawn(read: Stage, name: str) -> Figure:
    """One figure of the stage."""
    tables = frames(read)
    said = about(*SPEC.values(), tables["coefficients"], tables["endpoints"])
    return draw.FIGURES[name](tables, said)


class Words(NamedTuple):
    """What a figure says: all texts that show, and its footer."""

    texts: list[str]
    caption: str


@functools.cache
def words(case: str, source: str = "trained") -> dict[str, Words]:
    """The words of every figure of one of STAGES, each of them on the page; drawn once for all tests."""
    read = stage(**({"source": source} | STAGES[case]))
    said = {}
    for name in draw.FIGURES:
        figure = drawn(read, name)
        said[name] = Words(texts_on_the_page(figure), caption(figure))
        plt.close(figure)
    return said


def texts_on_the_page(figure: Figure) -> list[str]:
    """All texts that show; each must lie on the page, and none but ticks' on another."""
    figure.draw_without_rendering()
    ticks = {id(tick) for axis in figure.axes for tick in (*axis.get_xticklabels(), *axis.get_yticklabels())}
    shown = [text for text in figure.findobj(plt.Text) if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown if id(text) not in ticks]
    for text, box in boxes:
        assert box.x0 >= figure.bbox.x0 - 1, text
        assert box.x1 <= figure.bbox.x1 + 1, text
        assert box.y0 >= figure.bbox.y0 - 1, text
        assert box.y1 <= figure.bbox.y1 + 1, text
    for (one, first), (other, second) in combinations(boxes, 2):
        assert not first.padded(-1).overlaps(second.padded(-1)), (one, other)
    return [text.get_text() for text in shown]


def caption(figure: Figure) -> str:
    """The footer as one line."""
    return figure._supxlabel.get_text().replace("\n", " · ")  # type: ignore[attr-defined]


@pytest.mark.slow
def test_bytes_are_the_same_twice(tmp_path: Path) -> None:
    first, second = draw_all(stage(), tmp_path / "a"), draw_all(stage(), tmp_path / "b")
    assert {path.stem for path in first} == set(draw.FIGURES)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000
        assert b"CreationDate" not in one.read_bytes()
        assert b"<dc:date>" not in one.read_bytes()


@pytest.mark.parametrize("name", STAGES)
def test_whatever_a_study_could_say_is_drawn_on_the_page(name: str) -> None:
    for texts, footer in words(name).values():
        assert len(texts) >= 2
        assert "study paper" in footer


def test_labels_units_and_caption() -> None:
    for name, (texts, footer) in words("grid").items():
        assert any("nats per token" in text for text in texts) or name in ("gain_curve", "iso_loss_gain")
        assert "144 endpoints (baseline 72, smelt 72)" in footer
        assert "S convention: own" in footer
        assert ("surface: smelt" in footer) == (name != "iso_loss_gain")
        assert ("2,000 draws of cells" in footer) == (name != "iso_loss_gain")
        assert not any("imulated" in text for text in texts)


def test_simulated_endpoints_are_named_above_and_below_every_figure() -> None:
    title = "Simulated from the published surfaces: no measured endpoint"
    for said in (words("simulated"), words("one cell", STAGES["simulated"]["source"])):
        for texts, footer in said.values():
            assert texts.count(title) == 1
            assert footer.startswith(title)


def test_what_is_said_of_endpoints_simulated_in_part() -> None:
    rows = [{"source": "trained"}, {"source": "simulated, seed 3"}, {"source": None}]
    data = from_arrow(pa.Table.from_pylist(rows))
    assert simulation(data) == "1 of the 3 endpoints: simulated, seed 3"
    assert simulation(data[:1]) == ""


def test_the_point_bootstrap_is_called_too_narrow() -> None:
    said = " ".join(About("x", "baseline", "own", resample="endpoints", draws=9).parts)
    assert "9 draws of single endpoints (too narrow" in said
    assert "no intervals" in " ".join(About("x", "baseline", "own").parts)


def test_an_unknown_figure_or_kind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no figure of that name; expected one of loss_by_compute, surfaces"):
        draw.main(
            [
                *("--spec", json.dumps(SPEC), "--out", "surface.png"),
                *(text for name in draw.ARTIFACTS for text in (f"--{name.replace('_', '-')}", "none")),
            ]
        )
    with pytest.raises(UserError, match=r"must end in one of \.pdf, \.svg, \.png"):
        page.save(plt.figure(), [tmp_path / "surfaces.jpg"])
    plt.close("all")


# Each figure


def test_architectures_differ_by_line_and_by_fill() -> None:
    figure = drawn(stage(), "loss_by_compute")
    lines = figure.axes[0].get_lines()
    assert len(lines) == 8  # four scales x two architectures in each panel
    reference = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert len(reference) == 4
    assert {line.get_linestyle() for line in reference} == {"--"}
    assert {line.get_linestyle() for line in lines if line not in reference} == {"-"}
    assert len({line.get_color() for line in lines}) == 4
    plt.close("all")


def test_window_is_shaded_where_it_was_trained() -> None:
    read = stage()
    trained = [row["training_flops"] for row in read["endpoints"]]
    for axis in drawn(read, "frontiers").axes:
        (window,) = [patch for patch in axis.patches if patch.get_width() > 1]
        assert window.get_x() == pytest.approx(min(trained), rel=0.05)
        assert window.get_x() + window.get_width() == pytest.approx(max(trained), rel=0.07)
    plt.close("all")


def test_frontiers_change_their_line_where_the_optimum_leaves_the_box() -> None:
    read = stage(names=("baseline",), sparsities=("S97",))
    styles = [line.get_linestyle() for line in drawn(read, "frontiers").axes[0].get_lines()]
    assert styles[:3] == ["--", "-", "--"]  # edge, inside, edge
    plt.close("all")


def test_points_at_or_below_E_are_counted_not_dropped_in_silence() -> None:
    read = stage()
    read["residuals"][0]["loss"] = 1.4
    figure = drawn(read, "reducible_loss")
    assert any("1 at or below E not shown" in text for text in texts_on_the_page(figure))
    plt.close("all")


@pytest.mark.parametrize("name", ["surfaces", "reducible_loss"])
def test_each_of_nine_sparsities_has_its_marker_and_stands_in_the_legend(name: str) -> None:
    figure = drawn(stage(sparsities=tuple(VALUES)), name)
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts() if text.get_text() in VALUES) == sorted(VALUES)
    lines = [line for axis in figure.axes for line in axis.lines]
    assert len({line.get_marker() for line in lines} - {"None", ""}) == len(VALUES)
    plt.close("all")


def test_a_fitted_curve_runs_through_the_surface_of_its_cell() -> None:
    cell = [row for row in stage()["residuals"] if (row["scale"], row["sparsity"]) == ("600M", "S95")][:6]
    tokens, losses = surfaces.curve(
        from_arrow(typed("residuals", [*cell, *cell[:2]]))
    )  # two seeds of a cell have the same surface
    assert tokens[0] == pytest.approx(cell[0]["tokens"])
    assert tokens[-1] == pytest.approx(cell[-1]["tokens"])
    assert np.all(np.diff(losses) < 0)
    exact = [cell[0]["predicted"], cell[-1]["predicted"]]
    np.testing.assert_allclose([losses[0], losses[-1]], exact, rtol=1e-12)


def test_residuals_are_measured_minus_predicted_and_below_their_losses() -> None:
    read = stage()
    figure = drawn(read, "surfaces")
    above, below = figure.axes[0], figure.axes[2]
    assert above.get_position().x0 == pytest.approx(below.get_position().x0)
    assert above.get_position().x1 == pytest.approx(below.get_position().x1)
    shown = sorted(float(value) for line in below.get_lines()[1:] for value in line.get_ydata())
    mine = [row for row in read["residuals"] if row["architecture"] == "baseline"]
    np.testing.assert_allclose(shown, sorted(1e3 * (row["loss"] - row["predicted"]) for row in mine))
    assert below.get_title(loc="left") == "RMSE 6.8 · 12 % inside δ"
    assert "(millinats)" in below.get_ylabel()
    plt.close("all")


def test_the_gain_curve_shows_zero_windows_and_budgets() -> None:
    read = stage(sparsities=("S97",))
    axis = drawn(read, "gain_curve").axes[0]
    windows = [patch for patch in axis.patches if patch.get_width() > 1]
    looks = [(patch.get_facecolor(), patch.get_hatch()) for patch in windows]
    assert len(looks) == 4  # edge, inside, edge, extrapolated
    assert len(set(looks)) == 3
    assert any(np.allclose(line.get_ydata(), 0) for line in axis.get_lines())
    marks = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert [float(line.get_xdata()[0]) for line in marks] == list(BUDGETS)
    assert [line.get_markerfacecolor() == "white" for line in marks] == [not row["resolved"] for row in read["ce_gain"]]
    bars = [line for line in axis.get_lines() if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    assert [tuple(bar.get_ydata()) for bar in bars] == [(row["gain_low"], row["gain_high"]) for row in read["ce_gain"]]
    plt.close("all")


def test_a_missing_gain_says_why() -> None:
    for case, reason in (
        ("one cell", "smelt: E on a bound of the fit"),
        ("one architecture", "no gain: there is one architecture, and a gain compares two"),
        ("no interval", "no interval: 17.9 % of the draws leave a coefficient unidentified"),
    ):
        texts = words(case)["gain_curve"].texts
        assert any(reason in text.replace("\n", " ") for text in texts), case
    read = stage(sparsities=("S85", "S97"))
    read["gain_curve"] = [row for row in read["gain_curve"] if row["sparsity"] == "S85"]
    read["ce_gain"] = [row | ({} if row["sparsity"] == "S85" else NONE) for row in read["ce_gain"]]
    texts = texts_on_the_page(drawn(read, "gain_curve"))
    assert any(text.replace("\n", " ").startswith("no gain: no frontier at S97") for text in texts)
    plt.close("all")


def test_the_iso_loss_gain_shows_all_cells_before_each_cell_and_bounds_as_such() -> None:
    read = stage()
    figure = drawn(read, "iso_loss_gain")
    (axis,) = figure.axes
    pooled = [row for row in read["iso_loss_gain"] if row["kind"] == "all" and row["gain"] is not None]
    marks = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in marks] == [
        (row["tokens"], row["gain"]) for row in pooled
    ]
    assert [line.get_markerfacecolor() == "white" for line in marks] == [not row["resolved"] for row in pooled]
    bars = [line for line in axis.get_lines() if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    assert [tuple(bar.get_ydata()) for bar in bars] == [(row["gain_low"], row["gain_high"]) for row in pooled]
    cells = [line for line in axis.get_lines() if line.get_color() == iso_loss_gain.CELL["color"]]
    assert len(cells) == 12
    assert all(len(cell.get_xdata()) == 5 and cell.get_zorder() < marks[0].get_zorder() for cell in cells)
    bounds = {line.get_marker(): len(line.get_xdata()) for line in axis.get_lines() if line.get_marker() in "^v"}
    assert bounds == {"^": 3, "v": 9}
    assert axis.get_xlabel() == "training tokens, D"
    assert "Student's t" in caption(figure)
    plt.close("all")


def test_cells_of_other_lengths_have_numbered_horizons_and_a_missing_pair_its_reason() -> None:
    read = stage(names=("baseline", "deep", "smelt"))
    for row in read["iso_loss_gain"]:
        row["tokens"] = None if row["kind"] == "all" else row["tokens"]
    read["iso_loss_gain"] = [row for row in read["iso_loss_gain"] if row["architecture"] == "smelt"]
    gone = dict.fromkeys(read["iso_loss_gain"][0]) | {"architecture": "deep", "kind": "all", "resolved": False}
    read["iso_loss_gain"].append(gone | {"reason": "no pair: deep and baseline have no cell and seed in common"})
    figure = drawn(read, "iso_loss_gain")
    texts = texts_on_the_page(figure)
    assert "horizon (number of the endpoint in its run)" in texts
    assert any(text.replace("\n", " ").startswith("no pooled gain: no pair: deep and baseline") for text in texts)
    plt.close("all")


NONE = dict.fromkeys(("gain", "gain_low", "gain_high")) | {"reason": "no frontier at S97"}


def test_gains_out_of_reach_are_counted() -> None:
    read = stage(sparsities=("S85",))
    read["gain_curve"][0]["gain"] = read["gain_curve"][1]["gain"] = -66.0
    figure = drawn(read, "gain_curve")
    low, high = figure.axes[0].get_ylim()
    assert low == pytest.approx(gains.LOWEST, abs=0.2)
    assert high < 1
    assert "2 gains outside" in caption(figure)
    plt.close("all")
