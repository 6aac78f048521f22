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

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job

MODULE = "smelt.training.health"
WINDOW = 20  # steps
SPIKE = 1.0  # nats; 5 % of the steps at the most, of 140 runs on real text, of 60 to 400 steps of one context
RISE = 0.5  # nats; 0.24 is the worst of those runs
LONG = 20  # steps
NEARLY_ALL = 0.95  # of tokens; 0.91 is the most of those runs: one of eight choices may be the same for all
SPARSE = 4
MOST = 0.75  # of experts; 0.60 is the most of those runs, at a rate far too high

COLUMNS = ("run", "branch", "step", "loss", "expert_load", "idle_experts")  # of a log, that the rules need
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


@dataclasses.dataclass(frozen=True)
class Settings:
    """The runs, in the order of their logs."""

    runs: tuple[RunSettings, ...]


def running_medians(losses: np.ndarray) -> np.ndarray:
    """(n,) medians of the last WINDOW losses up to each step, of fewer at the start."""
    return np.array([np.median(losses[max(0, end - WINDOW) : end]) for end in range(1, len(losses) + 1)])


def longest(flags: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest stretch of True in (n,) `flags`; (0, 0) without one."""
    longest_stretch, start = (0, 0), 0
    for flag, group in itertools.groupby(flags.tolist()):
        length = len(list(group))
        if flag and length > longest_stretch[1]:
            longest_stretch = (start, length)
        start += length
    return longest_stretch


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


def judged(settings: RunSettings, log: pd.DataFrame) -> dict[str, Any]:
    """The row of a run, from the columns COLUMNS of its log."""
    stable = log[log["branch"] == 0]
    losses = tables.numbers(stable, "loss")
    medians = running_medians(losses)
    rises = medians - np.minimum.accumulate(medians)
    spikes = [step for step in range(WINDOW, len(losses)) if losses[step] >= medians[step - 1] + SPIKE]
    load, idle = (
        np.array(stable[name].tail(WINDOW).tolist(), np.float64).mean(axis=0)
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
        "worst_step": int(stable["step"].iloc[int(rises.argmax())]),
        "spikes": len(spikes),
        "fullest_expert": float(load.max()),
        "fullest_share": float(fullest.max()),
        "idle_experts": float(idle.max()),
        "diverged": bool(diverged),
        "collapsed": bool(collapsed),
        "reason": "; ".join([*diverged, *collapsed]) or None,
    }


def check_runs(paths: Sequence[Path], logs: Sequence[pd.DataFrame], runs: Sequence[RunSettings]) -> None:
    """Raise UserError where a log is of another run than the spec says at its position, as after an exchange."""
    if len(runs) != len(paths):
        raise UserError(f"--logs: {len(paths)} logs of {len(runs)} runs; give one for each, in their order")
    expected = {path: settings.run for path, settings in zip(paths, runs, strict=True)}
    logged = {path: sorted(set(log["run"])) for path, log in zip(paths, logs, strict=True)}
    for path, names in logged.items():
        if not (others := [name for name in names if name != expected[path]]):
            continue
        holder = next((other for other in paths if expected[path] in logged[other]), None)
        where = f", which is in {holder}" if holder else ""
        raise UserError(
            f"{path}: this is of run {others[0]}, expected run {expected[path]}{where}; files were exchanged or "
            "renamed: delete those of both runs and run again"
        )


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["logs*"], ["out", "csv"])
    logs = [tables.read(path, COLUMNS) for path in job.paths("logs")]
    check_runs(job.paths("logs"), logs, job.settings.runs)
    rows = [judged(settings, log) for settings, log in zip(job.settings.runs, logs, strict=True)]
    data = tables.from_rows(rows, RUNS)
    job.write("out", tables.to_arrow(data, RUNS))
    tables.write_csv(data, job.path("csv"))


if __name__ == "__main__":
    command(main)
