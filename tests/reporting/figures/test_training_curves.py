"""Training curves: each run's stable phase, smoothed without bias, the same bytes twice."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt

from smelt.errors import UserError
from smelt.reporting.figures import training_curves
from tests.reporting.figures.test_scaling import SPEC, texts_on_the_page


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
    outs = [tmp_path / f"{name}.svg" for name in "ab"]
    for out in outs:
        training_curves.main(["--spec", json.dumps(SPEC), "--logs", *logs, "--out", str(out)])
    assert outs[0].read_bytes() == outs[1].read_bytes()


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
