"""Held-out losses of each run to one table of endpoints, one row per decayed model.

Reads results/evaluation/<run>/losses.parquet of every run and writes results/scaling/endpoints.parquet.
The validation loss is the token-weighted cross-entropy within a source, averaged over the sources; the
plain token-weighted mean stands beside it. Losses of different endpoints can be compared only if all of
them cover the same text, which is checked.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smelt import artifacts, spec
from smelt.errors import UserError, command
from smelt.scaling.endpoints.table import ENDPOINTS, check_endpoints, column

COLUMNS = ("branch", "branch_step", "document", "piece", "source", "tokens", "loss")
Coverage = list[tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Run:
    """What the ledger and the study say of a run; `branch_steps`, where given, are checked."""

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
    S_own: float | None = None
    S_baseline: float | None = None
    S_nominal: float | None = None
    branch_steps: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Settings:
    """All runs, in the order of the files with their losses."""

    context: int
    s_convention: str
    runs: tuple[Mapping[str, Any], ...]


def collect(settings: Settings, paths: Sequence[Path]) -> pa.Table:
    """The table of endpoints, ordered as the runs are, branches by their step."""
    runs = [spec.load(Run, dict(run)) for run in settings.runs]
    if len(runs) != len(paths):
        raise UserError(f"{len(runs)} runs in the spec but {len(paths)} files of losses; give one for each run")
    rows: list[dict[str, Any]] = []
    first: tuple[str, Coverage] | None = None
    for run, path in zip(runs, paths, strict=True):
        data = artifacts.read_table(path, COLUMNS)
        _check_losses(data, path)
        for step, losses in _branches(data, run, path):
            covered = _coverage(losses)
            place = f"{path}, branch at step {step}"
            first = first or (place, covered)
            _same_text(first, (place, covered))
            rows.append(_row(run, step, losses, settings.context))
    return artifacts.table(rows, ENDPOINTS)


def _check_losses(data: pa.Table, path: Path) -> None:
    for name, least in (("loss", 0.0), ("tokens", 1.0)):
        values = column(data, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
        if wrong.size:
            place, found = f"row {wrong[0] + 1}, column {name}", values[wrong[0]]
            raise UserError(f"{path}: {place}: {found}; expected a finite number of at least {least:g}")


def _branches(data: pa.Table, run: Run, path: Path) -> list[tuple[int, pa.Table]]:
    """(branch step, losses) of each branch, checked to be 1..n with one step each."""
    branch = column(data, "branch").astype(int)
    steps = column(data, "branch_step").astype(int)
    pairs = sorted(set(zip(branch.tolist(), steps.tolist(), strict=True)))
    count = len(run.branch_steps) or len(pairs)
    if [number for number, _ in pairs] != list(range(1, count + 1)):
        found = ", ".join(str(number) for number, _ in pairs) or "none"
        raise UserError(f"{path}: branches {found}; expected 1..{count or 1}, each with one branch_step")
    expected = list(run.branch_steps) or sorted({step for _, step in pairs})
    if [step for _, step in pairs] != expected:
        raise UserError(f"{path}: branch steps {[step for _, step in pairs]}; expected {expected} for run {run.run}")
    return [(step, data.filter(pa.array(branch == number))) for number, step in pairs]


def _coverage(losses: pa.Table) -> Coverage:
    names = ("source", "document", "piece", "tokens")
    return sorted(zip(*(losses[name].to_pylist() for name in names), strict=True))


def _same_text(first: tuple[str, Coverage], other: tuple[str, Coverage]) -> None:
    """Raise UserError, naming a document, unless both endpoints cover the same text, once."""
    if other[1] != first[1]:
        difference = sorted(set(first[1]) ^ set(other[1]))
        detail = (
            "source {}, document {}, piece {} with {} tokens is in one only".format(*difference[0])
            if difference
            else "one of them repeats a document"
        )
        raise UserError(f"{other[0]}: covers other text than {first[0]}: {detail}; evaluate both again")
    repeated = next((a for a, b in zip(other[1], other[1][1:], strict=False) if a[:3] == b[:3]), None)
    if repeated is not None:
        raise UserError(f"{other[0]}: document {repeated[1]}, piece {repeated[2]} stands there twice; evaluate again")


def _row(run: Run, step: int, losses: pa.Table, context: int) -> dict[str, Any]:
    tokens = (step + run.decay_steps) * run.batch_contexts * context
    sums, counts = column(losses, "loss"), column(losses, "tokens")
    _, source = np.unique(np.array(losses["source"].to_pylist()), return_inverse=True)
    by_source = np.bincount(source, weights=sums) / np.bincount(source, weights=counts)
    return {
        "architecture": run.architecture,
        "scale": run.scale,
        "sparsity": run.sparsity,
        "seed": run.seed,
        "branch_step": step,
        "tokens": tokens,
        "flops_per_token": run.flops_per_token,
        "training_flops": run.flops_per_token * tokens,
        "S": run.S,
        "loss": float(by_source.mean()),
        "loss_token_mean": float(sums.sum() / counts.sum()),
        "source": "trained",
        "params": run.params,
        "kv_bytes_per_token": run.kv_bytes_per_token,
        "S_own": run.S_own,
        "S_baseline": run.S_baseline,
        "S_nominal": run.S_nominal,
        "active_params": run.active_params,
        "looped_params": run.looped_params,
        "visits": run.visits,
        "expansion": run.expansion,
    }


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="context, s_convention and the runs, as JSON")
    parser.add_argument("--losses", required=True, nargs="+", type=Path, help="losses.parquet of each run, in order")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args(argv)
    settings = spec.load(Settings, arguments.spec)
    data = collect(settings, arguments.losses)
    check_endpoints(data, arguments.out)
    origin = artifacts.provenance("smelt.scaling.endpoints.collect", dataclasses.asdict(settings), arguments.losses)
    artifacts.write_table(data, arguments.out, origin)
    print(f"{data.num_rows} endpoints of {len(settings.runs)} runs")


if __name__ == "__main__":
    command(main)
