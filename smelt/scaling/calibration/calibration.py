"""From validation loss to downstream scores: is a better score more than the lower loss accounts for?

Reads results/scaling/endpoints.parquet and a table of scores. The calibration curve (Eq. 6) of each metric and task
is fitted to the reference's endpoints, all of them, and an endpoint's residual (Eq. 7) is how far its score lies on
the better side of the curve at its own loss. Writes calibration.parquet (the curves and their certificates),
calibration_residuals.parquet, calibration_means.parquet (by scale, by category and over all, with intervals) and
wins.parquet (matched pairs in which an architecture beats the reference).
"""

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smelt import artifacts, spec
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.labels import KEYS, Row, key
from smelt.scaling.calibration import means, sigmoid, wins
from smelt.scaling.calibration.scores import read_scores
from smelt.scaling.calibration.series import Calibrated, Series, Settings
from smelt.scaling.endpoints.table import ENDPOINTS, check_endpoints, column

_PLACE = [
    field("metric", pa.string(), "core, completion, mmlu or any other name"),
    field("task", pa.string(), "task of the metric; empty for the metric itself"),
]
_CATEGORY = field("category", pa.string(), "category of the task; empty where it has none")
CALIBRATION = pa.schema(
    [
        *_PLACE,
        field("reference", pa.string(), "execution plan whose endpoints were fitted"),
        field("base", pa.float64(), "b of Eq. 6, in units of the score"),
        field("amplitude", pa.float64(), "a of Eq. 6, in units of the score"),
        field("slope", pa.float64(), "alpha of Eq. 6, per nat"),
        field("midpoint", pa.float64(), "tau of Eq. 6, nats"),
        field("r2", pa.float64(), "share of the variance of the reference's scores that the curve explains"),
        field("endpoints", pa.int32(), "endpoints of the reference"),
        field("start_share", pa.float64(), "share of the starts within 1e-6 of the best sum of squares"),
        field("at_bound", pa.string(), "parameters on a bound, or none"),
        field("reason", pa.string(), "why there is no curve, or why its parameters are not determined"),
        field("determined", pa.bool_(), "whether the endpoints fix all four parameters and not the curve alone"),
        _CATEGORY,
        field("higher_is_better", pa.bool_(), "whether the score falls with the loss (d = -1)"),
        field("chance", pa.float64(), "score of a random answer, as given"),
        field("centred", pa.bool_(), "whether chance was taken out of the scores (Eq. 11) before the fit"),
        field("rmse", pa.float64(), "root mean square of the reference's residuals, in units of the score"),
        field("loss_low", pa.float64(), "lowest loss of the reference, nats: the curve holds from here"),
        field("loss_high", pa.float64(), "highest loss of the reference, nats: the curve holds up to here"),
    ]
)
RESIDUALS = pa.schema(
    [
        *(ENDPOINTS.field(name) for name in KEYS),
        *_PLACE,
        _CATEGORY,
        field("loss", pa.float64(), "validation loss, nats"),
        field("score", pa.float64(), "the score as calibrated: centred by chance for the tasks of some metrics"),
        field("predicted", pa.float64(), "score of the reference's curve at this loss; missing where there is none"),
        field("residual", pa.float64(), "score - predicted, or its negative where lower is better: positive is better"),
        field("extrapolated", pa.bool_(), "whether the loss lies beyond all of the reference's"),
    ]
)


def collect(scores: Iterable[Row], endpoints: pa.Table, settings: Settings) -> list[Series]:
    """The scores by metric and task, in the order of the names, the metric itself before its tasks."""
    places = {key(row): place for place, row in enumerate(endpoints.select(KEYS).to_pylist())}
    losses = column(endpoints, "loss")
    groups: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for row in scores:
        groups.setdefault((row["metric"], row["task"]), []).append((places[key(row)], row))
    found = []
    for (metric, task), members in sorted(groups.items()):
        members.sort(key=lambda member: member[0])
        about = members[0][1]
        centred = (
            bool(task) and metric in settings.centred and about["higher_is_better"] and about["chance"] is not None
        )
        values = np.array([row["score"] for _, row in members], dtype=np.float64)
        rows = np.array([place for place, _ in members])
        found.append(
            Series(
                metric,
                task,
                about["category"],
                about["higher_is_better"],
                about["chance"],
                centred,
                rows,
                losses[rows],
                centre(values, about["chance"]) if centred else values,
            )
        )
    return found


def centre(score: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Eq. 11: 0 for a random answer, 1 for all right."""
    return (score - chance) / (1 - chance)


def curve_row(one: Calibrated, settings: Settings) -> dict[str, Any]:
    """The row of a metric or task in the table of curves."""
    series, fit = one.series, one.fit
    row: dict[str, Any] = dict.fromkeys(CALIBRATION.names)
    row |= {name: getattr(series, name) for name in ("metric", "task", "category", "higher_is_better", "chance")}
    row |= {"centred": series.centred, "reference": settings.reference, "endpoints": fit.endpoints}
    row |= {"r2": fit.r2, "start_share": fit.start_share, "at_bound": fit.at_bound, "reason": fit.reason or None}
    row["determined"] = fit.determined
    losses = series.loss[one.reference]
    if losses.size:
        row |= {"loss_low": float(losses.min()), "loss_high": float(losses.max())}
    if one.curve is not None:
        row |= {name: float(value) for name, value in zip(sigmoid.NAMES, one.curve, strict=True)}
        row["rmse"] = float(np.sqrt(np.mean(one.residual[one.reference] ** 2)))
    return row


def residual_rows(one: Calibrated, endpoints: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for each endpoint that has the score."""
    series = one.series
    return [
        {
            **{name: endpoints[place][name] for name in KEYS},
            "metric": series.metric,
            "task": series.task,
            "category": series.category,
            "loss": float(series.loss[at]),
            "score": float(series.score[at]),
            "predicted": None if one.curve is None else float(one.predicted[at]),
            "residual": None if one.curve is None else float(one.residual[at]),
            "extrapolated": None if one.curve is None else bool(one.beyond[at]),
        }
        for at, place in enumerate(series.rows.tolist())
    ]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="study, reference, draws and seed, as JSON")
    parser.add_argument("--endpoints", required=True, type=Path)
    parser.add_argument("--scores", required=True, type=Path, help="table of scores, .csv or .parquet")
    for name in ("calibration", "residuals", "means", "wins"):
        parser.add_argument(f"--{name}", required=True, type=Path, help=f"where to write {name}")
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    endpoints = artifacts.read_table(arguments.endpoints)
    check_endpoints(endpoints, arguments.endpoints)
    scores = read_scores(arguments.scores, endpoints)
    if settings.reference not in {row["architecture"] for row in scores}:
        raise UserError(f"{arguments.scores}: no score of the reference architecture {settings.reference!r}; add them")
    rows = endpoints.select([*KEYS, "loss"]).to_pylist()
    architectures = np.array([row["architecture"] for row in rows])
    calibrated = [
        Calibrated.of(one, architectures == settings.reference) for one in collect(scores, endpoints, settings)
    ]
    tables = {
        arguments.calibration: (CALIBRATION, [curve_row(one, settings) for one in calibrated]),
        arguments.residuals: (RESIDUALS, [row for one in calibrated for row in residual_rows(one, rows)]),
        arguments.means: (means.MEANS, means.mean_rows(calibrated, rows, settings)),
        arguments.wins: (wins.WINS, wins.win_rows([one.series for one in calibrated], rows, settings)),
    }
    inputs = [arguments.endpoints, arguments.scores]
    origin = artifacts.provenance("smelt.scaling.calibration.calibration", dataclasses.asdict(settings), inputs)
    for path, (schema, found) in tables.items():
        artifacts.write_table(artifacts.table(found, schema), path, origin)
    for row in tables[arguments.calibration][1]:
        fitted = "" if row["r2"] is None else f"R2 {row['r2']:.4f}"
        print(f"{row['metric']} {row['task']}".strip() + ": " + "; ".join(filter(None, (fitted, row["reason"]))))


if __name__ == "__main__":
    command(main)
