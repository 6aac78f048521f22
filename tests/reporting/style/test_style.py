"""The parts that all figures share: colours, legends, axes, rows in order."""

from pathlib import Path

import pandas as pd
import pytest
from matplotlib import pyplot as plt

from smelt.errors import UserError
from smelt.reporting.style import colours, legend, log_axes, page
from smelt.reporting.style.labels import counted, ordered, segments
from smelt.reporting.style.layout import freeze_layout


def test_colours_are_distinct_and_labels_in_order() -> None:
    assert len(set(colours.COLOURS)) == len(colours.COLOURS) >= 7
    data = pd.DataFrame({"scale": ["B", "A", "B"], "F": [2.0, 9.0, 4.0]})
    assert ordered(data, "scale", "F") == ["B", "A"]
    assert counted(pd.DataFrame({"architecture": ["x"]}), ["x", "y"]) == "1 endpoints (x 1, y 0)"
    many = colours.by_label([str(place) for place in range(30)])
    assert len(set(many.values())) == 30


def test_every_label_has_its_own_marker_and_stands_in_the_legend() -> None:
    labels = [f"S{place}" for place in range(40)]
    marker_of = colours.markers(labels)
    assert len(set(marker_of.values())) == 40
    assert [marker_of[labels[place]] for place in (0, 13, 39)] == ["o", "$14$", "$40$"]
    figure, (axis,) = page.panels(1)
    for label in labels:
        axis.plot([1], [1], marker=marker_of[label])
    entries = legend.keys(labels, lambda label: {"marker": marker_of[label]})
    assert [entry.get_label() for entry in entries] == labels
    figure.canvas.draw()
    drawn = [str(marker) for marker in (line.get_marker() for line in axis.lines)]
    assert drawn == list(marker_of.values())
    assert len(legend.some_keys(labels, lambda label: {"color": "0.5"})) == 5
    plt.close("all")


def test_a_legend_fits_the_page_and_reads_by_rows() -> None:
    figure, _ = page.panels(1)
    legend.legend(figure, [legend.key(f"{place} of a legend's many entries", marker="o") for place in range(9)])
    figure.canvas.draw()
    (drawn,) = figure.legends
    assert drawn.get_window_extent().width < figure.bbox.width
    tops = [round(text.get_window_extent().y0) for text in drawn.get_texts() if text.get_text()]
    places = [int(text.get_text()[0]) for text in drawn.get_texts() if text.get_text()]
    assert [place for _, place in sorted(zip(tops, places, strict=True), key=lambda pair: (-pair[0], pair[1]))] == [
        *range(9)
    ]
    plt.close("all")


def test_a_curve_is_cut_where_its_window_changes() -> None:
    rows = pd.DataFrame({"window": list("aabb"), "x": range(4)})
    parts = segments(rows, "window")
    assert [(window, list(part["x"])) for window, part in parts] == [("a", [0, 1]), ("b", [1, 2, 3])]


def test_panels_stand_at_rounded_places_and_stay_there() -> None:
    figure, axes = page.panels(2)
    axes[0].set(title="above", ylabel="beside")
    freeze_layout(figure)
    places = [value for axis in axes for value in axis.get_position().bounds]
    assert all(abs(value - round(value, 6)) < 1e-12 for value in places)
    axes[0].set_ylabel("of\nthree\nlines")
    figure.canvas.draw()
    assert [value for axis in axes for value in axis.get_position().bounds] == places
    plt.close("all")


def test_files_by_the_figure_that_their_names_say() -> None:
    paths = [Path("out/one.pdf"), Path("out/two.png"), Path("out/one.svg")]
    assert page.by_figure(paths, ["one", "two"]) == {"one": [paths[0], paths[2]], "two": [paths[1]]}
    with pytest.raises(UserError, match="no figure of that name; expected one of one, three"):
        page.by_figure(paths, ["one", "three"])


@pytest.mark.parametrize(
    ("value", "tokens", "scientific"),
    [
        (2e10, "20B", r"$2\cdot 10^{10}$"),
        (1.5e5, "150K", r"$1.5\cdot 10^{5}$"),
        (1e9, "1B", "$10^{9}$"),
        (1e12, "1T", "$10^{12}$"),
        (500.0, "500", r"$5\cdot 10^{2}$"),
    ],
)
def test_numbers_on_axes(value: float, tokens: str, scientific: str) -> None:
    assert log_axes.tokens(value) == tokens
    assert log_axes.scientific(value) == scientific


@pytest.mark.parametrize("ends", [(1.0, 1.2), (3.0, 40.0), (2e10, 2.2e11), (1e19, 2e22), (1.0, 1e30)])
def test_a_log_axis_has_some_labels_and_few(ends: tuple[float, float]) -> None:
    figure, (axis,) = page.panels(1)
    axis.set(xscale="log", xlim=ends)
    log_axes.counted_log(axis.xaxis, *ends, log_axes.tokens)
    figure.canvas.draw()
    ticks = [tick for tick in axis.xaxis.get_majorticklocs() if ends[0] <= tick <= ends[1]]
    assert 1 <= len(ticks) <= 5
    assert not any(label.get_text() for label in axis.get_xticklabels(minor=True))
    plt.close("all")
