"""Figures of downstream scores and of the in-context sweep: all on the page, what is missing said, the same bytes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smelt import artifacts
from smelt.errors import UserError
from smelt.evaluation.icl.comparison import ICL
from smelt.evaluation.icl.sweep import SWEEP
from smelt.evaluation.metrics.completion import COMPLETION
from smelt.evaluation.metrics.core import CORE_TABLE, MMLU
from smelt.reporting.figures.downstream import downstream, icl
from smelt.reporting.style.panels import seeds
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.tables import from_rows
from tests.reporting import synthetic_scores
from tests.reporting.closed_form import stage
from tests.reporting.figures.test_scaling import caption, texts_on_the_page

Row = dict[str, Any]
SHOTS = (0, 1, 2, 4, 8, 16, 32)
ASKED = {"preset": "lite", "sampler": "nested"}
FEW_CELLS = {"scales": ("100M", "200M"), "sparsities": ("S85", "S95")}


def study(*suites: str, every: int = 2, final: int = 5, without: Sequence[str] = (), **endpoints: Any) -> Row:
    """Endpoints, tasks and scores of a study; `every` and `final` are evaluation seeds, 0 for no such part."""
    tasks = synthetic_scores.tasks_of(*suites)
    made = stage(**(FEW_CELLS | endpoints))["endpoints"]
    rows = synthetic_scores.task_rows(made, tasks, "all_endpoints", every) if every else []
    rows += synthetic_scores.task_rows(made, tasks, "last_endpoint", final, SHOTS) if final else []
    return {"endpoints": made, "tasks": tasks, "rows": [row for row in rows if row["task"] not in without]}


def scores(of: Row, baselines: str = "v2") -> dict[str, list[Row]]:
    return {"endpoints": of["endpoints"]} | synthetic_scores.averages(of["rows"], of["tasks"], baselines)


def sweep(of: Row) -> dict[str, list[Row]]:
    return synthetic_scores.in_context([row for row in of["rows"] if row["part"] == "last_endpoint"], of["tasks"])


SCHEMAS = {"endpoints": ENDPOINTS, "core": CORE_TABLE, "completion": COMPLETION, "mmlu": MMLU}


def draw_scores(read: Mapping[str, Sequence[Row]], *about: str) -> Figure:
    rows = dict(read) | {"endpoints": [dict.fromkeys(ENDPOINTS.names) | row for row in read["endpoints"]]}
    return downstream.draw({name: from_rows(rows[name], schema) for name, schema in SCHEMAS.items()}, *about)


def draw_icl(sweep: Sequence[Row], icl_rows: Sequence[Row], *about: Any) -> Figure:
    return icl.draw(from_rows(sweep, SWEEP), from_rows(icl_rows, ICL), *about)


def draw_sweep(read: Mapping[str, Sequence[Row]]) -> Figure:
    return draw_icl(read["sweep"], read["icl"], "desk", "baseline", ASKED)


def names(figure: Figure) -> list[str]:
    """The names of the bands and the messages in place of bands, from the top."""
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def panels(figure: Figure) -> list[Axes]:
    """Those with scores, from the top left."""
    return [axis for axis in figure.axes if axis.get_title()]


def values(axis: Axes, marker: str, joined: bool) -> list[list[float]]:
    """The values of each run with a marker, joined by a line or not, sorted."""
    lines = [line for line in axis.get_lines() if line.get_marker() == marker]
    return sorted(list(line.get_ydata()) for line in lines if (line.get_linestyle() != "None") == joined)


def said(axis: Axes) -> str:
    """What the tests say over a panel."""
    return axis.texts[0].get_text().replace("\n", " ").replace("\u00a0", " ")


def panel(figure: Figure, title: str) -> Axes:
    return next(axis for axis in figure.axes if axis.get_title() == title)


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


# Core, Completion, MMLU


def test_each_endpoint_stands_in_its_panel_in_points() -> None:
    of = study("core", "mmlu", final=0)
    figure = draw_scores(read := scores(of), "paper", "baseline")
    assert names(figure) == ["Core", "Completion", "MMLU"]
    assert [axis.get_title() for axis in panels(figure)] == ["S85", "S95"] * 3
    for places, table, column, factor in (
        ((0, 1), "core", "core_v2", 100), ((2, 3), "completion", "nats_per_token", 1), ((4, 5), "mmlu", "accuracy", 100)
    ):  # fmt: skip
        for place, sparsity in zip(places, ("S85", "S95"), strict=True):
            for name, marker in (("baseline", "o"), ("smelt", "s")):
                rows = [row for row in read[table] if (row["architecture"], row["sparsity"]) == (name, sparsity)]
                rows = [row for row in rows if row.get("suite") != "desk"]
                runs = [[factor * row[column] for row in rows if row["scale"] == scale] for scale in ("100M", "200M")]
                np.testing.assert_allclose(values(panels(figure)[place], marker, True), sorted(runs))
    assert "48 endpoints (baseline 24, smelt 24)" in caption(figure)
    said = "every endpoint: preset smoke (264 items of Core, 12 items of MMLU), sampler smelt, 2 evaluation seeds (few)"
    assert said in caption(figure)
    assert "last endpoints" not in caption(figure)


def test_compute_is_that_of_the_endpoint() -> None:
    of = study("desk", final=0, names=("baseline",), scales=("100M",), sparsities=("S85",))
    figure = draw_scores(scores(of), "desk", "baseline")
    (line,) = (line for line in panels(figure)[0].get_lines() if line.get_marker() == "o")
    assert list(line.get_xdata()) == sorted(row["training_flops"] for row in of["endpoints"])


def test_core_is_centred_by_the_levels_of_the_study() -> None:
    of = study("core", final=0)
    for version in ("v1", "v2"):
        figure = draw_scores(read := scores(of, version), "paper", "baseline")
        runs = [run for axis in panels(figure)[:2] for run in values(axis, "s", True)]
        drawn = [value for run in runs for value in run]
        shown = [100 * row[f"core_{version}"] for row in read["core"] if row["architecture"] == "smelt"]
        np.testing.assert_allclose(sorted(drawn), sorted(shown))
        assert f"centred by chance levels {version}" in caption(figure)


def test_the_own_suite_stands_in_and_is_never_called_core() -> None:
    figure = draw_scores(scores(study("desk")), "desk", "baseline")
    assert names(figure) == [
        "The study's own suite",
        "Completion of the study's own suite",
        "no MMLU: MMLU is not among the study's tasks",
    ]
    assert "Core" not in " ".join(texts_on_the_page(figure))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"every endpoint", "last endpoints"} <= set(legend)
    assert (
        "last endpoints: preset lite (240 items of the study's own suite), sampler nested, 5 evaluation seeds"
        in caption(figure)
    )


def test_last_endpoints_are_not_joined_to_the_others() -> None:
    figure = draw_scores(read := scores(study("desk")), "desk", "baseline")
    runs = values(panels(figure)[0], "s", False)
    assert [len(run) for run in runs] == [1, 1]
    rows = [row for row in read["core"] if row["part"] == "last_endpoint" and row["sparsity"] == "S85"]
    expected = sorted(100 * row["other_score"] for row in rows if row["architecture"] == "smelt")
    np.testing.assert_allclose([run[0] for run in runs], expected)


def test_core_over_some_tasks_says_so_and_parts_over_others_are_not_mixed() -> None:
    """Of Core's tasks, those with ten demonstrations are not scored in the sweep."""
    of = study("core", without=["copa", "squad"], scales=("100M",), sparsities=("S85",))
    figure = draw_scores(scores(of), "paper", "baseline")
    assert names(figure)[:2] == ["Core, over 20 of 22 tasks", "Completion, over 8 of 9 tasks"]
    assert values(panels(figure)[0], "s", False) == []
    assert "not shown: last endpoints, over 6 of 22 tasks; last endpoints, over 2 of 9 tasks" in caption(figure)


def test_standard_mmlu_stands_in() -> None:
    of = study("mmlu", "mmlu_standard", final=0, without=["mmlu"])
    figure = draw_scores(scores(of), "paper", "baseline")
    assert names(figure)[2] == "MMLU in its standard form"
    assert names(figure)[0].startswith("no Core: no Core task was scored with its own shots; no task of the study's")


def test_the_level_of_chance_shows_where_scores_are_near_it() -> None:
    read = scores(study("mmlu", final=0))
    for accuracy, shows in ((0.26, True), (0.9, False)):
        near = [row | {"accuracy": accuracy, "centred": (accuracy - 0.25) / 0.75} for row in read["mmlu"]]
        figure = draw_scores(read | {"mmlu": near}, "paper", "baseline")
        axis = panels(figure)[0]
        levels = [line.get_ydata()[0] for line in axis.get_lines() if line.get_marker() == "None"]
        assert (pytest.approx(25.0) in levels) == shows
        assert ("chance" in [text.get_text() for text in figure.legends[0].get_texts()]) == shows


def test_scores_of_zero_fill_no_panel_with_rounding() -> None:
    read = scores(study("desk", final=0))
    zero = [row | {"other_score": 0.0, "other_se": None} for row in read["core"]]
    figure = draw_scores(read | {"core": zero}, "desk", "baseline")
    low, high = panels(figure)[0].get_ylim()
    assert high - low >= 2
    assert -0.2 <= low < 0


def test_more_sparsities_than_places_and_numbers_below_the_lowest() -> None:
    of = study("desk", final=0, sparsities=("S85",))
    labels = [f"S{place}" for place in range(85, 90)]
    of["endpoints"] = [
        row | {"sparsity": label, "S": int(label[1:]) / 100} for label in labels for row in of["endpoints"]
    ]
    of["rows"] = [row | {"sparsity": label} for label in labels for row in of["rows"]]
    figure = draw_scores(scores(of), "desk", "baseline")
    texts_on_the_page(figure)
    assert [axis.get_title() for axis in panels(figure)[:5]] == labels
    named = [place for place, axis in enumerate(panels(figure)) if axis.get_xlabel()]
    assert named == [6, 7, 8, 9]  # three of the first row of the second band, and the one below them


def test_a_score_of_no_endpoint_is_an_error() -> None:
    read = scores(study("desk", final=0))
    with pytest.raises(UserError, match="scores of baseline-100M-S85-0, step 1: not in the table of endpoints"):
        draw_scores(read | {"endpoints": read["endpoints"][1:]}, "desk", "baseline")


def test_without_any_score_the_figure_says_why() -> None:
    read = scores(study("desk", final=0))
    figure = draw_scores(read | {"core": [], "completion": [], "mmlu": []}, "desk", "baseline")
    assert names(figure)[0] == "no Core: no endpoint was scored"
    assert len(texts_on_the_page(figure)) == 4


def test_simulated_endpoints_are_named() -> None:
    of = study("desk", final=0, source="simulated from somewhere")
    texts = texts_on_the_page(draw_scores(scores(of), "desk", "baseline"))
    assert any(text.startswith("Simulated from somewhere") for text in texts)


CASES: dict[str, Row] = {
    "desk": {"suites": ("desk",)},
    "paper": {"suites": ("core", "mmlu"), "scales": ("100M",)},
    "three architectures": {"suites": ("desk",), "names": ("baseline", "deep", "smelt")},
    "one cell": {"suites": ("desk",), "scales": ("100M",), "sparsities": ("S85",)},
    "last only": {"suites": ("core",), "every": 0, "final": 1},
    "one architecture": {"suites": ("desk",), "names": ("baseline",)},
}
SLOW = ("paper", "last only", "three architectures")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_everything_is_on_the_page(name: str) -> None:
    case = dict(CASES[name])
    of = study(*case.pop("suites"), **case)
    for figure in (draw_scores(scores(of), "desk", "baseline"), draw_sweep(sweep(of))):
        assert len(texts_on_the_page(figure)) > 5
        assert "study desk" in caption(figure)


# The in-context sweep


@pytest.fixture(scope="module")
def desk() -> dict[str, list[Row]]:
    return sweep(study("desk", every=0, scales=("100M", "200M"), sparsities=("S85",)))


def test_averages_and_dyck_stand_above_the_other_tasks(desk: dict[str, list[Row]]) -> None:
    figure = draw_sweep(desk)
    titles = [axis.get_title().replace("\n", " ") for axis in figure.axes]
    assert titles[:2] == ["average of 4 tasks", "average of 3 tasks without Dyck"]
    assert titles[2:] == ["dyck languages", "cs algorithms", "operators", "repeat copy"]
    assert "preset lite, sampler nested · 48 items per task · means over 2 cells · 5 evaluation seeds" in caption(
        figure
    )


def test_a_curve_is_the_score_at_each_number_of_demonstrations(desk: dict[str, list[Row]]) -> None:
    axis = panel(draw_sweep(desk), "operators")
    rows = [row for row in desk["sweep"] if (row["task"], row["architecture"]) == ("operators", "smelt")]
    line = next(line for line in axis.get_lines() if line.get_marker() == "o" and line.get_linestyle() == "-")
    np.testing.assert_allclose(line.get_ydata(), [100 * row["score"] for row in rows])
    np.testing.assert_allclose(line.get_xdata(), np.arange(7) + icl.NUDGE / 2)
    (bars, _) = (collection.get_segments() for collection in axis.collections)
    heights = sorted(float(np.ptp(bar[:, 1])) for bar in [*bars, *_])
    expected = [row["score_se"] or 0.0 for row in desk["sweep"] if row["task"] == "operators"]
    np.testing.assert_allclose(heights, sorted(200 * error for error in expected), atol=1e-9)


def test_positions_of_demonstrations() -> None:
    assert [icl.position(count) for count in (0, 1, 2, 4, 32)] == [0, 1, 2, 3, 6]
    assert 2 < icl.position(3) < 3


def test_numbers_that_would_stand_on_another_are_not_named(desk: dict[str, list[Row]]) -> None:
    rows = [row | {"shots": 5 if row["shots"] == 8 else row["shots"]} for row in desk["sweep"]]
    axis = panel(draw_icl(rows, desk["icl"], "desk", "baseline"), "operators")
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "2", "4", "16", "32"]


def test_over_each_panel_stands_what_the_tests_say(desk: dict[str, list[Row]]) -> None:
    found = {"difference": 0.0123, "difference_se": 0.004, "p_holm": 0.031, "cells": 2, "shots": 32}
    found |= {"item_p": 0.01, "item_p_holm": 0.04}
    rows = [row | (found | {"resolved": True} if row["task"] == "operators" else {}) for row in desk["icl"]]
    why = {"difference": None, "p_holm": None, "p_two_sided": None, "reason": "in no cell of 2 do both beat chance (0)"}
    rows = [row | (why if row["task"] == "repeat_copy" else {}) for row in rows]
    rows = [row | ({"cells": 1} if row["task"] == "cs_algorithms" else {}) for row in rows]
    figure = draw_icl(desk["sweep"], rows, "desk", "baseline")
    texts_on_the_page(figure)
    assert said(panel(figure, "operators")) == "+1.2 ± 0.4 points at 32 p (Holm) 0.031*  p (items) 0.04"
    assert said(panel(figure, "repeat copy")) == "no test: in no cell of 2 do both beat chance (0)"
    assert said(panel(figure, "cs algorithms")).endswith("(in 1 of 2 cells)")
    assert "*: resolved, as both are below 0.05" in caption(figure)
    assert "one training seed per cell: p does not cover the spread of training seeds" in caption(figure)
    two = [row | {"training_seeds": 2} for row in rows]
    assert "one training seed" not in caption(draw_icl(desk["sweep"], two, "desk", "baseline"))
    average = panel(figure, "average of 4 tasks")
    assert "Holm" not in said(average)
    assert " p 0.062  p (items)" in said(average)


def test_tasks_whose_prompts_lack_demonstrations_are_named(desk: dict[str, list[Row]]) -> None:
    assert "prompts cut" not in caption(draw_sweep(desk))
    of = study("desk", every=0, scales=("100M",), sparsities=("S85",))
    of["rows"] = [
        row | ({"mean_demonstrations": 7.0} if (row["task"], row["shots"]) == ("operators", 32) else {})
        for row in of["rows"]
    ]
    figure = draw_sweep(sweep(of))
    texts_on_the_page(figure)
    assert "prompts cut or short of demonstrations: operators (tables/sweep.csv" in caption(figure)


def test_what_few_seeds_cannot_show_is_said(desk: dict[str, list[Row]]) -> None:
    assert "5 evaluation seeds: smallest attainable p 0.062, 0.25 after Holm over 4 tasks" in caption(draw_sweep(desk))
    few = sweep(study("desk", every=0, final=2, scales=("100M",), sparsities=("S85",)))
    text = caption(draw_sweep(few))
    assert "2 evaluation seeds (few)" in text
    assert "2 evaluation seeds: smallest attainable p 0.5, 1 after Holm over 4 tasks" in text
    one = sweep(study("desk", every=0, final=1, scales=("100M",), sparsities=("S85",)))
    assert "1 evaluation seed, so no standard error" in caption(draw_sweep(one))


def test_without_dyck_there_is_one_average() -> None:
    read = sweep(study("operators", "repeat_copy", every=0, scales=("100M",), sparsities=("S85",)))
    titles = [axis.get_title() for axis in draw_sweep(read).axes]
    assert titles == ["average of 2 tasks", "operators", "repeat copy"]


def test_tasks_without_a_score_are_named() -> None:
    read = sweep(study("desk", every=0, without=["operators"], scales=("100M",), sparsities=("S85",)))
    figure = draw_sweep(read)
    assert "without a score: operators" in caption(figure)
    assert "average of 3 tasks" in [axis.get_title() for axis in figure.axes]


def test_a_sweep_without_scores_says_why(desk: dict[str, list[Row]]) -> None:
    rows = [row | {"score": None, "reason": "not scored in the sweep"} for row in desk["sweep"]]
    figure = draw_icl(rows, [], "desk", "baseline")
    assert "operators: not scored in the sweep" in "\n".join(texts_on_the_page(figure))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([0, None], "no demonstrations drawn, so no standard error"),
        ([0, 1], "1 evaluation seed, so no standard error"),
        ([4, 4], "4 evaluation seeds (few)"),
        ([0, 5, 10], "5 and 10 evaluation seeds"),
    ],
)
def test_seeds_in_words(counts: list[int | None], words: str) -> None:
    assert seeds(counts) == words


# Commands


def write(folder: Path, of: Row, origin: Mapping[str, Any]) -> None:
    schemas = {"core": CORE_TABLE, "completion": COMPLETION, "mmlu": MMLU, "sweep": SWEEP, "icl": ICL}
    tables = synthetic_scores.averages(of["rows"], of["tasks"]) | sweep(of)
    endpoints = [dict.fromkeys(ENDPOINTS.names) | row for row in of["endpoints"]]
    artifacts.write_table(artifacts.table(endpoints, ENDPOINTS), folder / "endpoints.parquet", {})
    for name, rows in tables.items():
        artifacts.write_table(artifacts.table(rows, schemas[name]), folder / f"{name}.parquet", origin)


def run(module: Any, folder: Path, names: Sequence[str], out: Path) -> list[bytes]:
    paths = [out / "figure.svg"]  # tests/reporting/figures/test_subsets.py compares the other kinds of file
    arguments = ["--spec", json.dumps({"study": "desk", "reference": "baseline"})]
    for name in names:
        arguments += [f"--{name}", str(folder / f"{name}.parquet")]
    module.main([*arguments, "--out", *map(str, paths)])
    return [path.read_bytes() for path in paths]


def test_the_commands_write_the_same_bytes_every_time(tmp_path: Path) -> None:
    told = {"spec": {"presets": {"last_endpoint": "lite"}, "sampler": {"last_endpoint": "nested"}}}
    write(tmp_path, study("operators", "repeat_copy", scales=("100M",), sparsities=("S85",)), told)
    for module, tables in ((downstream, downstream.ARTIFACTS), (icl, ("sweep", "icl"))):
        first, second = (run(module, tmp_path, tables, tmp_path / folder) for folder in "ab")
        assert first == second
        assert min(map(len, first)) > 10_000
        assert b"CreationDate" not in b"".join(first)
        assert (b"preset lite, sampler nested" in first[0]) == (module is icl)  # an SVG's texts stand in comments
