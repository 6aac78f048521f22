"""Figures of the ablations: what is drawn at which place, and the same bytes every time."""

import json

import pytest

from smelt import artifacts
from smelt.errors import UserError
from smelt.reporting.figures import ablations as figures
from smelt.reporting.figures.command import AblationFigureSettings
from smelt.scaling.ablations.ablations import ABLATION, analyse
from smelt.scaling.ablations.settings import Point
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.tables import from_rows

SETTINGS = AblationFigureSettings("test", "baseline", {"span_sweep": "looped"})


def endpoints():
    """Three spans in two cells with two seeds; the widest span is missing in the second cell."""
    losses = {"baseline": (4.0, 4.2), "span2": (3.9, 4.1001), "span4": (3.8, 4.3)}
    rows = []
    for sparsity in ("S85", "S95"):
        for name, values in losses.items():
            for seed, loss in enumerate(values):
                if (sparsity, name) != ("S95", "span4"):
                    row = {"architecture": name, "scale": "H40", "sparsity": sparsity, "seed": seed, "loss": loss}
                    row |= {"branch_step": 60, "tokens": 1000, "flops_per_token": 10.0, "params": 5}
                    rows.append(dict.fromkeys(ENDPOINTS.names) | row | {"kv_bytes_per_token": 4, "source": "trained"})
    return rows


def points():
    return [
        Point("looped", "baseline", name, "H40", sparsity, 12, looped, 12 + looped, 2 if looped else 1)
        for sparsity in ("S85", "S95")
        for name, looped in (("baseline", 0), ("span2", 2), ("span4", 4))
    ]


def drawn():
    """The table of the ablation."""
    return from_rows(analyse(points(), from_rows(endpoints(), ENDPOINTS)), ABLATION)


def curve(panel):
    """The line through the means of a panel: x and y."""
    line = next(line for line in panel.get_lines() if line.get_linestyle() not in ("None", "none", ""))
    return list(line.get_xdata()), list(line.get_ydata())


def test_loss_stands_above_its_difference_in_each_cell():
    figure = figures.draw(drawn(), from_rows(endpoints(), ENDPOINTS), "looped", SETTINGS)
    above, other, below, _ = figure.axes
    assert [axis.get_title() for axis in (above, other)] == ["H40-S85", "H40-S95"]
    places, losses = curve(above)
    assert (places, losses) == ([0, 2, 4], pytest.approx([4.1, 4.00005, 4.05]))
    places, differences = curve(below)
    assert (places, differences) == ([0, 2, 4], pytest.approx([0.0, -0.09995, -0.05]))
    assert curve(other)[0] == [0, 2]  # what was not trained is not drawn
    assert list(below.get_xticks()) == [0, 2, 4]


def test_single_seeds_and_what_is_resolved_are_marked():
    figure = figures.draw(drawn(), from_rows(endpoints(), ENDPOINTS), "looped", SETTINGS)
    above, below = figure.axes[0], figure.axes[2]
    dots = [line.get_ydata() for line in above.get_lines() if line.get_markersize() == 2.5]
    assert [list(values) for values in dots] == [[4.0, 4.2], [3.9, 4.1001], [3.8, 4.3]]
    rings = [list(line.get_xdata()) for line in below.get_lines() if line.get_markersize() == 9]
    assert rings == [[2]]


def test_the_command_writes_the_same_bytes_twice(tmp_path):
    artifacts.write_table(artifacts.table(endpoints(), ENDPOINTS), tmp_path / "endpoints.parquet", {})
    sweep = tmp_path / "span_sweep.parquet"
    artifacts.write_table(artifacts.table(analyse(points(), from_rows(endpoints(), ENDPOINTS)), ABLATION), sweep, {})
    told = json.dumps({"study": "test", "reference": "baseline", "axes": {"span_sweep": "looped"}})
    written = []
    for folder in ("one", "two"):
        out = [tmp_path / folder / "span_sweep.svg"]
        arguments = ["--spec", told, "--endpoints", tmp_path / "endpoints.parquet", "--sweeps", sweep, "--out", *out]
        figures.main([str(argument) for argument in arguments])
        written.append([path.read_bytes() for path in out])
    assert written[0] == written[1]
    arguments[-1:] = [tmp_path / "other.png"]
    with pytest.raises(UserError, match="no figure of that name; expected one of span_sweep"):
        figures.main([str(argument) for argument in arguments])
