"""From validation loss to downstream scores: is a better score more than the lower loss accounts for?

Reads results/scaling/endpoints.parquet and a table of scores. The calibration curve (Eq. 6) of each metric and task
is fitted to the reference's endpoints, all of them, and an endpoint's residual (Eq. 7) is how far its score lies on
the better side of the curve at its own loss. Writes calibration.parquet (the curves and their certificates),
calibration_residuals.parquet, calibration_means.parquet (by scale, by category and over all, with intervals) and
wins.parquet (matched pairs in which an architecture beats the reference).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import KEY_FIELDS, KEYS
from smelt.scaling.calibration import means, sigmoid, wins
from smelt.scaling.calibration.scores import read_scores
from smelt.scaling.calibration.series import Calibrated, Series
from smelt.scaling.calibration.settings import Settings
from smelt.scaling.endpoints.table import check_endpoints
from smelt.statistics import centred

_NAMES = [
    field("metric", pa.string(), "core, completion, mmlu or any other name"),
    field("task", pa.string(), "task of the metric; empty for the metric itself"),
]
_CATEGORY = field("category", pa.string(), "category of the task; empty where it has none")
CALIBRATION = pa.schema(
    [
        *_NAMES,
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
        *KEY_FIELDS,
        *_NAMES,
        _CATEGORY,
        field("loss", pa.float64(), "validation loss, nats"),
        field("score", pa.float64(), "the score as calibrated: centred by chance for the tasks of some metrics"),
        field("predicted", pa.float64(), "score of the reference's curve at this loss; missing where there is none"),
        field("residual", pa.float64(), "score - predicted, or its negative where lower is better: positive is better"),
        field("extrapolated", pa.bool_(), "whether the loss lies beyond all of the reference's"),
    ]
)


def collect(scores: pd.DataFrame, endpoints: pd.DataFrame, settings: Settings) -> list[Series]:
    """The scores by metric and task, in the order of the names, the metric itself before its tasks.

    `scores` are as `read_scores` returns them; each series holds its scores in the order of the table of endpoints.
    """
    position = endpoints[[*KEYS, "loss"]].assign(row=np.arange(len(endpoints)))
    scored = scores.merge(position, on=list(KEYS)).sort_values("row", kind="stable")
    return [_series(part, settings) for _, part in scored.groupby(["metric", "task"], sort=True)]


def _series(scores: pd.DataFrame, settings: Settings) -> Series:
    first = tables.rows(scores.iloc[:1])[0]
    metric, task, chance, higher = (first[name] for name in ("metric", "task", "chance", "higher_is_better"))
    centre = bool(task) and metric in settings.centred and higher and chance is not None
    values = tables.numbers(scores, "score")
    return Series(
        metric,
        task,
        first["category"],
        higher,
        chance,
        centre,
        scores["row"].to_numpy(dtype=np.int64),
        tables.numbers(scores, "loss"),
        centred(values, chance) if centre else values,
    )


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


def residuals(one: Calibrated, endpoints: pd.DataFrame) -> pd.DataFrame:
    """The rows of RESIDUALS of one series, a row for each endpoint that has the score."""
    series, fitted = one.series, one.curve is not None
    return (
        endpoints[list(KEYS)]
        .iloc[series.rows]
        .assign(
            metric=series.metric,
            task=series.task,
            category=series.category,
            loss=series.loss,
            score=series.score,
            predicted=one.predicted if fitted else None,
            residual=one.residual if fitted else None,
            extrapolated=one.beyond if fitted else None,
        )
    )


def main(argv: Sequence[str]) -> None:
    outputs = ["calibration", "residuals", "means", "wins"]
    job = read_job("smelt.scaling.calibration.calibration", __doc__, argv, Settings, ["endpoints", "scores"], outputs)
    settings, path = job.settings, job.path("scores")
    endpoints = tables.read(job.path("endpoints"))
    check_endpoints(endpoints, job.path("endpoints"))
    scores = read_scores(path, endpoints)
    if settings.reference not in set(scores["architecture"]):
        raise UserError(f"{path}: no score of the reference architecture {settings.reference!r}; add them")
    reference = (endpoints["architecture"] == settings.reference).to_numpy(dtype=bool)
    calibrated = [Calibrated.of(series, reference) for series in collect(scores, endpoints, settings)]
    curves = [curve_row(one, settings) for one in calibrated]
    job.write("calibration", artifacts.table(curves, CALIBRATION))
    job.write("residuals", tables.to_arrow(pd.concat([residuals(one, endpoints) for one in calibrated]), RESIDUALS))
    job.write("means", artifacts.table(means.mean_rows(calibrated, endpoints, settings), means.MEANS))
    counted = wins.win_rows([one.series for one in calibrated], endpoints, settings)
    job.write("wins", artifacts.table(counted, wins.WINS))
    for row in curves:
        fitted = "" if row["r2"] is None else f"R2 {row['r2']:.4f}"
        print(f"{row['metric']} {row['task']}".strip() + ": " + "; ".join(filter(None, (fitted, row["reason"]))))


if __name__ == "__main__":
    command(main)
