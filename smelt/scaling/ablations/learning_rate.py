"""A tuning study's losses to the learning rate that each architecture should have at each scale.

Reads results/evaluation/<run>/losses.parquet of every run of a study whose grid is trained once at each
rate; writes results/scaling/learning_rate.parquet, one row for each architecture, cell and rate. The loss is
that of the last branch, averaged over seeds.

A comparison at one shared, untuned rate can say whatever one likes. So each row of an architecture gives
its difference to the reference under both rules: each at its own best rate, and both at the reference's.
"""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import spec
from smelt.artifacts import field, provenance, table, write_table
from smelt.errors import UserError, command
from smelt.scaling.endpoints.collect import Settings, collect

MODULE = "smelt.scaling.ablations.learning_rate"

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
    """The runs of the sweep, as the endpoints job describes them, and the rate of each."""

    reference: str
    rates: tuple[float, ...]
    endpoints: Mapping[str, Any]


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


def analyse(losses: Mapping[tuple[str, str, str], Mapping[float, list[float]]], reference: str) -> list[dict[str, Any]]:
    """Rows of RATES without `tokens`, from the losses by (architecture, scale, sparsity) and rate."""
    means = {key: {rate: float(np.mean(by_rate[rate])) for rate in sorted(by_rate)} for key, by_rate in losses.items()}
    sweeps = {key: sweep(list(by_rate), list(by_rate.values())) for key, by_rate in means.items()}
    rows = []
    for key, by_rate in means.items():
        theirs = means.get((reference, *key[1:]))
        if theirs is None:
            raise UserError(f"cell {key[1]}-{key[2]}: the reference {reference} was not trained there; train both")
        shared = min(theirs, key=lambda rate: theirs[rate])
        found = sweeps[key]
        for place, (rate, loss) in enumerate(by_rate.items()):
            rows.append(
                {
                    "architecture": key[0],
                    "scale": key[1],
                    "sparsity": key[2],
                    "learning_rate": rate,
                    "seeds": len(losses[key][rate]),
                    "loss": loss,
                    "best": place == found["best"],
                    "bracketed": found["bracketed"],
                    "optimum": found["optimum"],
                    "difference_own_rate": min(by_rate.values()) - min(theirs.values()),
                    "difference_shared_rate": by_rate[shared] - theirs[shared],
                    "reason": found["reason"],
                }
            )
    return rows


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument(
        "--spec", required=True, help="{reference, rates: one a file, endpoints: as of the endpoints job}"
    )
    parser.add_argument("--losses", required=True, nargs="+", type=Path, help="losses.parquet of each run, in order")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args(argv)
    settings = spec.load(RateSettings, arguments.spec)
    losses: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    tokens: dict[tuple[str, str, str], int] = {}
    for run, rate, path in zip(settings.endpoints["runs"], settings.rates, arguments.losses, strict=True):
        one = spec.load(Settings, {**settings.endpoints, "runs": [run]})
        last = collect(one, [path]).to_pylist()[-1]
        key = (last["architecture"], last["scale"], last["sparsity"])
        losses.setdefault(key, {}).setdefault(rate, []).append(last["loss"])
        tokens[key] = last["tokens"]
    rows = [
        {**row, "tokens": tokens[row["architecture"], row["scale"], row["sparsity"]]}
        for row in analyse(losses, settings.reference)
    ]
    origin = provenance(MODULE, spec.plain(settings), arguments.losses)
    write_table(table(rows, RATES), arguments.out, origin)


if __name__ == "__main__":
    command(main)
