"""The console command `smelt`: what people do by hand, each a thin door on the library.

smelt studies                        the studies of config/, and what each is
smelt check STUDY                    read a study and say what it holds, or the first mistake in it
smelt match STUDY                    the matched pairs of its grid and how well they match
smelt plan STUDY                     what it takes to train: tokens, FLOPs, GPU-hours, memory, storage
smelt fit FILE [--budget C ...]      compute efficiency and iso-loss gains from a table of endpoints
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from smelt import tables
from smelt.budgets import plan as cost_estimate
from smelt.budgets import table as budgets_table
from smelt.budgets.plan_columns import PLAN
from smelt.errors import UserError, command
from smelt.study import load as studies
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy
from smelt.study.grid import GridStudy
from smelt.workflow import specs

KINDS = {"grid": "trains a grid", "endpoints": "endpoints of a file", "simulation": "simulated endpoints"}
GAIN_COLUMNS = ["architecture", "budget_flops", "sparsity", "gain", "gain_low", "gain_high", "window", "resolved"]
ISO_LOSS_COLUMNS = ["architecture", "kind", "sparsity", "tokens", "gain", "gain_low", "gain_high", "cells", "resolved"]
MATCH_COLUMNS = ["scale", "sparsity", "hidden_size", "layers", "executed_layers", "experts", "expert_width"]
RATIOS = ["flops_ratio", "params_ratio", "kv_ratio"]
PLAN_COLUMNS = ["architecture", "scale", "sparsity", "tokens", "training_flops", "gpu_hours", "bytes_per_gpu"]


def main(argv: Sequence[str]) -> None:
    """Run one sub-command. Raises UserError on bad input, and SystemExit on a command line that is not understood."""
    arguments = _parser().parse_args(argv)
    arguments.run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="smelt", description="Scaling laws for compute-matched looped models.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    commands.add_parser("studies", help="list the studies of config/").set_defaults(run=_studies)
    for name, run, text in (
        ("check", _check, "read a study and say what it holds"),
        ("match", _match, "show the matched pairs of a study's grid"),
        ("plan", _plan, "estimate what a study takes to train"),
    ):
        one = commands.add_parser(name, help=text)
        one.add_argument("study", metavar="STUDY", help="a name in config/, or the path of a study file")
        one.set_defaults(run=run)
    fit = commands.add_parser("fit", help="gains from a table of endpoints (docs/endpoints.md)")
    fit.add_argument("file", metavar="FILE", type=Path, help=".csv or .parquet, one row an endpoint")
    fit.add_argument("--reference", default="", metavar="NAME", help="architecture that gains compare with")
    fit.add_argument("--budget", type=float, nargs="+", default=[], metavar="C", help="training FLOPs, such as 1e20")
    fit.add_argument("--draws", type=int, default=10_000, metavar="N", help="bootstrap draws (default: 10000)")
    fit.set_defaults(run=_fit)
    return parser


def _studies(arguments: argparse.Namespace) -> None:
    rows = []
    for path in sorted(studies.CONFIG.glob("*.yaml")):
        if studies.is_study(path):
            study = studies.read(path)
            rows.append({"study": path.stem, "kind": KINDS[study.kind], "results": study.root, "what": _headline(path)})
    _show(pd.DataFrame(rows))


def _headline(path: Path) -> str:
    """The first sentence of the comment that opens a study file."""
    lines = [line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    text = " ".join(line for line in lines if not line.startswith("yaml-language-server"))
    return re.split(r"(?<=[.:]) ", text, maxsplit=1)[0].rstrip(".:")


def _check(arguments: argparse.Namespace) -> None:
    study = _study(arguments.study)
    print(f"{study.path}: sound, {KINDS[study.kind]}")
    if isinstance(study, GridStudy):
        recipe = study.trained[0].training
        print(f"{len(study.networks)} networks, {len(study.trained)} runs, {len(recipe.branch_steps)} branches each:")
        _show(pd.DataFrame([{"run": run.id, "steps": run.training.steps} for run in study.trained]))
    if isinstance(study, EndpointStudy):
        _warn(study.given.warnings)
    print(f"results: {study.root}/")


def _match(arguments: argparse.Namespace) -> None:
    rows, _ = budgets_table.budget_rows(specs.budgets(_grid(arguments.study)))
    frame = tables.from_rows(rows, budgets_table.BUDGETS)
    _show(frame[["architecture", *MATCH_COLUMNS, *RATIOS]])


def _plan(arguments: argparse.Namespace) -> None:
    settings = specs.plan(_grid(arguments.study))
    _show(tables.from_rows(cost_estimate.plan_rows(settings), PLAN)[PLAN_COLUMNS])
    _warn(cost_estimate.warnings(settings))


def _fit(arguments: argparse.Namespace) -> None:
    from smelt.scaling import analysis  # scipy, which no other command needs

    endpoints = analysis.read(arguments.file)
    _warn(endpoints.warnings)
    fitted = analysis.fit(endpoints, arguments.reference, draws=arguments.draws, compute_budgets=arguments.budget)
    gains = fitted.gains()
    if gains.empty:
        raise UserError(f"{arguments.file}: one architecture; a gain compares two")
    print("CE gain, at the compute optimum of each architecture:")
    _show_gains(gains, GAIN_COLUMNS)
    iso_loss = analysis.iso_loss_gain(endpoints, arguments.reference)
    last = iso_loss["horizon"].isna() | (iso_loss["horizon"] == iso_loss["horizon"].max())
    print("\nIso-loss gain, at the size that was trained, without a fit (last endpoints):")
    _show_gains(iso_loss[last & iso_loss["kind"].isin(["all", "sparsity"])], ISO_LOSS_COLUMNS)


def _show_gains(gains: pd.DataFrame, columns: Sequence[str]) -> None:
    """Print gains and their notes."""
    _show(gains[columns])
    for line in _notes(gains):
        print(line)


def _notes(gains: pd.DataFrame) -> list[str]:
    """What the column `reason` says: a line for all remarks on the same rows, with the names of these rows."""
    named: dict[str, list[str]] = {}
    for row in gains[gains["reason"].notna()].to_dict("records"):
        sparsity = "all sparsities" if pd.isna(row["sparsity"]) else row["sparsity"]
        budget = f" at {row['budget_flops']:.4g} FLOPs" if "budget_flops" in row else ""
        for remark in row["reason"].split("; "):
            named.setdefault(remark, []).append(f"{row['architecture']} {sparsity}{budget}")
    remarks: dict[tuple[str, ...], list[str]] = {}
    for remark, rows in named.items():
        remarks.setdefault(tuple(rows), []).append(remark)
    return [
        f"note on {'all rows' if len(rows) == len(gains) else ', '.join(rows)}: {'; '.join(said)}"
        for rows, said in remarks.items()
    ]


def _study(name: str) -> Study:
    return studies.read(studies.find(name))


def _grid(name: str) -> GridStudy:
    study = _study(name)
    if not isinstance(study, GridStudy):
        raise UserError(f"{study.path}: its endpoints are given, so that it has no grid; name a study that trains one")
    return study


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"warning: {line}")


def _show(frame: pd.DataFrame) -> None:
    """Print a table for people: numbers to four significant digits, missing values empty."""
    shown = frame.astype(object).where(frame.notna(), "").map(_printed)
    print(shown.to_string(index=False))


def _printed(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def console() -> None:
    """Entry point of the console script."""
    try:
        command(main)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has all it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter says so as it ends


if __name__ == "__main__":
    console()
