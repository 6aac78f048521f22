"""Whether each run of a study went well: a table made of the training logs, by rules that stand here.

All rules look at the stable phase. A step's text decides more of its loss than the step before it does, so losses are
compared as medians of the last WINDOW steps:

spike      a step whose loss is SPIKE nats or more above the median of the WINDOW steps before it. A batch of rare text
           is one, too, and then in every run that reads it.
rise       the running median over its lowest value so far, in nats.
diverged   the rise is RISE or more for LONG steps in a row, or the run ends no better than a uniform guess, ln V.
collapsed  in some executed layer, over the last WINDOW steps: the fullest expert is chosen for NEARLY_ALL of the tokens
           or more (in networks with at least SPARSE times as many experts as are active), or MOST of the experts or
           more are idle.

A loss that is not finite has no row: it stops the run, and its error says the step. A run of fewer than WINDOW steps is
too short for any of these.
"""

import argparse
import dataclasses
import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field, provenance, read_table, table, write_csv, write_table
from smelt.errors import UserError, command
from smelt.labels import check_run
from smelt.spec import load

MODULE = "smelt.training.health"
WINDOW = 20  # steps
SPIKE = 1.0  # nats; 5 % of the steps at the most, of 140 runs on real text, of 60 to 400 steps of one context
RISE = 0.5  # nats; 0.24 is the worst of those runs
LONG = 20  # steps
NEARLY_ALL = 0.95  # of tokens; 0.91 is the most of those runs: one of eight choices may be the same for all
SPARSE = 4
MOST = 0.75  # of experts; 0.60 is the most of those runs, at a rate far too high

RUNS = pa.schema(
    [
        field("run", pa.string(), "name of the run"),
        field("architecture", pa.string(), "name of the architecture"),
        field("scale", pa.string(), "scale of the cell"),
        field("sparsity", pa.string(), "sparsity label of the cell"),
        field("seed", pa.int32(), "training seed"),
        field("learning_rate", pa.float64(), "peak learning rate"),
        field("steps", pa.int32(), "of the stable phase"),
        field("final_loss", pa.float64(), f"training loss at its end, nats: median of the last {WINDOW} steps"),
        field("worst_rise", pa.float64(), "largest rise of the running median over its lowest value so far, nats"),
        field("worst_step", pa.int32(), "step of that rise"),
        field("spikes", pa.int32(), f"steps whose loss is {SPIKE} nats or more above the median of those before"),
        field("fullest_expert", pa.float64(), "its load over the mean at the end, in the layer where it is largest"),
        field("fullest_share", pa.float64(), "share of the tokens that it is chosen for"),
        field("idle_experts", pa.float64(), "share of the experts without a token at the end, in the worst layer"),
        field("diverged", pa.bool_(), "whether the loss went up and stayed there, or never came down"),
        field("collapsed", pa.bool_(), "whether routing left nearly all to one expert, or most without a token"),
        field("reason", pa.string(), "the rules that it broke, and where; empty for a sound run"),
    ]
)


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """What a run is."""

    run: str
    architecture: str
    scale: str
    sparsity: str
    seed: int
    learning_rate: float
    experts: int
    active_experts: int
    vocabulary: int


def running_medians(losses: np.ndarray) -> np.ndarray:
    """(n,) medians of the last WINDOW losses up to each step, of fewer at the start."""
    return np.array([np.median(losses[max(0, end - WINDOW) : end]) for end in range(1, len(losses) + 1)])


def longest(flags: np.ndarray) -> tuple[int, int]:
    """Where the longest row of True begins in (n,) `flags`, and its length; (0, 0) without one."""
    found, place = (0, 0), 0
    for flag, group in itertools.groupby(flags.tolist()):
        length = len(list(group))
        if flag and length > found[1]:
            found = (place, length)
        place += length
    return found


def divergence(losses: np.ndarray, vocabulary: int) -> list[str]:
    """The rules of divergence that (n,) losses of a stable phase break, in words."""
    if len(losses) < WINDOW:
        return []
    medians, broken = running_medians(losses), []
    start, length = longest(medians - np.minimum.accumulate(medians) >= RISE)
    if length >= LONG:
        broken.append(f"diverged: the loss is {RISE} nats or more above its best for {length} steps from {start + 1}")
    if medians[-1] >= math.log(vocabulary):
        broken.append(f"diverged: the loss ends at {medians[-1]:.2f}, no better than a uniform guess")
    return broken


def collapse(fullest: np.ndarray, idle: np.ndarray, settings: RunSettings) -> list[str]:
    """The rules of collapse that the end of a run breaks, in words: (layers,) means of its last steps, the share of
    tokens of the fullest expert and the share of idle experts."""
    broken = []
    if fullest.max() >= NEARLY_ALL and settings.experts >= SPARSE * settings.active_experts:
        layer = int(fullest.argmax()) + 1
        broken.append(f"collapsed: one expert of executed layer {layer} is chosen for {fullest.max():.0%} of tokens")
    if idle.max() >= MOST:
        broken.append(f"collapsed: {idle.max():.0%} of the experts of executed layer {int(idle.argmax()) + 1} are idle")
    return broken


def judged(settings: RunSettings, log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of a run from the rows of its log."""
    stable = [row for row in log if row["branch"] == 0]
    losses = np.array([row["loss"] for row in stable])
    medians = running_medians(losses)
    rises = medians - np.minimum.accumulate(medians)
    spikes = [step for step in range(WINDOW, len(losses)) if losses[step] >= medians[step - 1] + SPIKE]
    load, idle = (
        np.array([row[name] for row in stable[-WINDOW:]], np.float64).mean(axis=0)
        for name in ("expert_load", "idle_experts")
    )
    fullest = load * settings.active_experts / settings.experts
    diverged = divergence(losses, settings.vocabulary)
    collapsed = collapse(fullest, idle, settings) if len(stable) >= WINDOW else []
    return {
        **{name: value for name, value in vars(settings).items() if name in RUNS.names},
        "steps": len(stable),
        "final_loss": float(medians[-1]),
        "worst_rise": float(rises.max()),
        "worst_step": stable[int(rises.argmax())]["step"],
        "spikes": len(spikes),
        "fullest_expert": float(load.max()),
        "fullest_share": float(fullest.max()),
        "idle_experts": float(idle.max()),
        "diverged": bool(diverged),
        "collapsed": bool(collapsed),
        "reason": "; ".join([*diverged, *collapsed]) or None,
    }


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--spec", required=True, help="canonical JSON: {runs: [RunSettings]}, parallel to --logs")
    parser.add_argument("--logs", nargs="+", required=True, help="training logs (Parquet)")
    parser.add_argument("--out", required=True, help="the table (Parquet)")
    parser.add_argument("--csv", required=True, help="the same rows for people")
    told = parser.parse_args(argv)

    spec = json.loads(told.spec)
    if len(spec["runs"]) != len(told.logs):
        raise UserError(f"--logs: {len(told.logs)} logs of {len(spec['runs'])} runs; give one for each, in their order")
    columns = ["run", "branch", "step", "loss", "expert_load", "idle_experts"]
    rows = []
    for settings, path in zip((load(RunSettings, run) for run in spec["runs"]), told.logs, strict=True):
        log = read_table(path, columns).to_pylist()
        check_run(path, (row["run"] for row in log), settings.run)
        rows.append(judged(settings, log))
    data = table(rows, RUNS)
    write_table(data, told.out, provenance(MODULE, spec, told.logs))
    write_csv(data, told.csv)


if __name__ == "__main__":
    command(main)
