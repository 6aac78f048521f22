"""Held-out losses of each run to one table of endpoints, one row per decayed model.

Reads results/evaluation/<run>/losses.parquet of every run and writes results/scaling/endpoints.parquet.
The validation loss is the token-weighted cross-entropy within a source, averaged over the sources; the
plain token-weighted mean stands beside it. Losses of different endpoints can be compared only if all of
them cover the same text, which is checked.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from smelt import tables
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.scaling.endpoints.losses import means_by, read_losses
from smelt.scaling.endpoints.table import ENDPOINTS, check_endpoints

COVERED = ["source", "document", "piece", "tokens"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained run: its id, its endpoint key and what the budgets count; `branch_steps`, if any, are checked."""

    run: str
    architecture: str
    scale: str
    sparsity: str
    seed: int
    flops_per_token: float
    params: int
    kv_bytes_per_token: int
    S: float
    batch_contexts: int
    decay_steps: int
    active_params: int
    looped_params: int
    visits: int
    expansion: float
    S_own: float | None
    S_baseline: float | None
    S_nominal: float | None
    branch_steps: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Settings:
    """All runs, in the order of the files of losses."""

    context: int
    s_convention: str
    runs: tuple[Run, ...]


def collect(settings: Settings, paths: Sequence[Path]) -> pa.Table:
    """The table of endpoints (ENDPOINTS), ordered as the runs are, branches by their step.

    `paths` are the files of losses, one for each run in the order of the runs. Raises UserError where a file holds
    another run, other branches than the run has, or other text than the other files.
    """
    return tables.to_arrow(endpoints_of(settings, paths).drop(columns="run_number"), ENDPOINTS)


def endpoints_of(settings: Settings, paths: Sequence[Path]) -> pd.DataFrame:
    """The endpoints as `collect` gives them, with `run_number`, the position of each one's run in the settings."""
    losses = read_losses([run.run for run in settings.runs], paths)
    rows: list[dict[str, Any]] = []
    first: tuple[str, pd.DataFrame] | None = None
    for number, (run, path) in enumerate(zip(settings.runs, paths, strict=True)):
        of_run = losses[losses["run_number"] == number]
        _check_branches(of_run, run, path)
        for step in sorted(of_run["branch_step"].unique().tolist()):
            branch = of_run[of_run["branch_step"] == step]
            name = f"{path}, branch at step {step}"
            covered = branch[COVERED].sort_values(COVERED, ignore_index=True)
            first = first or (name, covered)
            _check_text(*first, name, covered)
            rows.append(_row(run, step, branch, settings.context) | {"run_number": number})
    return tables.from_rows(rows, ENDPOINTS.append(pa.field("run_number", pa.int64())))


def _check_branches(losses: pd.DataFrame, run: Run, path: Path) -> None:
    """Raise UserError unless the branches are 1..n with one step each, those of the run where it names them."""
    pairs = losses[["branch", "branch_step"]].drop_duplicates().sort_values(["branch", "branch_step"])
    numbers, steps = pairs["branch"].tolist(), pairs["branch_step"].tolist()
    count = len(run.branch_steps) or len(pairs)
    if numbers != list(range(1, count + 1)):
        listed = ", ".join(map(str, numbers))
        raise UserError(f"{path}: branches {listed}; expected 1..{count}, each with one branch_step")
    expected = list(run.branch_steps) or sorted(set(steps))
    if steps != expected:
        raise UserError(f"{path}: branch steps {steps}; expected {expected} for run {run.run}")


def _check_text(first: str, text: pd.DataFrame, other: str, others: pd.DataFrame) -> None:
    """Raise UserError, naming a document, unless both endpoints cover the same text, once."""
    if not others.equals(text):
        either = text.drop_duplicates().merge(others.drop_duplicates(), how="outer", on=COVERED, indicator=True)
        different = either[either["_merge"] != "both"].sort_values(COVERED)
        detail = (
            "source {}, document {}, piece {} with {} tokens is in one only".format(*different[COVERED].iloc[0])
            if len(different)
            else "one of them repeats a document"
        )
        raise UserError(f"{other}: covers other text than {first}: {detail}; evaluate both again")
    repeated = others[others.duplicated(COVERED[:3])]
    if len(repeated):
        document, piece = repeated[["document", "piece"]].iloc[0]
        raise UserError(f"{other}: document {document}, piece {piece} appears twice; evaluate again")


def _row(run: Run, step: int, losses: pd.DataFrame, context: int) -> dict[str, Any]:
    tokens = (step + run.decay_steps) * run.batch_contexts * context
    said = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    return {name: value for name, value in said.items() if name in ENDPOINTS.names} | {
        "branch_step": step,
        "tokens": tokens,
        "training_flops": run.flops_per_token * tokens,
        "loss": float(means_by(losses, ["source"])["loss"].to_numpy().mean()),
        "loss_token_mean": float(tables.numbers(losses, "loss").sum() / tables.numbers(losses, "tokens").sum()),
        "source": "trained",
    }


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.endpoints.collect", __doc__, argv, Settings, ["losses*"], ["out"])
    data = collect(job.settings, job.paths("losses"))
    check_endpoints(tables.from_arrow(data), job.path("out"))
    job.write("out", data)
    print(f"{data.num_rows} endpoints of {len(job.settings.runs)} runs")


if __name__ == "__main__":
    command(main)
