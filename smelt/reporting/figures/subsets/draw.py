"""The figures of where a gain lies: subsets of the text, quartiles of the reference's loss, lengths of documents.

Reads results/scaling/{endpoints,coefficients,subsets,length}.parquet; writes subsets, quartiles and length_profile into
results/figures/, each as PDF, SVG and PNG. The name of a file without its ending says which figure it is.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from smelt.artifacts import read_table
from smelt.errors import command
from smelt.reporting.figures.subsets import forest, length_profile, quartiles
from smelt.reporting.style import page
from smelt.reporting.style.labels import About, Row, about, ordered

ARTIFACTS = ("endpoints", "coefficients", "subsets", "length")


def shown(subsets: Sequence[Row]) -> tuple[float, str] | None:
    """The budget and the sparsity of the figures: the largest budget that is not extrapolated, or else the smallest,
    and the middle sparsity; nothing where there is no gain to show."""
    whole = [row for row in subsets if row["kind"] == "all"]
    if not whole:
        return None
    trained = [row["budget_flops"] for row in whole if row["window"] != "extrapolated"]
    labels = ordered(whole, "sparsity", "S")
    budget = max(trained) if trained else min(row["budget_flops"] for row in whole)
    return budget, labels[len(labels) // 2]


FIGURES: dict[str, tuple[str, Callable[[list[Row], About], Figure]]] = {
    "subsets": ("subsets", lambda rows, said: forest.draw(rows, said, shown(rows))),
    "quartiles": ("subsets", lambda rows, said: quartiles.draw(rows, said, shown(rows))),
    "length_profile": ("length", length_profile.draw),
}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="study and reference, as JSON")
    for name in ARTIFACTS:
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--out", required=True, nargs="+", type=Path, help="NAME.pdf, NAME.svg or NAME.png")
    arguments = parser.parse_args(argv)
    wanted = page.by_figure(arguments.out, FIGURES)
    read = {name: read_table(getattr(arguments, name)).to_pylist() for name in ARTIFACTS}
    coefficients = {row["architecture"]: row for row in read["coefficients"]}
    for name, paths in wanted.items():
        artifact, draw = FIGURES[name]
        drawn = [row["draws"] for row in read[artifact] if row["draws"]]
        said = about(json.loads(arguments.spec), coefficients, read["endpoints"], min(drawn, default=0))
        page.save(draw(read[artifact], said), paths)


if __name__ == "__main__":
    command(main)
