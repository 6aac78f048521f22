"""Figures: the same bytes twice, drawn from whatever the fits could say, nothing outside the page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from smelt.errors import UserError
from smelt.reporting import frontiers, loss_by_compute, reducible_loss, scaling_figures, style, training_curves
from smelt.reporting.rows import counted, ordered
from tests.scaling.published import SPEC, endpoint_rows, part, run_stage

FIGURES = ("loss-by-compute", "reducible-loss", "frontiers")


def draw_all(folder: Path, out: Path) -> list[Path]:
    """Run the command on the artifacts in `folder`; the files that it wrote."""
    inputs = ("endpoints", "coefficients", "residuals", "frontier")
    arguments = [piece for name in inputs for piece in (f"--{name}", str(folder / f"{name}.parquet"))]
    for name in FIGURES:
        arguments += [f"--{name}", *(str(out / f"{name}.{kind}") for kind in ("pdf", "png"))]
    scaling_figures.main(["--spec", json.dumps(SPEC), *arguments])
    return sorted(out.iterdir())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stage")
    run_stage(folder, endpoint_rows(noise=0.5))
    return folder


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_bytes_are_the_same_twice(stage: Path, tmp_path: Path) -> None:
    first, second = draw_all(stage, tmp_path / "a"), draw_all(stage, tmp_path / "b")
    assert [path.name for path in first] == sorted(f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000
    assert all(b"CreationDate" not in path.read_bytes() for path in first if path.suffix == ".pdf")


@pytest.mark.parametrize("grid", [(2, 1), (2, 2), (4, 1)])
def test_studies_that_determine_little_are_drawn(tmp_path: Path, grid: tuple[int, int]) -> None:
    run_stage(tmp_path / "stage", endpoint_rows(part(*grid), noise=0.2))
    assert len(draw_all(tmp_path / "stage", tmp_path / "figures")) == 6


def test_three_architectures(tmp_path: Path) -> None:
    extra = [row | {"architecture": "other"} for row in endpoint_rows(noise=0.5) if row["architecture"] == "smelt"]
    run_stage(tmp_path / "stage", endpoint_rows(noise=0.5) + extra, draws=20)
    assert len(draw_all(tmp_path / "stage", tmp_path / "figures")) == 6


def texts_on_the_page(figure: Figure) -> list[str]:
    """All texts that show; each must lie on the page and clear of the other axes' labels."""
    figure.canvas.draw()
    page = figure.bbox
    shown = [text for text in figure.findobj(plt.Text) if text.get_visible() and text.get_text()]
    ticks = {id(tick) for axis in figure.axes for tick in (*axis.get_xticklabels(), *axis.get_yticklabels())}
    for text in shown:
        box = text.get_window_extent()
        if id(text) not in ticks:
            assert box.x0 >= page.x0 - 1, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
            assert box.y0 >= page.y0 - 1, text.get_text()
            assert box.y1 <= page.y1 + 1, text.get_text()
    return [text.get_text() for text in shown]


def drawn(stage: Path) -> Mapping[str, Figure]:
    about = ("desk", "baseline", "own")
    coefficients = {row["architecture"]: row for row in rows(stage, "coefficients")}
    return {
        "loss_by_compute": loss_by_compute.draw(rows(stage, "endpoints"), *about),
        "reducible_loss": reducible_loss.draw(rows(stage, "residuals"), coefficients, *about),
        "frontiers": frontiers.draw(rows(stage, "frontier"), rows(stage, "residuals"), 60, *about),
    }


def test_labels_units_and_caption(stage: Path) -> None:
    for name, figure in drawn(stage).items():
        texts = texts_on_the_page(figure)
        assert any("nats per token" in text for text in texts), name
        caption = next(text for text in texts if text.startswith("study desk"))
        assert "144 endpoints (baseline 72, smelt 72)" in caption
        assert "S convention: own" in caption
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        assert {"baseline", "smelt"} <= set(legend) or name == "reducible_loss"
        plt.close(figure)


def test_architectures_differ_by_line_and_by_fill(stage: Path) -> None:
    figure = loss_by_compute.draw(rows(stage, "endpoints"), "desk", "baseline", "own")
    lines = figure.axes[0].get_lines()
    assert len(lines) == 8  # four scales x two architectures in each panel
    reference = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert len(reference) == 4
    assert {line.get_linestyle() for line in reference} == {"--"}
    assert {line.get_linestyle() for line in lines if line not in reference} == {"-"}
    assert len({line.get_color() for line in lines}) == 4
    plt.close(figure)


def test_window_is_shaded_where_it_was_trained(stage: Path) -> None:
    figures = drawn(stage)
    trained = [row["training_flops"] for row in rows(stage, "endpoints")]
    for axis in figures["frontiers"].axes:
        (window,) = [patch for patch in axis.patches if patch.get_width() > 1]
        assert window.get_x() == pytest.approx(min(trained), rel=0.05)
        assert window.get_x() + window.get_width() == pytest.approx(max(trained), rel=0.07)
    for figure in figures.values():
        plt.close(figure)


def test_points_at_or_below_E_are_counted_not_dropped_in_silence(stage: Path) -> None:
    residuals = rows(stage, "residuals")
    coefficients = {row["architecture"]: row for row in rows(stage, "coefficients")}
    residuals[0]["loss"] = coefficients["baseline"]["E"] - 0.01
    figure = reducible_loss.draw(residuals, coefficients, "desk", "baseline", "own")
    assert any("1 at or below E not shown" in text for text in texts_on_the_page(figure))
    plt.close(figure)


# Training curves


def write_log(folder: Path, run: str, steps: int = 60) -> Path:
    step = np.arange(1, steps + 1, dtype=np.int32)
    loss = 6 * step**-0.2 + 0.1 * np.random.default_rng(len(run)).normal(size=steps)
    branch = np.zeros(steps, dtype=np.int32)
    branch[-5:] = 1
    path = folder / run / "log.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(
        pa.table({"step": step, "branch": branch, "tokens": step.astype(np.int64) * 4096, "loss": loss}), path
    )
    return path


def test_training_curves(tmp_path: Path) -> None:
    runs = [f"{name}-{scale}-S85" for name in ("baseline", "smelt") for scale in ("H32", "H96", "H128")]
    logs = [str(write_log(tmp_path, run)) for run in [*runs, "smelt-H32-S85-seed1"]]
    outs = [tmp_path / f"{name}.{kind}" for name in "ab" for kind in ("pdf", "png")]
    for pair in (outs[:2], outs[2:]):
        training_curves.main(["--spec", json.dumps(SPEC), "--logs", *logs, "--out", *map(str, pair)])
    assert outs[0].read_bytes() == outs[2].read_bytes()
    assert outs[1].read_bytes() == outs[3].read_bytes()


def test_stable_phase_by_scale(tmp_path: Path) -> None:
    curves = [training_curves.read_curve(write_log(tmp_path, f"smelt-{scale}-S85")) for scale in ("H128", "H32")]
    assert [curve.loss.size for curve in curves] == [55, 55]
    figure = training_curves.draw(curves, "desk", "baseline")
    assert [axis.get_title() for axis in figure.axes] == ["H32", "H128"]
    assert any("2 runs, stable phase · running mean over 3 steps" in text for text in texts_on_the_page(figure))
    plt.close(figure)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'elsewhere' is no run"):
        training_curves.read_curve(write_log(tmp_path, "elsewhere"))


def test_running_mean_keeps_constants_lines_and_sums() -> None:
    values = np.arange(100.0)
    mean, window = training_curves.running_mean(values)
    assert window == 5
    np.testing.assert_allclose(mean, values)  # symmetric windows leave a straight line as it is
    assert training_curves.running_mean(np.array([3.0]))[0] == [3.0]


# Small parts


def test_colours_are_distinct_and_labels_in_order() -> None:
    assert len(set(style.COLOURS)) == len(style.COLOURS) >= 7
    data = [{"scale": "B", "F": 2.0}, {"scale": "A", "F": 9.0}, {"scale": "B", "F": 4.0}]
    assert ordered(data, "scale", "F") == ["B", "A"]
    assert counted([{"architecture": "x"}], ["x", "y"]) == "1 endpoints (x 1, y 0)"
