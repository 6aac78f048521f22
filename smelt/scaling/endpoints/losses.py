"""Held-out losses of all runs as one frame, each file checked to hold the run that the spec names in its position."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from smelt import tables
from smelt.errors import UserError

LEAST = {"loss": 0.0, "tokens": 1.0, "document_tokens": 1.0}  # smallest valid value of a column


def read_losses(runs: Sequence[str], paths: Sequence[Path]) -> pd.DataFrame:
    """The rows of all files, in their order, with `run_number`, the position of the run in `runs`.

    `runs` are the ids of the runs, `paths` the file of each (results/evaluation/RUN/losses.parquet).
    Raises UserError where files and runs differ in number, a file holds another run than the one in its position (two
    files in the wrong order would exchange the losses of their runs), or a loss cannot be used.
    """
    if len(runs) != len(paths):
        raise UserError(f"{len(runs)} runs in the spec but {len(paths)} files of losses; give one for each run")
    frames = [_read(run, path) for run, path in zip(runs, paths, strict=True)]
    actual = [str(frame["run"].iloc[0]) for frame in frames]
    wrong = [
        f"{path} holds run {name}, expected {run}"
        for run, path, name in zip(runs, paths, actual, strict=True)
        if name != run
    ]
    if wrong:
        more = f"; {len(wrong) - 2} more files do not match" if len(wrong) > 2 else ""
        raise UserError(f"{'; '.join(wrong[:2])}{more}; give the files in the order of the spec's runs")
    numbered = [frame.assign(run_number=number) for number, frame in enumerate(frames)]
    return pd.concat(numbered, ignore_index=True) if numbered else pd.DataFrame()


def _read(run: str, path: Path) -> pd.DataFrame:
    losses = tables.read(path)
    if "run" not in losses.columns:
        raise UserError(f"{path}: no column 'run', so its losses could be another run's; evaluate run {run} again")
    if losses.empty:
        raise UserError(f"{path}: no losses; evaluate run {run} again")
    if len(names := losses["run"].unique()) > 1:
        raise UserError(f"{path}: holds the runs {', '.join(map(str, names))}; expected {run} alone; evaluate it again")
    for name, least in LEAST.items():
        values = tables.numbers(losses, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
        if wrong.size:
            row = wrong[0]
            raise UserError(
                f"{path}: row {row + 1}, column {name}: {values[row]}; expected a finite number of at least {least:g}"
            )
    return losses


def means_by(losses: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Token-weighted mean loss, nats per token, of each group of rows: columns `names`, tokens and loss, sorted.

    The sums run in the order of the rows (np.bincount), so that the same file gives the same bits.
    """
    groups = losses.groupby(list(names), sort=True)
    number = groups.ngroup().to_numpy()
    tokens = np.bincount(number, weights=tables.numbers(losses, "tokens"))
    totals = np.bincount(number, weights=tables.numbers(losses, "loss"))
    return groups.size().reset_index()[list(names)].assign(tokens=tokens.astype(np.int64), loss=totals / tokens)
