"""A tuning study's losses to the learning rate that each architecture should have at each scale.

Reads results/evaluation/<run>/losses.parquet of every run of a study whose grid is trained once at each
rate; writes results/scaling/learning_rate.parquet, one row for each architecture, cell and rate. The loss is
that of the last branch, averaged over seeds.

With one shared, untuned learning rate the comparison can go either way. So each row of an architecture gives its
difference to the reference under both rules: each at its own best rate, and both at the reference's.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.scaling.endpoints.collect import Settings, endpoints_of

MODULE = "smelt.scaling.ablations.learning_rate"
CELL = ["scale", "sparsity"]
LINE = ["architecture", *CELL]  # what one sweep belongs to

RATES = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("scale", pa.string(), "label of the scale"),
        field("sparsity", pa.string(), "label of the sparsity"),
        field("learning_rate", pa.float64(), "peak rate of the run"),
        field("tokens", pa.int64(), "training tokens of the endpoint, the decay included"),
        field("seeds", pa.int32(), "runs averaged"),
        field("loss", pa.float64(), "held-out loss in nats, mean over sources and seeds"),
        field("best", pa.bool_(), "whether it is the lowest loss of its architecture and cell"),
        field("bracketed", pa.bool_(), "whether a lower and a higher rate than the best are worse"),
        field("optimum", pa.float64(), "vertex of the parabola in log-rate through the best and its neighbours"),
        field("difference_own_rate", pa.float64(), "loss minus the reference's, each at its best rate, nats"),
        field("difference_shared_rate", pa.float64(), "loss minus the reference's, both at the reference's best, nats"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)


@dataclasses.dataclass(frozen=True)
class RateSettings:
    """The runs of the tuning study, as the table of endpoints describes them, and the rate of each."""

    reference: str
    rates: tuple[float, ...]
    endpoints: Settings


def vertex(rates: Sequence[float], losses: Sequence[float]) -> float:
    """Rate at the minimum of the parabola in log-rate through three points, the middle one lowest."""
    x, y = np.log(rates), np.array(losses)
    slopes = np.diff(y) / np.diff(x)
    curvature = (slopes[1] - slopes[0]) / (x[2] - x[0])
    return math.exp((x[0] + x[1]) / 2 - slopes[0] / (2 * curvature))


def sweep(rates: Sequence[float], losses: Sequence[float]) -> dict[str, Any]:
    """Where the best of a sweep (rates ascending) lies, and what can be said of the optimum."""
    best = int(np.argmin(losses))
    inside = 0 < best < len(rates) - 1
    around = slice(best - 1, best + 2)
    return {
        "best": best,
        "bracketed": inside,
        "optimum": vertex(rates[around], losses[around]) if inside else None,
        "reason": "" if inside else f"the best rate is the {'lowest' if best == 0 else 'highest'} of the sweep",
    }


def analyse(endpoints: pd.DataFrame, reference: str) -> pd.DataFrame:
    """The rows of RATES from the last endpoint of each run: architecture, scale, sparsity, learning_rate, tokens, loss.

    Raises UserError where the reference was not trained in a cell.
    """
    tokens = endpoints.groupby(LINE, sort=False)["tokens"].last().reset_index()
    rates = endpoints.groupby([*LINE, "learning_rate"], sort=False)["loss"].agg(seeds="size", loss=_mean).reset_index()
    rates["line"] = rates.groupby(LINE, sort=False).ngroup()
    rates = rates.sort_values(["line", "learning_rate"], kind="stable", ignore_index=True).merge(tokens, on=LINE)
    rates = rates.join(pd.concat([_sweep_columns(line) for _, line in rates.groupby("line")]))
    best = rates[rates["best"]].assign(best_loss=lambda rows: rows["loss"])
    shared = best[best["architecture"] == reference][[*CELL, "learning_rate", "best_loss"]]
    untrained = best[CELL].drop_duplicates().merge(shared, how="left", on=CELL)
    untrained = untrained[untrained["best_loss"].isna()]
    if len(untrained):
        cell = "-".join(untrained[CELL].iloc[0])
        raise UserError(f"cell {cell}: the reference {reference} was not trained there; train both")
    # At the rate that is the reference's best: the loss of each architecture, and the reference's own.
    shared = shared.rename(columns={"best_loss": "reference_loss"})
    at_shared = rates[[*LINE, "learning_rate", "loss"]].merge(shared, on=[*CELL, "learning_rate"])
    at_shared = at_shared.rename(columns={"loss": "shared_loss"}).drop(columns=["learning_rate", "reference_loss"])
    rates = rates.merge(best[[*LINE, "best_loss"]], on=LINE).merge(at_shared, how="left", on=LINE)
    rates = rates.merge(shared[[*CELL, "reference_loss"]], on=CELL)
    rates["difference_own_rate"] = rates["best_loss"] - rates["reference_loss"]
    rates["difference_shared_rate"] = rates["shared_loss"] - rates["reference_loss"]
    return rates[RATES.names]


def _mean(losses: "pd.Series[float]") -> float:
    return float(np.mean(losses.to_numpy(dtype=np.float64)))


def _sweep_columns(line: pd.DataFrame) -> pd.DataFrame:
    """What `sweep` says of one architecture in one cell, at each of its rates; `best` becomes a flag of the row."""
    said = sweep(tables.numbers(line, "learning_rate").tolist(), tables.numbers(line, "loss").tolist())
    return pd.DataFrame({**said, "best": np.arange(len(line)) == said["best"]}, index=line.index)


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, RateSettings, ["losses*"], ["out"])
    settings = job.settings
    if len(settings.rates) != len(settings.endpoints.runs):
        raise UserError(f"{len(settings.rates)} rates for {len(settings.endpoints.runs)} runs; give one for each run")
    last = endpoints_of(settings.endpoints, job.paths("losses")).groupby("run_number").tail(1)
    rates = last.assign(learning_rate=np.array(settings.rates)[last["run_number"].to_numpy(dtype=np.int64)])
    job.write("out", tables.to_arrow(analyse(rates, settings.reference), RATES))


if __name__ == "__main__":
    command(main)
