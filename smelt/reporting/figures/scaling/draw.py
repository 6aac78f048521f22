"""The figures of the scaling stage, in one job since loading matplotlib costs more than drawing.

Reads results/scaling/{endpoints,coefficients,residuals,frontier,ce_gain,gain_curve,iso_loss_gain}.parquet; writes
loss_by_compute, surfaces, reducible_loss, frontiers, gain_curve and iso_loss_gain into results/figures/, each as PDF,
SVG and PNG. The name of a file without its ending says which figure it is.
"""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from smelt.errors import command
from smelt.reporting.figures.command import read_figure_job, read_frames
from smelt.reporting.figures.scaling import (
    frontiers,
    gain_curve,
    iso_loss_gain,
    loss_by_compute,
    reducible_loss,
    surfaces,
)
from smelt.reporting.style import page
from smelt.reporting.style.labels import About, about, by_architecture

MODULE = "smelt.reporting.figures.scaling.draw"
ARTIFACTS = ("endpoints", "coefficients", "residuals", "frontier", "ce_gain", "gain_curve", "iso_loss_gain")
Frames = Mapping[str, pd.DataFrame]  # each of ARTIFACTS


FIGURES: dict[str, Callable[[Frames, About], Figure]] = {
    "loss_by_compute": lambda read, about: loss_by_compute.draw(read["endpoints"], about),
    "surfaces": lambda read, about: surfaces.draw(
        read["residuals"], read["endpoints"], by_architecture(read["coefficients"]), about
    ),
    "reducible_loss": lambda read, about: reducible_loss.draw(
        read["residuals"], by_architecture(read["coefficients"]), about
    ),
    "frontiers": lambda read, about: frontiers.draw(
        read["frontier"], read["residuals"], by_architecture(read["coefficients"]), about
    ),
    "gain_curve": lambda read, about: gain_curve.draw(
        read["gain_curve"], read["ce_gain"], read["residuals"], by_architecture(read["coefficients"]), about
    ),
    "iso_loss_gain": lambda read, about: iso_loss_gain.draw(read["iso_loss_gain"], read["endpoints"], about),
}


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ARTIFACTS)
    wanted = page.by_figure(job.paths("out"), FIGURES)
    read = read_frames(job)
    said = about(job.settings.study, job.settings.reference, read["coefficients"], read["endpoints"])
    for name, paths in wanted.items():
        page.save(FIGURES[name](read, said), paths)


if __name__ == "__main__":
    command(main)
