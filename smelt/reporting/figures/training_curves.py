"""Figure: training loss of the stable phase of every run, a panel for each scale.

Reads results/training/<run>/log.parquet of every run (branch 0 is the stable phase) and writes
results/figures/training_curves.{pdf,svg,png}. A run's id, ARCHITECTURE-SCALE-SPARSITY and perhaps more, is the name of
its folder.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smelt.artifacts import read_table
from smelt.errors import UserError, command
from smelt.reporting.style import colours, legend, page
from smelt.reporting.style.labels import reference_first

SMOOTHED = 0.05  # share of the steps that a running mean spans


class Curve(NamedTuple):
    """One run's stable phase."""

    architecture: str
    scale: str
    sparsity: str
    tokens: NDArray[np.float64]
    loss: NDArray[np.float64]


def read_curve(path: Path) -> Curve:
    """The stable phase in a training log."""
    parts = path.parent.name.split("-")
    if len(parts) < 3:
        raise UserError(f"{path}: its folder {path.parent.name!r} is no run; expected ARCHITECTURE-SCALE-SPARSITY")
    data = read_table(path, ["step", "branch", "tokens", "loss"])
    columns = [np.array(data[name].to_pylist(), dtype=np.float64) for name in ("step", "branch", "tokens", "loss")]
    stable = columns[1] == 0
    order = np.argsort(columns[0][stable], kind="stable")
    return Curve(parts[0], parts[1], parts[2], columns[2][stable][order], columns[3][stable][order])


def running_mean(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Centred running mean, its window shortened at both ends, and the window's length in steps."""
    half = max(int(SMOOTHED * values.size) // 2, 0)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(values.size)
    reach = np.minimum(half, np.minimum(places, values.size - 1 - places))
    return (sums[places + reach + 1] - sums[places - reach]) / (2 * reach + 1), 2 * half + 1


def draw(curves: Sequence[Curve], study: str, reference: str) -> Figure:
    """Colour by sparsity, line style by architecture."""
    scales = _natural({curve.scale for curve in curves})
    sparsities = _natural({curve.sparsity for curve in curves})
    names = reference_first((curve.architecture for curve in curves), reference)
    colour_of, looks = colours.by_label(sparsities), colours.architecture_style(names, reference)
    figure, axes = page.panels(len(scales), columns=2 if len(scales) in (2, 4) else 3, sharex=True, sharey=True)
    window = 1
    for axis, scale in zip(axes, scales, strict=True):
        for curve in (one for one in curves if one.scale == scale):
            loss, window = running_mean(curve.loss)
            axis.plot(curve.tokens, loss, **looks[curve.architecture](colour_of[curve.sparsity]) | {"linewidth": 0.9})
        axis.set(xscale="log", title=scale)
    for axis in axes:
        axis.set(xlabel="training tokens, D", ylabel="training loss (nats per token)")
        axis.label_outer()
    entries = [legend.key(label, color=colour_of[label], linewidth=3) for label in sparsities]
    entries += [legend.key(name, **looks[name]("0.25")) for name in names]
    legend.legend(figure, entries)
    mean = f"running mean over {window} steps" if window > 1 else "no smoothing"
    legend.footer(figure, f"study {study}", f"{len(curves)} runs, stable phase", mean)
    return figure


def _natural(labels: set[str]) -> list[str]:
    """H96 before H128, 200M before 1.6B."""
    units = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}

    def size(label: str) -> tuple[float, str]:
        digits = "".join(letter for letter in label if letter.isdigit() or letter == ".").strip(".")
        number = float(digits) if digits.count(".") <= 1 and digits else 0.0
        return number * units.get(label[-1].upper(), 1.0), label

    return sorted(labels, key=size)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    parser.add_argument("--logs", required=True, nargs="+", type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="files to write, .pdf, .svg or .png")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec)
    curves = [read_curve(path) for path in arguments.logs]
    page.save(draw(curves, settings["study"], settings["reference"]), arguments.out)


if __name__ == "__main__":
    command(main)
