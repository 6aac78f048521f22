"""Figures of several bands of panels, one below the other, and words on what the scores in them rest on."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import page
from smelt.statistics import FEW_SEEDS

HEADING = 0.16  # inches
FREE = 0.06  # of a range of scores, above and below
CHANCE: dict[str, Any] = {"color": "0.45", "linewidth": 0.9, "linestyle": (0, (1, 2)), "zorder": 1}


class Band(NamedTuple):
    """A row of panels of one width, from the left; without any, one over the page's whole width."""

    panels: int
    height: float  # inches
    heading: str = ""  # above it


def draw(bands: Sequence[Band], columns: int) -> tuple[Figure, list[list[Axes]]]:
    """A figure of one page's width, and the panels of each band from left to right."""
    heights = [height for band in bands for height in ([HEADING] if band.heading else []) + [band.height]]
    figure = plt.figure(figsize=(page.WIDTH, sum(heights) + 0.9), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    rows = iter(range(len(heights)))
    axes = []
    for band in bands:
        if band.heading:
            _head(figure.add_subplot(grid[next(rows), :]), band.heading)
        row, places = next(rows), range(band.panels) if band.panels else [slice(None)]
        axes.append([figure.add_subplot(grid[row, place]) for place in places])
    return figure, axes


def _head(axis: Axes, heading: str) -> None:
    axis.axis("off")
    # Outside the layout, which would else give a long heading's width to a panel.
    axis.text(0, 0, heading, fontsize=9.5, fontweight="bold", va="bottom").set_in_layout(False)


def lowest(grid: Sequence[Sequence[Axes]]) -> list[Axes]:
    """The panels of each column that have none below them."""
    return list({column: axis for axes in grid for column, axis in enumerate(axes)}.values())


def seeds(counts: Iterable[int | None]) -> str:
    """How many seeds of the demonstrations scores rest on, in words; 0 and None are of scores without any."""
    drawn = sorted({count for count in counts if count})
    if not drawn:
        return "no demonstrations drawn, so no standard error"
    if drawn == [1]:
        return "1 evaluation seed, so no standard error"
    said = f"{' and '.join(map(str, drawn))} evaluation seeds"
    return said + (" (few)" if drawn[0] < FEW_SEEDS else "")


def limits(axes: Sequence[Axes], least: float) -> tuple[float, float]:
    """Ends of one axis of scores for some panels, no nearer than `least`: of less, rounding would fill the panels."""
    low, high = min(axis.dataLim.y0 for axis in axes), max(axis.dataLim.y1 for axis in axes)
    free = FREE * max(high - low, least)
    if high - low >= least:
        return low - free, high + free
    bottom = (low + high - least) / 2
    bottom = max(bottom, -free) if low >= 0 else bottom  # little room below a score of 0
    return bottom, bottom + least
