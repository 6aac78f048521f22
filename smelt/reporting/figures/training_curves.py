"""Figure: training loss of the stable phase of every run, a panel for each scale.

Reads results/training/<run>/log.parquet of every run (branch 0 is the stable phase) and writes
results/figures/training_curves.{pdf,svg,png}. A run's id, ARCHITECTURE-SCALE-SPARSITY and perhaps more, is the name of
its folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smelt import tables
from smelt.errors import UserError, command
from smelt.reporting.figures.command import read_figure_job
from smelt.reporting.style import colours, legend, page
from smelt.reporting.style.labels import reference_first
from smelt.tables import numbers

MODULE = "smelt.reporting.figures.training_curves"
SMOOTHED = 0.05  # share of the steps that a running mean spans


class Curve(NamedTuple):
    """One run's stable phase."""

    architecture: str
    scale: str
    sparsity: str
    tokens: NDArray[np.float64]
    loss: NDArray[np.float64]


def read_curve(path: Path) -> Curve:
    """The stable phase in the training log at `path`, by step.

    Raises UserError where the log's folder is not named ARCHITECTURE-SCALE-SPARSITY.
    """
    parts = path.parent.name.split("-")
    if len(parts) < 3:
        raise UserError(f"{path}: its folder {path.parent.name!r} is no run; expected ARCHITECTURE-SCALE-SPARSITY")
    log = tables.read(path, ["step", "branch", "tokens", "loss"])
    stable = log[log["branch"] == 0].sort_values("step", kind="stable")
    return Curve(parts[0], parts[1], parts[2], numbers(stable, "tokens"), numbers(stable, "loss"))


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
        for curve in (curve for curve in curves if curve.scale == scale):
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
    job = read_figure_job(MODULE, __doc__, argv, ["logs*"])
    curves = [read_curve(path) for path in job.paths("logs")]
    page.save(draw(curves, job.settings.study, job.settings.reference), job.paths("out"))


if __name__ == "__main__":
    command(main)
