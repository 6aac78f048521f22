"""Figure: the shape of an improvement over the lengths of documents, a panel for each architecture."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import About, Row, groups, reference_first
from smelt.tables import numbers
from smelt.tables import rows as rows_of

LOOKS: dict[str, dict[str, Any]] = {
    "architecture": {"color": colours.COLOURS[0], "linestyle": "-", "marker": "o", "linewidth": 1.6},
    "more_experts": {"color": colours.COLOURS[1], "linestyle": colours.REFERENCE_DASH, "marker": "^"},
    "more_parameters": {"color": colours.COLOURS[2], "linestyle": (0, (1, 1)), "marker": "s"},
}
WORDS = {"more_experts": "more experts", "more_parameters": "more parameters"}
RANGE = (-1.0, 3.5)  # of the profiles that are shown at the most


def draw(length: pd.DataFrame, about: About) -> Figure:
    """One panel for the reference's own contrasts and one for each other architecture's, which also shows how it
    compares with the reference."""
    names = reference_first(length["architecture"], about.reference)
    rows = length[length["bucket"].notna()]
    figure, axes = page.panels(len(names), columns=min(len(names), 2), height=3.3, sharey=True)
    ends = _range(rows)
    for axis, name in zip(axes, names, strict=True):
        _panel(axis, rows[rows["architecture"] == name], about.reference, ends)
        axis.set(title=name, xlabel="length of document, up to … tokens (documents)")
    for axis in axes[:: min(len(names), 2)]:
        axis.set_ylabel("improvement / mean over lengths")
    beyond = rows_of(length[length["bucket"].isna()].head(1))
    longer = f"{beyond[0]['documents']} longer documents left out" if beyond and beyond[0]["documents"] else ""
    clear = "pairs without a clear mean improvement left out" if (rows["left_out"] > 0).any() else ""
    words = {"architecture": f"over {about.reference}"} | WORDS
    with_profile = set(rows[rows["profile"].notna()]["family"])
    drawn = [family for family in LOOKS if family in with_profile]
    legend.legend(
        figure, [legend.key(words[family], markersize=4, **LOOKS[family]) for family in drawn], 3, about.simulated
    )
    # No surface and no S enters here, so that the usual footer would mislead.
    bands = f"95 % intervals: at least {about.draws:,} draws of cells" if about.draws else "no intervals"
    tilt = "tilt: mean of the longer half of the lengths / that of the shorter half"
    legend.footer(figure, about.simulated, f"study {about.study}", tilt, longer, clear, bands)
    return figure


def _range(rows: pd.DataFrame) -> tuple[float, float]:
    columns = [numbers(rows, name) for name in ("profile", "low", "high")]
    values = np.clip(np.concatenate([[0.5, 1.5], *columns]), *RANGE)
    return float(np.nanmin(values)) - 0.1, float(np.nanmax(values)) + 0.1


def _panel(axis: Axes, rows: pd.DataFrame, reference: str, ends: tuple[float, float]) -> None:
    families = {family: part.reset_index(drop=True) for family, part in groups(rows, "family")}
    buckets = rows_of(next(iter(families.values())))
    axis.axhline(1, color="0.3", linewidth=0.9)
    said = []
    for family, profile in families.items():
        look, first = LOOKS[family], rows_of(profile.head(1))[0]
        name = f"over {reference}" if family == "architecture" else WORDS[family]
        known = profile[profile["profile"].notna()]
        if known.empty:
            said.append(messages.wrapped(f"{name}: {first['reason']}", 52, 3))
            continue
        axis.plot(known.index, numbers(known, "profile"), markersize=4, **look)
        if known["low"].notna().iloc[0]:
            low, high = numbers(known, "low"), numbers(known, "high")
            axis.fill_between(known.index, low, high, color=look["color"], alpha=0.15, linewidth=0)
        said.append(f"{name}: {_tilt(first)}, {first['pairs']} pairs")
    axis.set_xticks(range(len(buckets)), [f"{row['bucket']}\n({row['documents']})" for row in buckets], fontsize=7)
    axis.set(xlim=(-0.4, len(buckets) - 0.6), ylim=(ends[0], ends[1] + 0.32 * (ends[1] - ends[0])))
    axis.text(0.02, 0.98, "\n".join(said), transform=axis.transAxes, ha="left", va="top", fontsize=7, color="0.2")


def _tilt(row: Row) -> str:
    if row["tilt"] is None:
        return "no tilt"
    if row["tilt_low"] is None:
        return f"tilt {row['tilt']:.2f}"
    return f"tilt {row['tilt']:.2f} [{row['tilt_low']:.2f}, {row['tilt_high']:.2f}]"
