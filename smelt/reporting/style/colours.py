"""Who gets which colour, marker and line style, so that colour-blind readers and grey print can tell them apart.

Colour says the scale or the sparsity; where a figure has a panel for each of those, it says the architecture. Line
style and marker fill always say the architecture too, so that a figure is read in grey: the reference is dashed with
open markers, the others are drawn through and filled.
"""

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

# Okabe and Ito's palette without its yellow, which is too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "d", "h")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1, 1, 1)), (0, (1, 1)))
REFERENCE_DASH = (0, (4, 2))
SHADE = "0.93"
WARNING = "#A33B00"  # of what must not be overlooked; 6.7 to 1 on white
# How a line is drawn where its optimum lies in the trained (F, D), a little outside, or beyond.
WINDOWS: dict[str, dict[str, Any]] = {
    "inside": {"linestyle": "-", "linewidth": 1.8},
    "edge": {"linestyle": (0, (2.6, 1.2)), "linewidth": 1.4},
    "extrapolated": {"linestyle": (0, (1, 1.6)), "linewidth": 1.1, "alpha": 0.75},
}
WINDOW_WORDS = {
    "inside": "optimum in the trained (F, D)",
    "edge": "up to 1.5 times outside",
    "extrapolated": "extrapolated",
}


def by_label(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label, in order; where the palette runs out, a scale from dark to light for all."""
    if len(labels) > len(COLOURS):
        steps = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(labels)))
        return {label: to_hex(step) for label, step in zip(labels, steps, strict=True)}
    return dict(zip(labels, COLOURS, strict=False))


def markers(labels: Sequence[str]) -> dict[str, str]:
    """A marker for each label, in order, its own; where the shapes run out, the label's number."""
    numbered = [f"${place}$" for place in range(len(MARKERS) + 1, len(labels) + 1)]
    return dict(zip(labels, [*MARKERS, *numbered], strict=False))


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
