"""The page of a figure: sizes, fonts, panels side by side, and files that have the same bytes every time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.reporting.style.layout import freeze_layout

WIDTH = 7.0  # inches: a page's text width
PANEL = 2.45  # inches: height of a row of panels
# Of each kind of file, what to leave out so that the same figure has the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {"Software": None},
}

plt.rcParams.update(
    {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so that the bytes do not depend on the system
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.labelsize": 9,
        "legend.fontsize": 8.5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "0.9",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "lines.linewidth": 1.2,
        "lines.markersize": 4,
        "legend.frameon": False,
        "figure.dpi": 100,
        "savefig.dpi": 200,
        "pdf.fonttype": 42,
        "svg.hashsalt": "smelt",  # ids in a file come from its contents
        "hatch.linewidth": 0.5,
    }
)


def panels(count: int, columns: int | None = None, height: float = PANEL, **share: Any) -> tuple[Figure, list[Axes]]:
    """A figure of one page's width with `count` panels in rows; unused places are removed."""
    columns = columns or min(count, 3)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, height * rows + 0.9), layout="constrained", squeeze=False, **share
    )
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write the figure under each name (its suffix chooses the format), the same bytes every time."""
    paths = list(paths)
    for path in paths:
        if path.suffix not in METADATA:
            raise UserError(f"{path}: no figure of that kind; its name must end in one of {', '.join(METADATA)}")
    freeze_layout(figure)
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], metadata=METADATA[path.suffix])
    plt.close(figure)


def by_figure(paths: Iterable[Path], known: Iterable[str]) -> dict[str, list[Path]]:
    """The files to write of each figure, which a file's name without its ending says.

    Raises UserError where it says none of `known`.
    """
    known, wanted = list(known), dict[str, list[Path]]()
    for path in paths:
        if path.stem not in known:
            raise UserError(f"{path}: no figure of that name; expected one of {', '.join(known)}")
        wanted.setdefault(path.stem, []).append(path)
    return wanted
