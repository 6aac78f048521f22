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
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FormatStrFormatter, MaxNLocator, NullLocator

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.reporting.style import log_axes
from smelt.reporting.style.labels import About
from smelt.reporting.style.layout import settle

# Okabe and Ito's palette without its yellow, which is too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1, 1, 1)), (0, (1, 1)))
REFERENCE_DASH = (0, (4, 2))
SHADE = "0.93"
WARNING = "#A33B00"  # of what must not be overlooked; 6.7 to 1 on white
# How a line is drawn where its optimum lies in the trained (F, D) box, in the trained compute only, or beyond both.
WINDOWS: dict[str, dict[str, Any]] = {
    "inside": {"linestyle": "-", "linewidth": 1.8},
    "edge": {"linestyle": (0, (2.6, 1.2)), "linewidth": 1.4},
    "extrapolated": {"linestyle": (0, (1, 1.6)), "linewidth": 1.1, "alpha": 0.75},
}
WINDOW_WORDS = {
    "inside": "optimum in the trained box",
    "edge": "trained compute only",
    "extrapolated": "extrapolated",
}
WIDTH = 7.0  # inches: a page's text width
LEGEND = 0.97  # of the page's width that a legend may take
FOOTER = 125  # letters in a line of the footer
# Of each kind of file, what to leave out so that the same figure has the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {"Software": None},
}
PANEL = 2.45  # inches: height of a row of panels
MOST_KEYS = 8  # labels of one kind that a legend names; of more, some stand for all

Entry = Line2D | Patch | tuple[Patch, Line2D]  # of a legend

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


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label, in order; where the palette runs out, a scale from dark to light for all."""
    if len(labels) > len(COLOURS):
        steps = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(labels)))
        return {label: to_hex(step) for label, step in zip(labels, steps, strict=True)}
    return dict(zip(labels, COLOURS, strict=False))


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


def keys(labels: Sequence[str], style: Callable[[str], dict[str, Any]]) -> list[Line2D]:
    """An entry for each label; of many labels, entries for some, evenly spaced."""
    if len(labels) <= MOST_KEYS:
        return [key(label, **style(label)) for label in labels]
    places = sorted({round(place) for place in np.linspace(0, len(labels) - 1, 5)})
    return [key(_short(labels[place]), **style(labels[place])) for place in places]


def _short(label: str) -> str:
    """A label that is a number of many digits, such as a model's parameters, in words: 57.3M."""
    try:
        value = float(label)
    except ValueError:
        return label
    return label if len(label) < 6 or value < 1e3 else log_axes.tokens(value)


def window_key(label: str, colour: str, window: str, behind: Mapping[str, Any]) -> tuple[Patch, Line2D]:
    """The look of a curve and of what lies behind it in one window, for a legend's entry of two parts."""
    patch = Patch(label=label, linewidth=0, **behind)
    return patch, Line2D([], [], label=label, color=colour, **WINDOWS[window])


def legend(figure: Figure, entries: Sequence[Entry | None], columns: int = 9, title: str = "") -> None:
    """One legend above all panels, read row by row and no wider than the page.

    Where one row does not hold it, each None among the entries begins another. The title is for what must not be
    overlooked.
    """
    whole = [entry for entry in entries if entry is not None]
    if not whole:
        if title:
            figure.suptitle(title, fontsize=10, fontweight="bold", color=WARNING)
        return
    drawn = _legend(figure, whole, len(whole), title)
    for most in range(min(columns, len(whole)), 0, -1):
        if _width(figure, drawn) <= LEGEND * figure.bbox.width:
            break
        drawn.remove()
        drawn = _legend(figure, *_rows(entries, most), title)
    drawn.get_title().set_color(WARNING)


def _rows(entries: Sequence[Entry | None], most: int) -> tuple[list[Entry], int]:
    """The entries in rows of one length, at most `most`, and that length; each group fills its rows evenly, and what
    it leaves free is filled with entries that show nothing."""
    groups: list[list[Entry]] = [[]]
    for entry in entries:
        if entry is None:
            groups.append([])
        else:
            groups[-1].append(entry)
    groups = [group for group in groups if group]
    across = [-(-len(group) // -(-len(group) // most)) for group in groups]
    laid: list[Entry] = []
    for group, length in zip(groups, across, strict=True):
        for start in range(0, len(group), length):
            row = group[start : start + length]
            laid += [*row, *(key("", linestyle="none") for _ in range(max(across) - len(row)))]
    return laid, max(across)


def _width(figure: Figure, drawn: Legend) -> float:
    """Pixels."""
    return float(drawn.get_window_extent(figure.canvas.get_renderer()).width)  # type: ignore[attr-defined]


def _legend(figure: Figure, entries: Sequence[Entry], columns: int, title: str) -> Legend:
    by_row = [entry for column in range(columns) for entry in entries[column::columns]]
    return figure.legend(
        handles=by_row,
        labels=[str((entry[0] if isinstance(entry, tuple) else entry).get_label()) for entry in by_row],
        loc="outside upper center",
        ncols=columns,
        handlelength=2.2,
        columnspacing=1.3,
        title=title or None,
        title_fontproperties={"size": 10, "weight": "bold"},
    )


def footer(figure: Figure, *parts: str) -> None:
    """A caption-like line below the panels, broken where the page ends (between parts where it can be)."""
    lines: list[str] = []
    for part in (part for part in parts if part):
        if lines and len(lines[-1]) + len(part) + 3 <= FOOTER:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, FOOTER)
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7, color="0.3")


def finish(figure: Figure, entries: Sequence[Entry | None], about: About, *parts: str, columns: int = 9) -> None:
    """Legend, footer and, of simulated endpoints, the line that says so, of a figure of the scaling stage."""
    legend(figure, entries, columns, about.simulated)
    footer(figure, about.simulated, f"study {about.study}", *parts, *about.parts)


def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write the figure under each name (its suffix chooses the format), the same bytes every time."""
    paths = list(paths)
    for path in paths:
        if path.suffix not in METADATA:
            raise UserError(f"{path}: no figure of that kind; its name must end in one of {', '.join(METADATA)}")
    settle(figure)
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


def note(axis: Axes, text: str) -> None:
    """A remark in the lower right corner of a panel."""
    axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=8, color="0.3")


def wrapped(text: str, width: int, most: int = 20) -> str:
    """Text in lines of at most `width` letters; beyond `most` lines it ends with an ellipsis."""
    return "\n".join(textwrap.wrap(text, width, max_lines=most, placeholder=" …"))


def empty(about: About, said: Sequence[str], *parts: str) -> Figure:
    """A figure that says why there is nothing to draw, a paragraph for each of `said`."""
    figure, axes = panels(1, height=1.2 + 0.3 * len(said))
    message(axes[0], "\n".join(said), 90)
    finish(figure, [], about, *parts)
    return figure


def message(axis: Axes, text: str, width: int = 40) -> None:
    """Say why a panel is empty."""
    lines = "\n".join(textwrap.fill(line, width) for line in text.splitlines())
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
