"""Iso-loss log ratios: how much less training compute a matched model took to a loss that both models reached.

A pair is two runs of one cell and seed, an architecture beside the reference, with endpoints at several horizons (the
decay branches). Each run's losses are a curve over log C, made non-increasing (isotonic regression) and linear between
endpoints. At a horizon the worse loss L of the two is taken, and the better model's curve says where it had reached L:

    m = log C_reference(L) - log C_architecture(L),  gain = 1 - exp(-m): Eq. 5 at equal loss and fixed size.

Nothing is fitted over scales and nothing is extrapolated; exchanging the two models changes the sign of m. The pair
keeps its size, so the gain is no frontier's and no compute efficiency gain. Where the better model's first endpoint is
below L already, m is only bounded (censored).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from smelt import tables
from smelt.labels import RUN_KEYS
from smelt.surfaces.points import Array


class LogRatio(NamedTuple):
    """m of one pair at one horizon; `bound` is 1 where m is at least the value, -1 at most, 0 where it is known."""

    value: float
    bound: int


class Curve(NamedTuple):
    """Losses of a run over compute, both (endpoints,): log of the training FLOPs, and nats, non-increasing."""

    log_compute: Array
    loss: Array

    def reaches(self, level: float) -> float:
        """Log of the training FLOPs at which the loss was first at most `level`.

        NaN where already the first endpoint is below. Raises ValueError where the loss never falls to `level`.
        """
        if level > self.loss[0]:
            return np.nan
        if level < self.loss[-1]:
            raise ValueError(f"the loss ends at {self.loss[-1]}, above {level}")
        after = int(np.argmax(self.loss <= level))
        if after == 0:
            return float(self.log_compute[0])
        share = (self.loss[after - 1] - level) / (self.loss[after - 1] - self.loss[after])
        return float(self.log_compute[after - 1] + share * (self.log_compute[after] - self.log_compute[after - 1]))


def curve(training_flops: Array, loss: Array) -> Curve:
    """A run's curve from training FLOPs, which rise, and losses of its endpoints, both (endpoints,)."""
    return Curve(np.log(training_flops), np.asarray(isotonic_regression(loss, increasing=False).x))


def log_ratio(target: Curve, reference: Curve, place: int) -> LogRatio:
    """m = log C_reference / C_target at the worse of the two losses at `place`, an index into both (-1: the last)."""
    if target.loss[place] > reference.loss[place]:
        mirrored = log_ratio(reference, target, place)
        return LogRatio(-mirrored.value, -mirrored.bound)
    reached = target.reaches(float(reference.loss[place]))
    censored = bool(np.isnan(reached))
    start = float(target.log_compute[0]) if censored else reached
    return LogRatio(float(reference.log_compute[place]) - start, int(censored))


def pair_rows(endpoints: pd.DataFrame, reference: str) -> pd.DataFrame:
    """One row a pair and horizon, in the order of the runs, from the table of endpoints.

    Columns: architecture, scale, sparsity, seed, horizon, branch_step, tokens, loss, loss_reference, log_ratio, bound
    (of LogRatio) and endpoints, the number of both curves. Runs with different numbers of endpoints are aligned at
    their last ones, and so are pairs: the last horizon has the highest number. `branch_step` and `tokens` are those of
    the architecture. Empty where no run has a partner, a run of the reference in its cell and with its seed.
    """
    names = list(RUN_KEYS)
    ordered = endpoints.sort_values("training_flops", kind="stable", ignore_index=True)
    members = {key: np.asarray(rows) for key, rows in ordered.groupby(names, sort=False).indices.items()}
    flops, loss = tables.numbers(ordered, "training_flops"), tables.numbers(ordered, "loss")
    curves = {key: curve(flops[rows], loss[rows]) for key, rows in members.items()}
    rows, beside, places, counts = (list[int]() for _ in range(4))
    ratios = []
    for key in endpoints[names].drop_duplicates().itertuples(index=False, name=None):
        partner = (reference, *key[1:])
        if key[0] == reference or partner not in members:
            continue
        count = min(len(members[key]), len(members[partner]))
        rows += members[key][-count:].tolist()
        beside += members[partner][-count:].tolist()
        places += range(-count, 0)
        ratios += [log_ratio(curves[key], curves[partner], place) for place in range(-count, 0)]
        counts += [len(members[key]) + len(members[partner])] * count
    named = {name: ordered[name].to_numpy()[rows] for name in (*names, "branch_step", "tokens")}
    found = {
        "loss": loss[rows],
        "loss_reference": loss[beside],
        "log_ratio": np.array([ratio.value for ratio in ratios], dtype=np.float64),
        "bound": np.array([ratio.bound for ratio in ratios], dtype=np.int64),
        "horizon": np.array(places, dtype=np.int64) - min(places, default=0) + 1,
        "endpoints": np.array(counts, dtype=np.int64),
    }
    return pd.DataFrame(named | found)
