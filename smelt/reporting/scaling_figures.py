"""The three figures of the scaling stage, in one job since loading matplotlib costs more than drawing.

Reads results/scaling/{endpoints,coefficients,residuals,frontier}.parquet; writes loss_by_compute,
reducible_loss and frontiers as PDF and PNG into results/figures/.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting import frontiers, loss_by_compute, reducible_loss, style


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="settings of the scaling stage, as JSON")
    for name in ("endpoints", "coefficients", "residuals", "frontier"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    for name in ("loss-by-compute", "reducible-loss", "frontiers"):
        parser.add_argument(f"--{name}", required=True, nargs="+", type=Path, help="files to write, .pdf or .png")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec)
    endpoints, residuals, frontier = (
        read_table(path).to_pylist() for path in (arguments.endpoints, arguments.residuals, arguments.frontier)
    )
    coefficients = {row["architecture"]: row for row in read_table(arguments.coefficients).to_pylist()}
    about = (settings["study"], settings["reference"], next(iter(coefficients.values()))["s_convention"])
    draws = min(row["draws"] for row in coefficients.values())
    style.save(loss_by_compute.draw(endpoints, *about), arguments.loss_by_compute)
    style.save(reducible_loss.draw(residuals, coefficients, *about), arguments.reducible_loss)
    style.save(frontiers.draw(frontier, residuals, draws, *about), arguments.frontiers)


if __name__ == "__main__":
    command(main)
