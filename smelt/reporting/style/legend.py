"""What stands above and below the panels: one legend for all of them, and the footer."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from smelt.reporting.style import log_axes
from smelt.reporting.style.colours import WARNING, WINDOWS
from smelt.reporting.style.labels import About

LEGEND = 0.97  # of the page's width that a legend may take
FOOTER = 125  # letters in a line of the footer
MOST_KEYS = 8  # labels on a scale of colours that a legend names; of more, some stand for all

Entry = Line2D | Patch | tuple[Patch, Line2D]  # of a legend


def key(label: str, **style: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **style)


def keys(labels: Sequence[str], style: Callable[[str], dict[str, Any]]) -> list[Line2D]:
    """An entry for each label."""
    return [key(label, **style(label)) for label in labels]


def some_keys(labels: Sequence[str], style: Callable[[str], dict[str, Any]]) -> list[Line2D]:
    """An entry for each label on a scale of colours; of many labels, entries for some, evenly spaced."""
    if len(labels) <= MOST_KEYS:
        return keys(labels, style)
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
