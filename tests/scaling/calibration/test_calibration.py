"""Calibration: signs, chance, means, wins, and every way in which a table of scores can be wrong."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt import tables
from smelt.errors import UserError
from smelt.labels import KEYS, SCORES
from smelt.scaling.calibration import calibration, sigmoid
from smelt.scaling.calibration.scores import read_scores
from smelt.scaling.calibration.sigmoid import Curve
from tests.scaling.published import GRID, Grid, endpoint_rows, part, write_endpoints

Row = dict[str, Any]
OUTPUTS = {
    "calibration": "calibration",
    "residuals": "calibration_residuals",
    "means": "calibration_means",
    "wins": "wins",
}
CURVES = {  # parameters, whether higher is better, chance
    "completion": ((0.5, 2.4, 5.0, 1.95), False, None),
    "core": ((0.02, 0.5, 6.0, 1.95), True, None),
    "mmlu": ((0.25, 0.4, 14.0, 1.85), True, 0.25),
}


def expected(metric: str, loss: float) -> float:
    parameters, higher, _ = CURVES[metric]
    return float(sigmoid.predict(Curve(*map(np.float64, parameters)), np.float64(loss), -1 if higher else 1))


def score_row(endpoint: Row, metric: str, score: float, task: str = "", category: str = "", **changes: Any) -> Row:
    _, higher, chance = CURVES.get(metric, (None, True, None))
    row = {name: endpoint[name] for name in KEYS} | {"metric": metric, "task": task, "category": category}
    row |= {"score": score, "chance": chance, "higher_is_better": higher, "standard_error": None, "items": None}
    return row | changes


def scored(endpoints: Sequence[Row], metric: str, better: Callable[[Row], float] = lambda row: 0.0) -> list[Row]:
    """Scores on the curve of a metric, and `better` than it by so much."""
    sign = 1 if CURVES[metric][1] else -1
    return [score_row(row, metric, expected(metric, row["loss"]) + sign * better(row)) for row in endpoints]


def write_scores(path: Path, rows: Sequence[Row]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), schema=SCORES), path)
        return path
    words = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    path.write_text("\n".join([",".join(rows[0]), *words]) + "\n", encoding="utf-8")
    return path


def calibrate(folder: Path, endpoints: Sequence[Row], scores: Sequence[Row], **changes: Any) -> dict[str, list[Row]]:
    """Run the command; the rows of each artifact."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"study": "paper", "reference": "baseline", "bootstrap_draws": 100} | changes
    paths = {option: folder / f"{name}.parquet" for option, name in OUTPUTS.items()}
    table = write_endpoints(folder / "endpoints.parquet", endpoints)
    arguments = ["--endpoints", str(table), "--scores", str(write_scores(folder / "scores.parquet", scores))]
    for option, path in paths.items():
        arguments += [f"--{option}", str(path)]
    calibration.main(["--spec", json.dumps(spec), *arguments])
    return {option: pq.read_table(path).to_pylist() for option, path in paths.items()}


def mean(rows: Sequence[Row], metric: str, group: str = "all", label: str = "all", name: str = "smelt") -> Row:
    wanted = {"metric": metric, "architecture": name, "group": group, "label": label, "scale": None}
    (found,) = [row for row in rows if wanted.items() <= row.items()]
    return found


def study(grid: Grid = GRID) -> list[Row]:
    return endpoint_rows(grid, noise=0.5)


# Curves and residuals


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """smelt better than its loss says by 0.01 at 1.6B and by 0.002 elsewhere."""
    endpoints = study()
    extra = {"smelt": {"1.6B": 0.01}, "baseline": {}}
    scores: list[Row] = []
    for metric in CURVES:
        scores += scored(
            endpoints,
            metric,
            lambda row: 0.0 if row["architecture"] == "baseline" else extra["smelt"].get(row["scale"], 0.002),
        )
    return calibrate(tmp_path_factory.mktemp("stage"), endpoints, scores)


def test_the_curves_are_those_of_the_reference(stage: dict[str, list[Row]]) -> None:
    assert [row["metric"] for row in stage["calibration"]] == sorted(CURVES)
    for row in stage["calibration"]:
        parameters, higher, _ = CURVES[row["metric"]]
        np.testing.assert_allclose([row[name] for name in sigmoid.NAMES], parameters, rtol=1e-5)
        assert (row["endpoints"], row["reference"], row["higher_is_better"]) == (72, "baseline", higher)
        assert (row["determined"], row["at_bound"], row["reason"], row["centred"]) == (True, "none", None, False)
        assert row["r2"] == pytest.approx(1, abs=1e-10)
        assert row["start_share"] > 0.5


@pytest.mark.parametrize("metric", CURVES)
def test_better_than_the_loss_accounts_for_is_positive_whichever_way_the_score_points(
    stage: dict[str, list[Row]], metric: str
) -> None:
    for row in stage["residuals"]:
        if row["metric"] == metric:
            sign = 1 if CURVES[metric][1] else -1
            better = 0.0 if row["architecture"] == "baseline" else 0.01 if row["scale"] == "1.6B" else 0.002
            assert row["residual"] == pytest.approx(better, abs=1e-6)
            assert row["residual"] == pytest.approx(sign * (row["score"] - row["predicted"]), abs=1e-15)
    assert mean(stage["means"], metric)["residual"] == pytest.approx(0.004, abs=1e-6)
    assert mean(stage["means"], metric, "scale", "1.6B")["residual"] == pytest.approx(0.01, abs=1e-6)
    assert mean(stage["means"], metric, name="baseline")["residual"] == pytest.approx(0, abs=1e-6)


def test_rows_and_groups(stage: dict[str, list[Row]]) -> None:
    assert len(stage["residuals"]) == 3 * 144
    assert {row["task"] for row in stage["residuals"]} == {""}
    mine = [row for row in stage["means"] if row["metric"] == "core"]
    assert [(row["architecture"], row["label"]) for row in mine] == [
        (name, label) for name in ("baseline", "smelt") for label in ("all", "100M", "200M", "600M", "1.6B")
    ]
    assert {row["endpoints"] for row in mine} == {72, 18}
    assert {(row["group"], row["cells"]) for row in mine} == {("all", 12), ("scale", 3)}


def test_losses_beyond_those_of_the_reference_are_flagged(stage: dict[str, list[Row]]) -> None:
    rows = [row for row in stage["residuals"] if row["metric"] == "core"]
    lowest = min(row["loss"] for row in rows if row["architecture"] == "baseline")
    beyond = [row for row in rows if row["extrapolated"]]
    assert beyond
    assert all(row["loss"] < lowest and row["architecture"] == "smelt" for row in beyond)
    reason = mean(stage["means"], "core")["reason"]
    assert reason == f"{len(beyond)} of 72 losses lie beyond the reference's, where its curve is extrapolated"


def test_a_curve_that_is_not_determined_is_named_where_it_is_used_beyond_its_losses(tmp_path: Path) -> None:
    endpoints = study(part(2, 3))
    noise = 0.02 * np.random.default_rng(0).normal(size=len(endpoints))
    rows = [score_row(row, "core", 3 - row["loss"] + off) for row, off in zip(endpoints, noise, strict=True)]
    rows = [row | {"chance": None} for row in rows]
    found = calibrate(tmp_path, endpoints, rows)
    assert found["calibration"][0]["reason"].startswith("parameters not determined: a line fits as well")
    beyond = dict.fromkeys(("100M", "200M"), 0)
    for row in found["residuals"]:
        beyond[row["scale"]] += bool(row["extrapolated"]) and row["architecture"] == "smelt"
    for scale, count in beyond.items():
        reason = mean(found["means"], "core", "scale", scale)["reason"] or ""
        assert ("extrapolated and not determined (core)" in reason) == (count > 0)
    assert any(beyond.values())


def test_intervals_hold_the_noise_between_cells(tmp_path: Path) -> None:
    """A true mean of 0.01, with deviations that the endpoints of a cell share: the interval is as wide as they are."""
    endpoints = study()
    inside = widths = 0.0
    for seed in range(20):
        random = np.random.default_rng(seed)
        shift = {key: 0.01 + 0.004 * random.normal() for key in {(row["scale"], row["sparsity"]) for row in endpoints}}
        scores = scored(
            endpoints,
            "core",
            lambda row, shift=shift: shift[row["scale"], row["sparsity"]] if row["architecture"] == "smelt" else 0.0,
        )
        row = mean(calibrate(tmp_path / str(seed), endpoints, scores, seed=seed)["means"], "core")
        inside += row["low"] <= 0.01 <= row["high"]
        widths += (row["high"] - row["low"]) / 20
    assert inside >= 15
    assert widths == pytest.approx(2 * 1.96 * 0.004 / np.sqrt(12), rel=0.2)


def test_the_curve_s_uncertainty_is_in_the_interval(tmp_path: Path) -> None:
    """Noise in the reference's scores alone widens the interval of the other's residuals."""
    endpoints = study()
    random = np.random.default_rng(0)
    scores = scored(
        endpoints, "core", lambda row: 0.01 * random.normal() if row["architecture"] == "baseline" else 0.01
    )
    row = mean(calibrate(tmp_path, endpoints, scores)["means"], "core")
    assert row["high"] - row["low"] > 0.001
    assert row["draws"] == 100


def test_the_same_bytes_twice_and_in_any_order(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    scores = [row for metric in CURVES for row in scored(endpoints, metric)]
    for name, rows in (("a", scores), ("b", scores)):
        calibrate(tmp_path / name, endpoints, rows)
    for name in OUTPUTS.values():
        first, second = (tmp_path / folder / f"{name}.parquet" for folder in "ab")
        assert first.read_bytes() == second.read_bytes()
    shuffled = [scores[place] for place in np.random.default_rng(1).permutation(len(scores))]
    calibrate(tmp_path / "c", endpoints, shuffled)
    for name in OUTPUTS.values():
        tables = [pq.read_table(tmp_path / folder / f"{name}.parquet") for folder in "ac"]
        assert tables[0].equals(tables[1])


# Tasks and categories


def tasks(endpoints: Sequence[Row], random: np.random.Generator | None = None) -> list[Row]:
    """Core with three tasks of two categories, at their chances; smelt is better in 'ask' by 0.06 of raw accuracy."""
    rows = scored(endpoints, "core")
    for task, category, chance, better in (
        ("read", "text", 0.0, 0.0),
        ("ask", "text", 0.25, 0.06),
        ("guess", "symbols", 0.5, 0.0),
    ):
        for row in endpoints:
            score = chance + (1 - chance) * expected("core", row["loss"])
            score += better * (row["architecture"] == "smelt") + (0 if random is None else 0.01 * random.normal())
            rows.append(score_row(row, "core", score, task, category, chance=chance))
    return rows


def test_tasks_are_centred_by_chance_before_they_are_averaged(tmp_path: Path) -> None:
    endpoints = study()
    found = calibrate(tmp_path, endpoints, tasks(endpoints))
    for row in found["calibration"]:
        np.testing.assert_allclose([row[name] for name in sigmoid.NAMES], CURVES["core"][0], rtol=1e-5)
        assert row["centred"] == bool(row["task"])
    ask = [row for row in found["residuals"] if row["task"] == "ask" and row["architecture"] == "smelt"]
    np.testing.assert_allclose([row["residual"] for row in ask], 0.06 / 0.75, atol=1e-6)
    assert mean(found["means"], "core", "category", "text")["residual"] == pytest.approx(0.04, abs=1e-6)
    assert mean(found["means"], "core", "category", "symbols")["residual"] == pytest.approx(0, abs=1e-6)
    by_scale = [row for row in found["means"] if row["group"] == "category_scale" and row["label"] == "text"]
    assert {row["scale"] for row in by_scale} == {"100M", "200M", "600M", "1.6B"}
    assert {row["endpoints"] for row in by_scale} == {18}


def test_other_metrics_stay_as_they_are(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    rows = scored(endpoints, "mmlu")
    rows += [row | {"task": "law", "category": "humanities"} for row in rows]
    found = calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)
    assert not any(row["centred"] for row in found["calibration"])
    given = {tuple(row[name] for name in (*KEYS, "task")): row["score"] for row in rows}
    for row in found["residuals"]:
        assert row["score"] == given[tuple(row[name] for name in (*KEYS, "task"))]


def test_a_task_without_a_curve_is_left_out_and_named(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    rows = tasks(endpoints) + [score_row(row, "core", 0.0, "copy", "symbols", chance=0.0) for row in endpoints]
    rows += [score_row(row, "core", 0.0, "void", "nothing", chance=0.0) for row in endpoints]
    found = calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)
    symbols = mean(found["means"], "core", "category", "symbols")
    assert symbols["residual"] == pytest.approx(0, abs=1e-6)
    assert "left out: core copy has no curve: the score is 0 at all 24 endpoints" in symbols["reason"]
    nothing = mean(found["means"], "core", "category", "nothing")
    assert (nothing["residual"], nothing["low"]) == (None, None)
    assert nothing["reason"] == "core void has no curve: the score is 0 at all 24 endpoints"
    lone = [row for row in found["residuals"] if row["task"] == "void"]
    assert {row["predicted"] for row in lone} == {row["residual"] for row in lone} == {None}


# Small studies


def test_few_endpoints_have_a_reason_and_no_curve(tmp_path: Path) -> None:
    endpoints = endpoint_rows(part(1, 1), steps=(10_000, 20_000, 50_000))
    found = calibrate(tmp_path, endpoints, scored(endpoints, "core"))
    (row,) = found["calibration"]
    assert row["reason"] == "3 distinct losses; a curve needs at least 5"
    assert [row[name] for name in (*sigmoid.NAMES, "r2", "rmse", "start_share")] == [None] * 7
    assert mean(found["means"], "core")["reason"].startswith("core has no curve: 3 distinct losses")
    assert [row["wins"] for row in found["wins"]] != []


def test_one_cell_gives_no_interval(tmp_path: Path) -> None:
    endpoints = study(part(2, 1))
    found = calibrate(tmp_path, endpoints, scored(endpoints, "core"))["means"]
    lone = mean(found, "core", "scale", "100M")
    assert lone["residual"] is not None
    assert (lone["low"], lone["high"], lone["draws"]) == (None, None, 0)
    assert lone["reason"].endswith("no interval: there is one cell, so nothing to resample")
    assert mean(found, "core")["low"] is not None


def test_few_draws_give_a_mean_no_interval(tmp_path: Path) -> None:
    endpoints = study()
    row = mean(calibrate(tmp_path, endpoints, scored(endpoints, "core"), bootstrap_draws=39)["means"], "core")
    assert (row["low"], row["high"], row["draws"]) == (None, None, 0)
    assert "39 draws are too few for its ends; 40 at least (scaling.bootstrap_draws)" in row["reason"]


def test_draws_without_a_cell_of_the_group_are_counted(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    row = mean(
        calibrate(tmp_path, endpoints, scored(endpoints, "core"), bootstrap_draws=400)["means"], "core", "scale", "100M"
    )
    assert row["draws"] == pytest.approx(400 * (1 - 0.5**4), abs=20)  # each of four picks misses two cells of four
    assert f"{100 * (1 - row['draws'] / 400):.3g} % of the draws hold no cell of the group" in row["reason"]


def test_scores_of_some_endpoints(tmp_path: Path) -> None:
    endpoints = study(part(3, 2))
    some = [row for row in endpoints if row["scale"] != "600M"]
    found = calibrate(tmp_path, endpoints, scored(some, "core"), bootstrap_draws=5)
    assert found["calibration"][0]["endpoints"] == 24
    assert {row["label"] for row in found["means"]} == {"all", "100M", "200M"}


def test_the_reference_alone(tmp_path: Path) -> None:
    endpoints = [row for row in study(part(2, 2)) if row["architecture"] == "baseline"]
    found = calibrate(tmp_path, endpoints, scored(endpoints, "core"), bootstrap_draws=5)
    assert found["wins"] == []
    assert {row["architecture"] for row in found["means"]} == {"baseline"}


# Wins


def test_wins_ties_and_losses(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    baseline = {tuple(row[name] for name in KEYS[1:]): row for row in endpoints if row["architecture"] == "baseline"}
    rows = []
    for place, (pair, row) in enumerate(baseline.items()):
        (twin,) = [
            one for one in endpoints if one["architecture"] == "smelt" and tuple(one[n] for n in KEYS[1:]) == pair
        ]
        for metric, step in (("core", 0.01), ("completion", 0.01)):
            score = expected(metric, row["loss"])
            rows += [score_row(row, metric, score), score_row(twin, metric, score + (place % 3 - 1) * step)]
    found = {row["metric"]: row for row in calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)["wins"]}
    counts = ("pairs", "wins", "ties", "losses", "rule", "reason")
    assert [found["core"][name] for name in counts] == [24, 8, 8, 8, "all pairs", None]
    assert [found["completion"][name] for name in counts] == [24, 8, 8, 8, "all pairs", None]


def test_mmlu_counts_where_the_reference_is_ten_points_above_chance(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    places = {"baseline": 0, "smelt": 0}
    rows = []
    for row in endpoints:
        places[row["architecture"]] += 1
        # The reference has 0.35 (just enough), 0.3499, 0.40; the other is always better than that, or never.
        score = (0.35, 0.3499, 0.40)[places[row["architecture"]] % 3] + 1e-4 * (places[row["architecture"]] % 4 == 0)
        if row["architecture"] == "smelt":
            score += 0.02 if row["scale"] == "100M" else -0.02
        rows.append(score_row(row, "mmlu", score))
    (found,) = calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)["wins"]
    # Of 24 pairs 8 have 0.3499; the small step lifts 2 of them to 0.35.
    assert (found["pairs"], found["wins"], found["ties"], found["losses"]) == (18, 9, 0, 9)
    assert found["rule"] == "pairs in which baseline is at least 0.1 above chance (0.25)"
    assert found["reason"] == "6 of 24 pairs left out"


def test_pairs_need_both_sides_and_mmlu_its_chance(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    half = [row for row in endpoints if row["architecture"] == "baseline" or row["scale"] == "100M"]
    rows = scored(half, "core") + [row | {"chance": None} for row in scored(endpoints, "mmlu")]
    rows += scored([row for row in endpoints if row["architecture"] == "smelt"], "completion")
    found = {row["metric"]: row for row in calibrate(tmp_path, endpoints, rows, bootstrap_draws=5)["wins"]}
    assert (found["core"]["pairs"], found["core"]["reason"]) == (12, "12 scores without a partner")
    assert found["mmlu"]["wins"] is None
    assert found["mmlu"]["reason"] == "no chance level of mmlu; give it in the column chance"
    assert (found["completion"]["pairs"], found["completion"]["wins"]) == (0, None)


# Tables of scores that cannot be right


def test_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    rows = tasks(endpoints)
    rows[0]["items"], rows[0]["standard_error"] = 1000, 0.01
    table = tables.read(write_endpoints(tmp_path / "endpoints.parquet", endpoints))
    read = [
        tables.rows(read_scores(write_scores(tmp_path / f"scores.{kind}", rows), table)) for kind in ("csv", "parquet")
    ]
    assert read[0] == read[1] == rows


def test_columns_that_may_be_left_out(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    table = tables.read(write_endpoints(tmp_path / "endpoints.parquet", endpoints))
    rows = scored(endpoints, "core")
    needed = [
        name for name in SCORES.names if name not in ("seed", "task", "category", "chance", "standard_error", "items")
    ]
    short = [{name: row[name] for name in needed} for row in rows]
    assert tables.rows(read_scores(write_scores(tmp_path / "scores.csv", short), table)) == rows


def wrong(**changes: Any) -> Callable[[list[Row]], list[Row]]:
    """The third row changed."""

    def change(rows: list[Row]) -> list[Row]:
        rows[2] |= changes
        return rows

    return change


BAD: dict[str, tuple[Callable[[list[Row]], list[Row]], str]] = {
    "unknown label": (wrong(scale="700M"), r"row 4 .*, column scale: no endpoint is architecture baseline, scale 700M"),
    "unknown architecture": (wrong(architecture="loop"), r"row 4 .*, column architecture: no endpoint is"),
    "unknown step": (wrong(branch_step=7), r"row 4 .*, column branch_step: no endpoint is"),
    "unknown seed": (wrong(seed=7), r"row 4 .*, column seed: no endpoint is"),
    "no combination": (wrong(scale="200M", sparsity="S97"), r"column sparsity: no endpoint is"),
    "not a number": (wrong(score="nan"), r"row 4 .*, column score: 'nan'; expected a finite number"),
    "no score": (wrong(score=None), r"row 4 .*, column score: empty; every row needs one"),
    "no metric": (wrong(metric=None), r"row 4 .*, column metric: empty; every row needs one"),
    "no direction": (wrong(higher_is_better=None), r"row 4 .*, column higher_is_better: empty"),
    "words": (wrong(score="high"), r"row 4 .*, column score: 'high'; expected a finite number"),
    "a direction in words": (wrong(higher_is_better="up"), r"higher_is_better: 'up'; expected true or false"),
    "half a step": (wrong(branch_step=1.5), r"row 4 .*, column branch_step: '1.5'; expected a whole number"),
    "chance in percent": (wrong(chance=25), r"row 4 .*, column chance: 25.0; expected a fraction in \[0, 1\)"),
    "negative chance": (wrong(chance=-0.1), r"row 4 .*, column chance: -0.1; expected a fraction"),
    "points": (wrong(chance=0.25, score=27.6), r"row 4 .*, column score: 27.6; .* \(27.6 points are 0.276\)"),
    "negative error": (wrong(standard_error=-1), r"row 4 .*, column standard_error: -1.0; expected a number of"),
    "no items": (wrong(items=0), r"row 4 .*, column items: 0; expected a number of at least 1"),
    "category of an aggregate": (wrong(category="text"), r"row 4 .*, column category: 'text' without a task"),
    "repeated": (lambda rows: [*rows, rows[0]], r"row 26 .* repeats row 2 \(architecture baseline, .*, core\)"),
    "two directions": (wrong(higher_is_better=False), r"row 4 .*, column higher_is_better: False, but True in row 2"),
    "two chances": (wrong(chance=0.3), r"row 4 .*, column chance: 0.3, but None in row 2"),
    "no aggregate": (
        wrong(task="read"),
        r"row 4 .*, column task: core has tasks but no aggregate at architecture base",
    ),
    "a task missing": (
        lambda rows: rows + [row | {"task": task} for row in rows for task in ("a", "b")][:-1],
        r"column task: .* has no 'b' of core, which others have",
    ),
    "unknown column": (
        lambda rows: [row | {"accuracy": 1} for row in rows],
        r"unknown column 'accuracy'; did you mean 'score'",
    ),
    "missing column": (
        lambda rows: [{name: row[name] for name in row if name != "sparsity"} for row in rows],
        r"the column 'sparsity' is missing",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_table_of_scores(tmp_path: Path, case: str) -> None:
    change, message = BAD[case]
    endpoints = [row for row in study(part(2, 2)) if row["architecture"] == "baseline"]
    table = tables.read(write_endpoints(tmp_path / "endpoints.parquet", endpoints))
    path = write_scores(tmp_path / "scores.csv", change(scored(endpoints, "core")))
    with pytest.raises(UserError, match=message) as caught:
        read_scores(path, table)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_no_table(tmp_path: Path) -> None:
    table = tables.read(write_endpoints(tmp_path / "endpoints.parquet", study(part(1, 1))))
    with pytest.raises(UserError, match=r"scores are a \.csv or \.parquet file"):
        read_scores(tmp_path / "scores.xlsx", table)
    with pytest.raises(UserError, match="no such file"):
        read_scores(tmp_path / "scores.csv", table)
    (tmp_path / "scores.csv").write_text("architecture,score\n")
    with pytest.raises(UserError, match="no row"):
        read_scores(tmp_path / "scores.csv", table)


def test_endpoints_that_labels_cannot_tell_apart(tmp_path: Path) -> None:
    endpoints = study(part(1, 1))
    table = pd.concat([tables.read(write_endpoints(tmp_path / "endpoints.parquet", endpoints))] * 2)
    path = write_scores(tmp_path / "scores.csv", scored(endpoints, "core"))
    with pytest.raises(UserError, match="2 endpoints are architecture baseline"):
        read_scores(path, table)


def test_the_reference_must_be_scored(tmp_path: Path) -> None:
    endpoints = study(part(2, 2))
    only = [row for row in endpoints if row["architecture"] == "smelt"]
    with pytest.raises(UserError, match="no score of the reference architecture 'baseline'"):
        calibrate(tmp_path, endpoints, scored(only, "core"))
