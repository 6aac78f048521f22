"""How far `resolved` and the intervals of the gain can be believed, on simulated studies whose true gain is known.

A study is a design (which F, S and D are trained), a kind of noise and a true gain: the other architecture's loss at
(F, D) is the reference's at (s F, s D), so that its gain is 1 - 1/s^2 at every budget and sparsity. Noise has the
published RMSE of arXiv 2609.01343: independent, or partly common to a run, or to a scale too. For each seed the whole
stage runs. A line of the table says, over all studies of a kind,

  any       share of studies with a resolved row: false ones where the true gain is 0, power elsewhere
  single    the same if rows were judged singly, by their own intervals
  joint     share of studies in which all gains together are told from zero
  near      share of the rows that are not extrapolated
  bootstrap, cells, scales
            share of those rows' intervals that contain the truth, and the share of rows that have one

With `--draws 0` there is no bootstrap. Then `any` and `single` leave out its condition and are upper bounds.

  python benchmarks/coverage.py [--studies 200] [--draws 0] [--gains 0 0.1 0.18] [--kinds "4x3 scale" ...]
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from smelt.scaling.analysis import Analysis  # noqa: E402
from smelt.scaling.endpoints import simulate  # noqa: E402
from smelt.scaling.fitting.fit import fit_surfaces  # noqa: E402
from smelt.scaling.gains.joint import LEVEL  # noqa: E402
from smelt.scaling.settings import Settings  # noqa: E402
from smelt.surfaces import SMELT  # noqa: E402
from smelt.surfaces import gain as gain_between  # noqa: E402
from smelt.surfaces.frontier import EXTRAPOLATED  # noqa: E402
from tests.scaling.published import GRID, RMSE, SURFACES, VALUES, Grid, endpoint_rows, part, points  # noqa: E402

Rows = list[dict[str, Any]]
INTERVALS = {"bootstrap": "gain", "cells": "jackknife", "scales": "scales"}  # its columns
DENSE_FLOPS = (6.4e8, 1.3e9, 2.6e9, 5.2e9, 1.04e10, 2.08e10)
RATIOS = (20, 40, 100, 200)  # tokens per parameter of the ladder
EXPONENT = 1.5  # with which the terms of the other law add up


def dense(sizes: Sequence[float]) -> Grid:
    """One cell a size, both architectures alike in F and S = 0."""
    return {(f"s{place}", "S0"): ((flops, 0.0), (flops * 1.01, 0.0)) for place, flops in enumerate(sizes)}


def ladder(sizes: Sequence[float]) -> Rows:
    """Sizes trained on fixed tokens per parameter: nothing off a strip in (F, D)."""
    rows = endpoint_rows(dense(sizes), nominal={"S0": 0.0}, steps=range(len(RATIOS)))
    for row in rows:
        row["tokens"] = round(RATIOS[row["branch_step"]] * row["flops_per_token"] / 6)
        row["training_flops"] = row["flops_per_token"] * row["tokens"]
    return rows


DESIGNS: Mapping[str, Callable[[], Rows]] = {
    "4x3": lambda: endpoint_rows(GRID),
    "3x3": lambda: endpoint_rows(part(3, 3)),
    "5 dense": lambda: endpoint_rows(dense(DENSE_FLOPS[:5]), nominal={"S0": 0.0}),
    "6 dense": lambda: endpoint_rows(dense(DENSE_FLOPS), nominal={"S0": 0.0}),
    "6 ladder": lambda: ladder([flops / 2 for flops in DENSE_FLOPS]),
    "4x3 other": lambda: endpoint_rows(GRID),  # on a law that no surface here has
    "4x3 published": lambda: endpoint_rows(GRID),  # on both published surfaces, whatever the gain asked for
}
# Shares of the variance that are common to a run, and to a scale and architecture.
NOISES = {"independent": (0.0, 0.0), "run": (0.8, 0.0), "scale": (0.3, 0.5)}
# With one sparsity a scale is a run.
CHOSEN: tuple[str, ...] = ("4x3 independent", "4x3 run", "4x3 scale", "4x3 other scale", "3x3 run", "3x3 scale")
CHOSEN += ("5 dense independent", "5 dense run", "6 dense run", "6 ladder run")


def law(values: Sequence[float], row: Mapping[str, Any], stretch: float, exponent: float) -> float:
    """The loss in nats at (stretch F, stretch D): Eq. 2 with both terms added up as powers of `exponent`."""
    E, A, K, a, b, c = values
    capacity = A * (1 - row["S"]) ** b / (stretch * row["flops_per_token"]) ** a
    return float(E + (capacity**exponent + (K / (stretch * row["tokens"]) ** c) ** exponent) ** (1 / exponent))


def simulated(design: str, noise: str, gain: float, seed: int) -> Rows:
    """The endpoints of one study; both architectures have the reference's published surface, but for the gain."""
    rows, values = DESIGNS[design](), SURFACES["baseline"].tolist()
    known = SURFACES if design.endswith("published") else dict.fromkeys(SURFACES, SURFACES["baseline"])
    surfaces = {name: {**dict(zip("EAKabc", known[name].tolist(), strict=True)), "rmse": RMSE[name]} for name in known}
    run, scale = NOISES[noise]
    settings = simulate.Settings(surfaces=surfaces, noise=1.0, seed=seed, correlation=run, scale_correlation=scale)
    simulated_rows = simulate.simulate(rows, settings)
    if design.endswith("published"):
        return simulated_rows
    exponent = EXPONENT if design.endswith("other") else 1.0
    for row, noisy in zip(rows, simulated_rows, strict=True):
        stretch = (1 - gain) ** -0.5 if row["architecture"] == "smelt" else 1.0
        row["loss"] = noisy["loss"] - law(values, row, 1.0, 1.0) + law(values, row, stretch, exponent)
    return rows


def gains(rows: Rows, draws: int, seed: int = 0) -> Rows:
    """The rows of ce_gain of a study at its own default budgets."""
    labels = {row["sparsity"] for row in rows}
    values = {label: VALUES.get(label, 0.0) for label in labels}
    settings = Settings("coverage", "baseline", values, bootstrap_draws=max(draws, 1), seed=seed, fit_starts=3)
    by_name = {name: points(rows, name) for name in SURFACES}
    return Analysis(settings, by_name, fit_surfaces(by_name, settings)).gain_rows()


def single(row: Mapping[str, Any], draws: int) -> bool:
    """Whether a row would be resolved by its own intervals, the bootstrap's left out where there is none."""
    if row["gain"] is None or row["window"] == EXTRAPOLATED or row["multiplier"] is None:
        return False
    return all(
        _clear(row[f"{kind}_low"], row[f"{kind}_high"]) for kind in (("gain", "scales") if draws else ("scales",))
    )


def _clear(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and not low <= 0 <= high


class Tally(NamedTuple):
    """What is counted of the studies of a kind."""

    any: float
    single: float
    joint: float
    near: float
    intervals: Mapping[str, tuple[float, float]]  # share that contains the truth, and that is there
    seconds: float  # CPU, a study


def tally(kind: str, gain: float, studies: int, draws: int) -> Tally:
    """Run the studies of a kind."""
    design, noise = kind.rsplit(" ", 1)
    start = time.process_time()
    by_study = [gains(simulated(design, noise, gain, seed), draws, seed) for seed in range(studies)]
    seconds = (time.process_time() - start) / studies
    rows = [row for of_study in by_study for row in of_study]
    near = [row for row in rows if row["window"] != EXTRAPOLATED and row["gain"] is not None]
    singly = np.array([any(single(row, draws) for row in of_study) for of_study in by_study])
    jointly = np.array([of_study[0]["joint_p"] is not None and of_study[0]["joint_p"] < LEVEL for of_study in by_study])
    found = [any(row["resolved"] for row in of_study) for of_study in by_study] if draws else singly & jointly
    true = [published_gain(row) if design.endswith("published") else gain for row in near]
    intervals = {name: _held(near, columns, true) for name, columns in INTERVALS.items()}
    any_share, single_share, joint_share = (float(np.mean(one)) for one in (found, singly, jointly))
    return Tally(any_share, single_share, joint_share, len(near) / len(rows), intervals, seconds)


def published_gain(row: Mapping[str, Any]) -> float:
    """The gain of the published surfaces at the budget and sparsity of a row."""
    target, reference = (SMELT.slice(SURFACES[name], {"active": 1 - row["S"]}) for name in ("smelt", "baseline"))
    return float(gain_between(target, reference, row["budget_flops"]))


def _held(rows: Rows, columns: str, true: Sequence[float]) -> tuple[float, float]:
    ends = [(row[f"{columns}_low"], gain, row[f"{columns}_high"]) for row, gain in zip(rows, true, strict=True)]
    there = [low <= gain <= high for low, gain, high in ends if low is not None]
    return float(np.mean(there or [np.nan])), len(there) / max(len(rows), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200, help="of each kind")
    parser.add_argument("--draws", type=int, default=0, help="of the bootstrap; 0 leaves it out")
    parser.add_argument("--gains", type=float, nargs="+", default=[0.0, 0.1, 0.18])
    parser.add_argument("--kinds", nargs="+", default=CHOSEN, help="design and noise; by default all of the table")
    arguments = parser.parse_args()
    print(f"{arguments.studies} studies of each kind, {arguments.draws or 'no'} draws; shares in %")
    names = "".join(f"{name:>16}" for name in INTERVALS)
    print(f"{'kind':20}  gain    any  single  joint   near{names}  CPU s a study")
    for kind in arguments.kinds:
        for gain in arguments.gains:
            found = tally(kind, gain, arguments.studies, arguments.draws)
            shares = (found.any, found.single, found.joint, found.near)
            shown = "".join(f"{100 * share:7.1f}" for share in shares)
            cells = "".join(f"  {100 * held:5.1f} of {100 * there:5.1f}" for held, there in found.intervals.values())
            print(f"{kind:20} {gain:5.2f} {shown}{cells}  {found.seconds:5.2f}", flush=True)


if __name__ == "__main__":
    main()
