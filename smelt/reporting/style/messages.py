"""Words inside panels: remarks, and why a panel or a whole figure is empty."""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import legend, page
from smelt.reporting.style.labels import About


def note(axis: Axes, text: str) -> None:
    """A remark in the lower right corner of a panel."""
    axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=8, color="0.3")


def wrapped(text: str, width: int, most: int = 20) -> str:
    """Text in lines of at most `width` letters; beyond `most` lines it ends with an ellipsis."""
    return "\n".join(textwrap.wrap(text, width, max_lines=most, placeholder=" …"))


def message(axis: Axes, text: str, width: int = 40) -> None:
    """Say why a panel is empty."""
    lines = "\n".join(textwrap.fill(line, width) for line in text.splitlines())
    axis.text(0.5, 0.5, lines, transform=axis.transAxes, ha="center", va="center", color="0.3").set_in_layout(False)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def empty(about: About, said: Sequence[str], *parts: str) -> Figure:
    """A figure that says why there is nothing to draw, a paragraph for each of `said`."""
    figure, axes = page.panels(1, height=1.2 + 0.3 * len(said))
    message(axes[0], "\n".join(said), 90)
    legend.finish(figure, [], about, *parts)
    return figure
