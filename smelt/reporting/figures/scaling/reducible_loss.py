"""Figure: reducible loss L - E of each fitted endpoint against what its surface predicts."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt.reporting.style import style
from smelt.reporting.style.labels import About, Row, architectures, counted, ordered


def draw(residuals: Sequence[Row], coefficients: Mapping[str, Row], about: About) -> Figure:
    """A panel for each architecture; colour by scale, marker by sparsity, a line where both are equal."""
    names = architectures(coefficients.values(), about.reference)
    fitted = counted(residuals, names) + " fitted"
    if not residuals:
        return style.empty(
            about, ["no surface", *(f"{name}: {coefficients[name]['reason']}" for name in names)], fitted
        )
    scales, sparsities = ordered(residuals, "scale", "flops_per_token"), ordered(residuals, "sparsity", "S")
    colours, marks = style.colours(scales), style.markers(sparsities)
    figure, axes = style.panels(len(names), columns=min(len(names), 3), height=2.3 if len(names) > 2 else 3.1)
    for axis, name in zip(axes, names, strict=True):
        row = coefficients[name]
        axis.set_title(name)
        if row["E"] is None:
            style.message(axis, f"no surface: {row['reason']}")
            continue
        axis.set_xlabel("predicted L − E")
        if axis in axes[::3]:
            axis.set_ylabel("measured L − E (nats per token)")
        points = [point for point in residuals if point["architecture"] == name]
        hidden = _panel(axis, points, row["E"], colours, marks)
        bound = " (on a bound)" if "E" in row["at_bound"].split() else ""
        spread = f"= {row['rmse_nats']:.2g}" if row["rmse_nats"] > 1e-6 else "< 1e-6"
        text = f"E = {row['E']:.4g} nats{bound}\nRMSE {spread} nats"
        style.note(axis, text + (f"\n{hidden} at or below E not shown" if hidden else ""))
    entries: list[style.Entry | None] = [*style.keys(scales, lambda scale: {"color": colours[scale], "linewidth": 3})]
    mark = {"color": "0.25", "linestyle": "none", "markerfacecolor": "none"}
    entries += [None, *style.keys(sparsities, lambda label: mark | {"marker": marks[label]})]
    entries.append(style.key("measured = predicted", color="0.4", linewidth=0.8))
    style.finish(figure, entries, about, fitted)
    return figure


def _panel(axis: Axes, points: Sequence[Row], E: float, colours: Mapping[str, str], marks: Mapping[str, str]) -> int:
    """Draw the points of one architecture; return how many a log axis cannot show."""
    shown = [point for point in points if point["loss"] > E]
    for point in shown:
        axis.plot(
            point["predicted"] - E,
            point["loss"] - E,
            marker=marks[point["sparsity"]],
            color=colours[point["scale"]],
            linestyle="none",
            markerfacecolor="none",
            markeredgewidth=0.9,
        )
    values = [value - E for point in shown for value in (point["predicted"], point["loss"])]
    ends = (min(values) * 0.95, max(values) * 1.05)
    axis.plot(ends, ends, color="0.4", linewidth=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    style.plain_log(axis.xaxis, *ends)
    style.plain_log(axis.yaxis, *ends)
    return len(points) - len(shown)
