"""Figure: the shape of an improvement over the lengths of documents, a panel for each architecture."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import About, Row, grouped, reference_first

LOOKS: dict[str, dict[str, Any]] = {
    "architecture": {"color": colours.COLOURS[0], "linestyle": "-", "marker": "o", "linewidth": 1.6},
    "more_experts": {"color": colours.COLOURS[1], "linestyle": colours.REFERENCE_DASH, "marker": "^"},
    "more_parameters": {"color": colours.COLOURS[2], "linestyle": (0, (1, 1)), "marker": "s"},
}
WORDS = {"more_experts": "more experts", "more_parameters": "more parameters"}
RANGE = (-1.0, 3.5)  # of the profiles that are shown at the most


def draw(length: Sequence[Row], about: About) -> Figure:
    """One panel for the reference's own contrasts and one for each other architecture's, which also shows how it
    compares with the reference."""
    names = reference_first((row["architecture"] for row in length), about.reference)
    rows = [row for row in length if row["bucket"] is not None]
    figure, axes = page.panels(len(names), columns=min(len(names), 2), height=3.3, sharey=True)
    ends = _range(rows)
    for axis, name in zip(axes, names, strict=True):
        _panel(axis, [row for row in rows if row["architecture"] == name], about.reference, ends)
        axis.set(title=name, xlabel="length of document, up to … tokens (documents)")
    for axis in axes[:: min(len(names), 2)]:
        axis.set_ylabel("improvement / mean over lengths")
    beyond = next((row for row in length if row["bucket"] is None), None)
    longer = f"{beyond['documents']} longer documents left out" if beyond and beyond["documents"] else ""
    clear = "pairs without a clear mean improvement left out" if any(row["left_out"] for row in rows) else ""
    words = {"architecture": f"over {about.reference}"} | WORDS
    drawn = [family for family in LOOKS if any(row["family"] == family and row["profile"] is not None for row in rows)]
    legend.legend(
        figure, [legend.key(words[family], markersize=4, **LOOKS[family]) for family in drawn], 3, about.simulated
    )
    # No surface and no S enters here, so that the usual footer would mislead.
    bands = f"95 % intervals: at least {about.draws:,} draws of cells" if about.draws else "no intervals"
    tilt = "tilt: mean of the longer half of the lengths / that of the shorter half"
    legend.footer(figure, about.simulated, f"study {about.study}", tilt, longer, clear, bands)
    return figure


def _range(rows: Sequence[Row]) -> tuple[float, float]:
    values = [row[name] for row in rows for name in ("profile", "low", "high") if row[name] is not None]
    values = [min(max(value, RANGE[0]), RANGE[1]) for value in [0.5, 1.5, *values]]
    return min(values) - 0.1, max(values) + 0.1


def _panel(axis: Axes, rows: Sequence[Row], reference: str, ends: tuple[float, float]) -> None:
    families = grouped(rows, "family")
    buckets = next(iter(families.values()))
    axis.axhline(1, color="0.3", linewidth=0.9)
    said = []
    for family, mine in families.items():
        look = LOOKS[family]
        name = f"over {reference}" if family == "architecture" else WORDS[family]
        if all(row["profile"] is None for row in mine):
            said.append(messages.wrapped(f"{name}: {mine[0]['reason']}", 52, 3))
            continue
        known = [(place, row) for place, row in enumerate(mine) if row["profile"] is not None]
        places = [place for place, _ in known]
        axis.plot(places, [row["profile"] for _, row in known], markersize=4, **look)
        if known[0][1]["low"] is not None:
            low, high = ([row[end] for _, row in known] for end in ("low", "high"))
            axis.fill_between(places, low, high, color=look["color"], alpha=0.15, linewidth=0)
        said.append(f"{name}: {_tilt(mine[0])}, {mine[0]['pairs']} pairs")
    axis.set_xticks(range(len(buckets)), [f"{row['bucket']}\n({row['documents']})" for row in buckets], fontsize=7)
    axis.set(xlim=(-0.4, len(buckets) - 0.6), ylim=(ends[0], ends[1] + 0.32 * (ends[1] - ends[0])))
    axis.text(0.02, 0.98, "\n".join(said), transform=axis.transAxes, ha="left", va="top", fontsize=7, color="0.2")


def _tilt(row: Row) -> str:
    if row["tilt"] is None:
        return "no tilt"
    if row["tilt_low"] is None:
        return f"tilt {row['tilt']:.2f}"
    return f"tilt {row['tilt']:.2f} [{row['tilt_low']:.2f}, {row['tilt_high']:.2f}]"
