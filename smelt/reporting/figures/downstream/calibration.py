"""Figure: scores against validation loss with the reference's calibration curve, and mean residuals by scale.

Reads results/scaling/{endpoints,calibration,calibration_residuals,calibration_means}.parquet; writes
results/figures/calibration.{pdf,svg,png}, a pair of panels for each metric.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit

from smelt import tables
from smelt.errors import command
from smelt.reporting.figures.command import read_figure_job, read_frames
from smelt.reporting.style import colours, legend, messages, page
from smelt.reporting.style.labels import Row, counted, groups, ordered, reference_first, simulation
from smelt.tables import numbers

MODULE = "smelt.reporting.figures.downstream.calibration"

ARTIFACTS = ("endpoints", "calibration", "residuals", "means")
APART = 0.14  # between the architectures of one scale, in widths of a scale's place
BEYOND = (0, (1, 2))  # dashes of a curve beyond the losses that it was fitted to
LINE = "0.35"
TOGETHER = "0.25"  # colour of what has no scale


@dataclasses.dataclass(frozen=True)
class Look:
    """How architectures (the reference first, and open) and scales are drawn."""

    names: Sequence[str]
    scales: Sequence[str]
    markers: Mapping[str, str]
    colour_of: Mapping[str, str]

    def point(self, name: str, scale: str | None = None) -> dict[str, Any]:
        """The marker of an architecture in a scale's colour."""
        colour = self.colour_of.get(scale or "", TOGETHER)
        face = "white" if name == self.names[0] else colour
        return {"marker": self.markers[name], "color": colour, "markeredgecolor": colour, "markerfacecolor": face}


def draw(read: Mapping[str, pd.DataFrame], study: str, reference: str) -> Figure:
    """A pair of panels for each metric: colour by scale; marker and its fill by architecture, the reference open.

    `read` holds the table of each of ARTIFACTS.
    """
    calibration, points = (_of_metrics(read[name]) for name in ("calibration", "residuals"))
    curves, means = tables.rows(calibration), read["means"]
    names = reference_first([*points["architecture"], reference], reference)
    endpoints = read["endpoints"]
    scales = ordered(endpoints[endpoints["scale"].fillna("") != ""], "scale", "flops_per_token")
    look = Look(names, scales, colours.markers(names), colours.by_label(scales))
    columns = min(len(curves), 3)
    bands = -(-len(curves) // columns)
    figure, axes = page.panels(2 * bands * columns, columns, height=2.1, height_ratios=(1.35, 1) * bands)
    for place in range(bands * columns):
        band, column = divmod(place, columns)
        upper, lower = (axes[(2 * band + row) * columns + column] for row in (0, 1))
        if place >= len(curves):
            upper.remove()
            lower.remove()
            continue
        curve = curves[place]
        _scores(upper, curve, points[points["metric"] == curve["metric"]], look)
        _means(lower, curve, means[means["metric"] == curve["metric"]], look)
        if column == 0:
            upper.set_ylabel("score")
            lower.set_ylabel("mean residual")
    _words(figure, read, points, look, study)
    return figure


def _of_metrics(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of whole metrics, without those of single tasks."""
    return rows[rows["task"].fillna("") == ""]


def _words(figure: Figure, read: Mapping[str, pd.DataFrame], points: pd.DataFrame, look: Look, study: str) -> None:
    """Legend and footer."""
    entries = legend.some_keys(look.scales, lambda scale: {"color": look.colour_of[scale], "linewidth": 3})
    entries += [legend.key(name, linestyle="none", **look.point(name)) for name in look.names]
    entries.append(legend.key(f"curve of {look.names[0]}", color=LINE, linestyle=colours.REFERENCE_DASH))
    simulated = simulation(read["endpoints"])
    legend.legend(figure, entries, title=simulated)
    draws = min(read["means"][read["means"]["low"].notna()]["draws"], default=0)
    metrics = groups(points, "metric")
    _, most = max(metrics, key=lambda metric: len(metric[1]))
    few = [f"{metric}: {len(rows)}" for metric, rows in metrics if len(rows) < len(most)]
    legend.footer(
        figure,
        simulated,
        f"study {study}",
        counted(most, look.names) + (f"; of {', '.join(few)}" if few else ""),
        f"bars: 95 % of {draws:,} draws of cells, the curve refitted in each" if draws else "no intervals",
        "a positive residual is better, whether the score is better high or low",
        "dotted: beyond the losses that the curve was fitted to" if points["extrapolated"].any() else "",
    )


def unit(curve: Row) -> tuple[float, float, str, str]:
    """Factors of score and residual, and what they are then: fractions are shown as points."""
    if not curve["higher_is_better"]:
        return 1.0, 1e3, "", "10⁻³"
    return (1.0, 1.0, "", "") if curve["chance"] is None else (100.0, 100.0, "points", "points")


def _titled(name: str, of: str) -> str:
    return f"{name} ({of})" if of else name


def _scores(axis: Axes, curve: Row, points: pd.DataFrame, look: Look) -> None:
    """Scores against loss, and the curve of the reference."""
    factor, _, of, _ = unit(curve)
    axis.set(title=_titled(curve["metric"], of), xlabel="validation loss (nats)")
    labelled = points.assign(scale=points["scale"].fillna(""))
    runs = groups(labelled, "architecture", "scale")
    for (name, scale), rows in sorted(runs, key=lambda run: (look.names.index(run[0][0]), run[0][1])):
        axis.plot(
            numbers(rows, "loss"),
            factor * numbers(rows, "score"),
            **look.point(name, scale) | {"linestyle": "none", "markersize": 3.2, "markeredgewidth": 0.8},
        )
    if curve["base"] is None:
        messages.note(axis, messages.wrapped(f"no curve: {curve['reason']}", 26))
        return
    losses = numbers(points, "loss")
    _curve(axis, curve, factor, (curve["loss_low"], curve["loss_high"]), colours.REFERENCE_DASH)
    _curve(axis, curve, factor, (float(losses.min()), curve["loss_low"]), BEYOND)
    _curve(axis, curve, factor, (curve["loss_high"], float(losses.max())), BEYOND)
    said = f"R² = {curve['r2']:.3f}" + ("" if curve["determined"] else "\nparameters\nnot determined")
    height, side = (0.97, "top") if curve["higher_is_better"] else (0.04, "bottom")
    axis.text(0.97, height, said, transform=axis.transAxes, ha="right", va=side, fontsize=8, color="0.3")


def _curve(axis: Axes, curve: Row, factor: float, ends: tuple[float, float], dashes: Any) -> None:
    if ends[0] >= ends[1]:
        return
    losses = np.linspace(*ends, 200)
    direction = -1 if curve["higher_is_better"] else 1  # d of Eq. 6
    turn = expit(direction * curve["slope"] * (losses - curve["midpoint"]))
    scores = factor * (curve["base"] + curve["amplitude"] * turn)
    axis.plot(losses, scores, color=LINE, linestyle=dashes, linewidth=1.3)


def _means(axis: Axes, curve: Row, means: pd.DataFrame, look: Look) -> None:
    """Mean residuals with their intervals, the architectures of a scale side by side, and over all at the right."""
    factor, of = unit(curve)[1::2]
    shown = means[means["group"].isin(["scale", "all"]) & means["residual"].notna()]
    if shown.empty:
        messages.message(axis, "no curve, so no residuals")
        return
    labels = [*look.scales, "all"]
    axis.axhline(0, color="0.6", linewidth=0.8)
    axis.axvline(len(labels) - 1.5, color="0.85", linewidth=0.8)
    for row in tables.rows(shown):
        name, scale = row["architecture"], row["label"] if row["group"] == "scale" else None
        x = labels.index(scale or "all") + APART * (look.names.index(name) - (len(look.names) - 1) / 2)
        drawn = look.point(name, scale)
        if row["low"] is not None:
            axis.plot([x, x], [factor * row["low"], factor * row["high"]], color=drawn["color"], linewidth=1.1)
        axis.plot([x], [factor * row["residual"]], **drawn)
    axis.set_xticks(range(len(labels)), labels)
    axis.set_xlim(-0.5, len(labels) - 0.5)
    axis.grid(visible=False, axis="x")
    axis.set_title(_titled("residual", of))
    if len("".join(labels)) > 24:
        axis.tick_params(axis="x", rotation=45)


def main(argv: Sequence[str]) -> None:
    job = read_figure_job(MODULE, __doc__, argv, ARTIFACTS)
    page.save(draw(read_frames(job), job.settings.study, job.settings.reference), job.paths("out"))


if __name__ == "__main__":
    command(main)
