"""Axes of the figures: ends and round numbers of log axes, and labels beside the outer panels only."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedLocator,
    FormatStrFormatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from numpy.typing import NDArray


def margins(values: Sequence[float] | NDArray[np.float64], share: float = 0.06) -> tuple[float, float]:
    """Ends of a log axis that leave `share` of the values' range, and at least 5 %, free on both sides."""
    low, high = math.log(min(values)), math.log(max(values))
    free = max(share * (high - low), 0.05)
    return math.exp(low - free), math.exp(high + free)


def outer(axes: Sequence[Axes], columns: int) -> None:
    """Labels and numbers below the lowest panel of each column and beside the first of each row only."""
    for place, axis in enumerate(axes):
        lowest, first = place + columns >= len(axes), place % columns == 0
        axis.tick_params(labelbottom=lowest, labelleft=first)
        if not lowest:
            axis.set_xlabel("")
        if not first:
            axis.set_ylabel("")


def counted_log(axis: Axis, low: float, high: float, words: Callable[[float], str], most: int = 5) -> None:
    """A log axis from `low` to `high` with at most `most` labels, each a round number in words."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    ticks = ticks[:: -(-len(ticks) // most) or 1]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_locator(LogLocator(subs=range(2, 10)))
    axis.set_minor_formatter(NullFormatter())


def tokens(value: float) -> str:
    """A number of tokens or parameters: 200K, 20B."""
    power = min(max(int(math.log10(value) + 1e-9) // 3, 0), 4)
    return f"{value / 1000**power:.3g}{('', 'K', 'M', 'B', 'T')[power]}"


def scientific(value: float) -> str:
    """A number as a power of ten, with its digit where that is not one."""
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.3g}"
    return f"$10^{{{power}}}$" if digits == "1" else f"${digits}\\cdot 10^{{{power}}}$"


def compute_axis(
    axes: Iterable[Axes], values: Sequence[float] | NDArray[np.float64], share: float = 0.04, most: int = 4
) -> None:
    """The same log axis of training FLOPs below all panels."""
    low, high = margins(values, share)
    for axis in axes:
        axis.set(xscale="log", xlim=(low, high), xlabel="training FLOPs, C")
        counted_log(axis.xaxis, low, high, scientific, most)


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
