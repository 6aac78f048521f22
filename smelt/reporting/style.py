"""One look for all figures: sizes, colours that colour-blind readers can tell apart, and files without a date.

Colour says the scale or the sparsity; line style and marker fill together say the architecture, so that a
figure is read in grey too: the reference is dashed with open markers, the others are drawn through and
filled.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FormatStrFormatter, MaxNLocator, NullLocator

from smelt.artifacts import replacing

# Okabe and Ito's palette without its yellow, which is too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1, 1, 1)), (0, (1, 1)))
REFERENCE_DASH = (0, (4, 2))
SHADE = "0.93"
WIDTH = 7.0  # inches: a page's text width
PANEL = 2.35  # inches: height of a row of panels

plt.rcParams.update(
    {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so that the bytes do not depend on the system
        "font.size": 8,
        "axes.titlesize": 8.5,
        "axes.labelsize": 8,
        "legend.fontsize": 7.5,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
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
        "svg.hashsalt": "smelt",
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


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label, in order."""
    return {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(labels)}


def markers(labels: Sequence[str]) -> dict[str, str]:
    """A marker for each label, in order."""
    return {label: MARKERS[place % len(MARKERS)] for place, label in enumerate(labels)}


def architecture_style(architectures: Sequence[str], reference: str) -> dict[str, Callable[[str], dict[str, Any]]]:
    """For each architecture, what to pass to `plot` for a line of a given colour."""
    others = [name for name in architectures if name != reference]
    styles = {name: _style(DASHES[place % len(DASHES)], True) for place, name in enumerate(others)}
    return {reference: _style(REFERENCE_DASH, False)} | styles


def _style(dash: Any, filled: bool) -> Callable[[str], dict[str, Any]]:
    def of(colour: str) -> dict[str, Any]:
        return {
            "color": colour,
            "linestyle": dash,
            "markerfacecolor": colour if filled else "white",
            "markeredgecolor": colour,
        }

    return of


def key(label: str, **style: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **style)


def legend(figure: Figure, entries: Sequence[Line2D], columns: int = 7) -> None:
    """One legend above all panels."""
    figure.legend(
        handles=list(entries),
        loc="outside upper center",
        ncols=min(columns, len(entries)),
        handlelength=2.4,
        columnspacing=1.6,
    )


def footer(figure: Figure, *parts: str) -> None:
    """A caption-like line below the panels, broken where the page ends."""
    text = textwrap.fill(" · ".join(part for part in parts if part), 130)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=6.5, color="0.35")


def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write the figure under each name (its suffix chooses the format), the same bytes every time."""
    metadata: Mapping[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], metadata=metadata[path.suffix])
    plt.close(figure)


def note(axis: Axes, text: str) -> None:
    """A remark in the lower right corner of a panel."""
    axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=7, color="0.3")


def message(axis: Axes, text: str) -> None:
    """Say why a panel is empty."""
    lines = textwrap.fill(text, 40)
    axis.text(0.5, 0.5, lines, transform=axis.transAxes, ha="center", va="center", color="0.3").set_in_layout(False)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def plain_log(axis: Axis, low: float, high: float) -> None:
    """A log axis from `low` to `high` with plain numbers, for ranges of about a decade or less."""
    steps = (1, 1.5, 2, 3, 4, 5, 7) if high / low < 10 else (1, 2, 5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    if high / low < 2:
        ticks = [float(tick) for tick in MaxNLocator(5).tick_values(low, high)]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FormatStrFormatter("%.3g"))
    axis.set_minor_locator(NullLocator())
