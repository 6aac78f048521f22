"""The calibration figure: the same bytes twice, every metric in its place, nothing outside the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from smelt import tables
from smelt.reporting.figures.downstream import calibration
from tests.scaling.calibration.test_calibration import CURVES, OUTPUTS, calibrate, score_row, scored, study
from tests.scaling.published import endpoint_rows, part

Row = dict[str, Any]


def scores(endpoints: Sequence[Row], noise: float = 0.005) -> list[Row]:
    random = np.random.default_rng(0)
    better = {"smelt": 0.01, "baseline": 0.0}
    return [
        row
        for metric in CURVES
        for row in scored(
            endpoints, metric, lambda one: better.get(one["architecture"], 0.02) + noise * random.normal()
        )
    ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stage")
    calibrate(folder, study(), scores(study()))
    return folder


def read(folder: Path) -> dict[str, pd.DataFrame]:
    names = {"endpoints": "endpoints"} | {name: OUTPUTS[name] for name in calibration.ARTIFACTS[1:]}
    return {name: tables.read(folder / f"{stem}.parquet") for name, stem in names.items()}


def texts(figure: Figure) -> list[str]:
    """All texts that show; each lies on the page, and no title over another."""
    figure.draw_without_rendering()
    page = figure.bbox
    shown = [text for text in figure.findobj(plt.Text) if text.get_visible() and text.get_text()]
    ticks = {id(tick) for axis in figure.axes for tick in (*axis.get_xticklabels(), *axis.get_yticklabels())}
    for text in (text for text in shown if id(text) not in ticks):
        box = text.get_window_extent()
        assert box.x0 >= page.x0 - 1, text.get_text()
        assert box.x1 <= page.x1 + 1, text.get_text()
        assert box.y0 >= page.y0 - 1, text.get_text()
        assert box.y1 <= page.y1 + 1, text.get_text()
    titles = [axis.title.get_window_extent() for axis in figure.axes]
    assert not any(one.overlaps(other) for place, one in enumerate(titles) for other in titles[:place])
    return [text.get_text() for text in shown]


def test_bytes_are_the_same_twice(stage: Path, tmp_path: Path) -> None:
    arguments = ["--spec", json.dumps({"study": "desk", "reference": "baseline"})]
    for name in calibration.ARTIFACTS:
        arguments += [f"--{name}", str(stage / f"{OUTPUTS.get(name, name)}.parquet")]
    for folder in ("a", "b"):
        calibration.main([*arguments, "--out", str(tmp_path / folder / "c.svg")])
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert path.stat().st_size > 10_000


def test_a_pair_of_panels_for_each_metric(stage: Path) -> None:
    figure = calibration.draw(read(stage), "desk", "baseline")
    shown = texts(figure)
    assert [axis.get_title() for axis in figure.axes] == [
        "completion", "core", "mmlu (points)", "residual (10⁻³)", "residual", "residual (points)",
    ]  # fmt: skip
    assert any("144 endpoints (baseline 72, smelt 72)" in text for text in shown)
    assert any("draws of cells, the curve refitted in each" in text for text in shown)
    assert sum(text.startswith("R² = ") for text in shown) == 3
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["100M", "200M", "600M", "1.6B", "baseline", "smelt", "curve of baseline"]
    plt.close(figure)


def test_points_lie_where_they_should(stage: Path) -> None:
    frames = read(stage)
    rows = {name: tables.rows(frame) for name, frame in frames.items()}
    figure = calibration.draw(frames, "desk", "baseline")
    (upper, lower) = (figure.axes[place] for place in (2, 5))  # mmlu, in points
    drawn = sorted(y for line in upper.get_lines() if line.get_linestyle() == "None" for y in line.get_ydata())
    expected = sorted(100 * row["score"] for row in rows["residuals"] if row["metric"] == "mmlu")
    np.testing.assert_allclose(drawn, expected)
    means = [row for row in rows["means"] if row["metric"] == "mmlu" and row["group"] in ("scale", "all")]
    dots = [line.get_ydata()[0] for line in lower.get_lines() if line.get_marker() != "None"]
    np.testing.assert_allclose(sorted(dots), sorted(100 * row["residual"] for row in means), atol=1e-12)
    assert [label.get_text() for label in lower.get_xticklabels()] == ["100M", "200M", "600M", "1.6B", "all"]
    curve = next(line for line in upper.get_lines() if line.get_linestyle() == "--")
    reference = [row["loss"] for row in rows["residuals"] if row["architecture"] == "baseline"]
    assert (min(curve.get_xdata()), max(curve.get_xdata())) == pytest.approx((min(reference), max(reference)))
    plt.close(figure)


@pytest.mark.parametrize("metrics", [1, 2, 5])
def test_other_numbers_of_metrics_and_architectures(tmp_path: Path, metrics: int) -> None:
    endpoints = study(part(3, 2))
    endpoints += [row | {"architecture": "other"} for row in endpoints if row["architecture"] == "smelt"]
    rows = []
    for number in range(metrics):
        rows += [row | {"metric": f"metric {number}"} for row in scored(endpoints, "core")]
    calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)
    figure = calibration.draw(read(tmp_path), "desk", "baseline")
    texts(figure)
    assert len(figure.axes) == 2 * metrics
    plt.close(figure)


def test_what_could_not_be_fitted_says_why(tmp_path: Path) -> None:
    endpoints = endpoint_rows(part(1, 1), steps=(10_000, 20_000, 50_000))
    rows = [score_row(row, "core", 0.3) for row in endpoints]
    calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)
    figure = calibration.draw(read(tmp_path), "desk", "baseline")
    shown = " ".join(texts(figure)).replace("\n", " ")
    assert "no curve: 3 distinct losses; a curve needs at least 5" in shown
    assert "no curve, so no residuals" in shown
    assert "no intervals" in shown
    plt.close(figure)


def test_simulated_endpoints_are_named(tmp_path: Path) -> None:
    endpoints = [row | {"source": "simulated from somewhere"} for row in study(part(2, 2))]
    calibrate(tmp_path, endpoints, scores(endpoints), bootstrap_draws=5)
    figure = calibration.draw(read(tmp_path), "desk", "baseline")
    assert any(text.startswith("Simulated from somewhere") for text in texts(figure))
    plt.close(figure)
