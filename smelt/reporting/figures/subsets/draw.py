"""The figures of where a gain lies: subsets of the text, quartiles of the reference's loss, lengths of documents.

Reads results/scaling/{endpoints,coefficients,subsets,length}.parquet; writes subsets, quartiles and length_profile into
results/figures/, each as PDF, SVG and PNG. The name of a file without its ending says which figure it is.
"""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from smelt.errors import command
from smelt.reporting.figures.command import read_figure_job, read_frames
from smelt.reporting.figures.subsets import forest, length_profile, quartiles
from smelt.reporting.style import page
from smelt.reporting.style.labels import About, about, ordered

MODULE = "smelt.reporting.figures.subsets.draw"
ARTIFACTS = ("endpoints", "coefficients", "subsets", "length")


def shown(subsets: pd.DataFrame) -> tuple[float, str] | None:
    """The budget in FLOPs and the sparsity of the figures; None where there is no gain to show.

    The budget is the largest that is not extrapolated, or else the smallest; the sparsity is the middle one.
    """
    whole = subsets[subsets["kind"] == "all"]
    if whole.empty:
        return None
    trained = whole[whole["window"] != "extrapolated"]["budget_flops"]
    labels = ordered(whole, "sparsity", "S")
    budget = whole["budget_flops"].min() if trained.empty else trained.max()
    return float(budget), labels[len(labels) // 2]


FIGURES: dict[str, tuple[str, Callable[[pd.DataFrame, About], Figure]]] = {
    "subsets": ("subsets", lambda rows, about: forest.draw(rows, about, shown(rows))),
    "quartiles": ("subsets", lambda rows, about: quartiles.draw(rows, about, shown(rows))),
    "length_profile": ("length", length_profile.draw),
}


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ARTIFACTS)
    wanted = page.by_figure(job.paths("out"), FIGURES)
    read = read_frames(job)
    for name, paths in wanted.items():
        artifact, draw = FIGURES[name]
        draws = read[artifact]["draws"]
        least = min((int(count) for count in draws[draws > 0]), default=0)
        said = about(job.settings.study, job.settings.reference, read["coefficients"], read["endpoints"], least)
        page.save(draw(read[artifact], said), paths)


if __name__ == "__main__":
    command(main)
