"""The figures of the scaling stage, in one job since loading matplotlib costs more than drawing.

Reads results/scaling/{endpoints,coefficients,residuals,frontier,ce_gain,gain_curve}.parquet; writes loss_by_compute,
surfaces, reducible_loss, frontiers and gain_curve into results/figures/, each as PDF, SVG and PNG. The name of a file
without its ending says which figure it is.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting.figures.scaling import frontiers, gain_curve, loss_by_compute, reducible_loss, surfaces
from smelt.reporting.style import page
from smelt.reporting.style.labels import About, Row, about

ARTIFACTS = ("endpoints", "coefficients", "residuals", "frontier", "ce_gain", "gain_curve")
Read = dict[str, list[Row]]


def _coefficients(read: Read) -> dict[str, Row]:
    return {row["architecture"]: row for row in read["coefficients"]}


FIGURES: dict[str, Callable[[Read, About], Figure]] = {
    "loss_by_compute": lambda read, said: loss_by_compute.draw(read["endpoints"], said),
    "surfaces": lambda read, said: surfaces.draw(read["residuals"], read["endpoints"], _coefficients(read), said),
    "reducible_loss": lambda read, said: reducible_loss.draw(read["residuals"], _coefficients(read), said),
    "frontiers": lambda read, said: frontiers.draw(read["frontier"], read["residuals"], _coefficients(read), said),
    "gain_curve": lambda read, said: gain_curve.draw(
        read["gain_curve"], read["ce_gain"], read["residuals"], _coefficients(read), said
    ),
}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="study and reference, as JSON")
    for name in ARTIFACTS:
        parser.add_argument(f"--{name.replace('_', '-')}", required=True, type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="NAME.pdf, NAME.svg or NAME.png")
    arguments = parser.parse_args(argv)
    wanted = page.by_figure(arguments.out, FIGURES)
    read = {name: read_table(getattr(arguments, name)).to_pylist() for name in ARTIFACTS}
    said = about(json.loads(arguments.spec), _coefficients(read), read["endpoints"])
    for name, paths in wanted.items():
        page.save(FIGURES[name](read, said), paths)


if __name__ == "__main__":
    command(main)
