"""A user's table of endpoints, a CSV or Parquet file, to the table of endpoints that the fits read.

Reads the file that a study names under `endpoints` and writes results/NAME/scaling/endpoints.parquet. Every mistake
in it is one line that names the file, the row and the column. Where it does not say so itself, the sparsities are
found as groups of S, and the cells of a single architecture as its values of F and S.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from smelt import artifacts, tables
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import CONTROL, RUN_KEYS, labelled_sparsity
from smelt.scaling.endpoints import columns as user_columns
from smelt.scaling.endpoints import cross_checks, diverged
from smelt.scaling.endpoints.columns import Values
from smelt.scaling.endpoints.parameters import flops_of
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.scaling.settings import Settings as FitSettings
from smelt.user_files.table import TableFile, check_columns, frame_table, read_table_file

SAME_SPARSITY = 1.25  # factor of 1 - S between neighbours, up to which they have one label
ABOUT = 1.5  # factor of 1 - S, up to which a label's percentage may differ from S
REFERENCE = "baseline"  # where several architectures are there and none is named
WHOLE = ("tokens", "params", "seed", "branch_step", "active_params", "looped_params", "visits")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the file is read."""

    s_convention: str = FitSettings.s_convention  # decides the column of S where there is no column S


class EndpointTable(NamedTuple):
    """What a file of endpoints says."""

    rows: list[dict[str, Any]]  # as ENDPOINTS, without a loss where it has none
    s_convention: str
    sparsity_values: dict[str, float]  # S of each label, at which frontiers are compared
    warnings: tuple[str, ...] = ()  # what is unlikely, and not refused


def read(path: Path, convention: str = "baseline", losses: bool = True) -> EndpointTable:
    """The endpoints of a file, checked. Raises UserError, naming the row and column, on any mistake in it."""
    return _checked(read_table_file(path), convention, losses)


def from_frame(data: pd.DataFrame, convention: str = "baseline") -> EndpointTable:
    """The endpoints in a DataFrame with the columns of a file, checked as those of a file are.

    Raises UserError, naming the row (counted from 1) and column, on any mistake in it.
    """
    return _checked(frame_table(data), convention, losses=True)


def reference_of(table: EndpointTable, named: str, key: str = "reference") -> str:
    """The architecture that gains compare with: the one that is named, the only one, or the one called baseline.

    Raises UserError, which begins with `key`, where that is none or not clear.
    """
    names = sorted({row["architecture"] for row in table.rows})
    if named and named not in names:
        raise UserError(f"{key}: no endpoint of {named!r}; known are {', '.join(names)}")
    if not named and len(names) > 1 and REFERENCE not in names:
        raise UserError(
            f"{key}: the key is missing; of {', '.join(names)} it names the one that the gains compare with (none is "
            f"called {REFERENCE})"
        )
    return named or (names[0] if len(names) == 1 else REFERENCE)


def _checked(table: TableFile, convention: str, losses: bool) -> EndpointTable:
    check_columns(table, user_columns.COLUMNS, user_columns.ALIASES)
    values = user_columns.parsed(table, losses)
    sparsities, stated = _sparsities(table, values, convention)
    labels, points = _labels(table, values, sparsities)
    flops, counted = values.get("flops_per_token"), None
    if flops is None:
        flops, counted = flops_of(table, values, sparsities)
    scales = _scales(table, values, flops, sparsities, labels)
    columns = {name: column for name, column in values.items() if name not in ("cell", "S")}
    if _named(values):
        columns.setdefault("S_nominal", [labelled_sparsity(label) for label in labels])
    columns |= {"flops_per_token": flops, "S": sparsities, "scale": scales, "sparsity": labels}
    said = values.get("source") or ["own endpoints"] * len(table.data)
    columns["source"] = [f"{one}; {how}" for one, how in zip(said, counted, strict=True)] if counted else said
    rows = [_row({name: column[index] for name, column in columns.items()}) for index in range(len(table.data))]
    endpoints = tables.from_rows(rows, ENDPOINTS)
    _check_rows(table, endpoints)
    if mistakes := cross_checks.mistakes(endpoints, table.place):
        raise UserError("\n".join(mistakes))
    warnings = [*cross_checks.warnings(endpoints), *(diverged.warnings(endpoints) if losses else [])]
    return EndpointTable(tables.rows(_numbered(endpoints)), stated, points, tuple(warnings))


def _row(known: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ENDPOINTS from what is known of it."""
    row: dict[str, Any] = {**dict.fromkeys(ENDPOINTS.names), "seed": 0, **known}
    row |= {name: round(row[name]) for name in WHOLE if row[name] is not None}
    return row | {"training_flops": row["flops_per_token"] * row["tokens"]}


def _named(values: Values) -> list[str]:
    """The label of each row's sparsity, as a column or as part of its cell's name; empty where the file has neither."""
    from_cells = [parts[1] if (parts := _split(cell)) else "" for cell in values.get("cell", [])]
    return values.get("sparsity") or (from_cells if all(from_cells) else [])


def _sparsities(table: TableFile, values: Values, convention: str) -> tuple[list[float], str]:
    """S of each row, 0 where the file says nothing of it, and the convention that every gain states."""
    column, stated = user_columns.sparsity_of(table, convention)
    said = [labelled_sparsity(label) for label in _named(values)]
    if column:
        if None in values[column]:
            raise UserError(f"{table.place(values[column].index(None), column)}: empty; expected a sparsity in [0, 1)")
        return values[column], stated
    known = [value for value in said if value is not None]
    if convention == "nominal" and known and len(known) == len(said):
        return known, convention
    if any(known) or "sparsity" in values:
        raise UserError(
            f"{table.path}: the column 'S' is missing, and the labels name sparsities; give it, or set "
            "scaling.s_convention: nominal, which takes S from labels such as S85"
        )
    return [0.0] * len(table.data), stated


def _labels(table: TableFile, values: Values, sparsities: Sequence[float]) -> tuple[list[str], dict[str, float]]:
    """The label of each row's sparsity, and S of each label: its percentage if it says one, else the mean."""
    labels = _named(values)
    if not labels:
        return clustered(sparsities)
    points = {}
    for name, of_label in pd.Series(sparsities, dtype=float).groupby(np.array(labels)):
        stated = labelled_sparsity(str(name))
        points[str(name)] = float(np.mean(of_label.to_numpy())) if stated is None else stated
    column = "sparsity" if "sparsity" in values else "cell"
    for index, (s, label) in enumerate(zip(sparsities, labels, strict=True)):
        if labelled_sparsity(label) is not None and abs(np.log((1 - s) / (1 - points[label]))) > np.log(ABOUT):
            raise UserError(
                f"{table.place(index, column)}: {label!r} says {points[label]:g}, but S is {s:.4g}; correct one of "
                "them, or use a label without a percentage"
            )
    return labels, points


def clustered(sparsities: Sequence[float]) -> tuple[list[str], dict[str, float]]:
    """Labels of groups of S, and their means; groups part where 1 - S grows by more than SAME_SPARSITY."""
    values = np.array(sparsities)
    order = np.argsort(values, kind="stable")
    logs = np.log1p(-values[order])
    group = np.empty(len(values), dtype=int)
    group[order] = np.cumsum(np.r_[False, -np.diff(logs) > np.log(SAME_SPARSITY)])
    means = [float(values[group == number].mean()) for number in range(group.max() + 1)]
    labels = next(names for digits in range(17) if (names := _percentages(means, digits)))
    return [labels[number] for number in group], dict(zip(labels, means, strict=True))


def _percentages(means: Sequence[float], digits: int) -> list[str]:
    """Labels of shares with so many digits; none where they are too few to tell them apart, or from 0 and 1."""
    labels = [f"S{100 * mean:.{digits}f}" for mean in means]
    same = len(set(labels)) < len(labels)
    confused = any(float(label[1:]) in (0, 100) and mean > 0 for label, mean in zip(labels, means, strict=True))
    if (same or confused) and digits < 16:
        return []
    return [CONTROL if mean == 0 else label for label, mean in zip(labels, means, strict=True)]


def _split(cell: str) -> tuple[str, str] | None:
    """Scale and sparsity of a cell named SCALE-SPARSITY; nothing for another label."""
    scale, _, label = cell.rpartition("-")
    return (scale, label) if scale and labelled_sparsity(label) is not None else None


def _scales(
    table: TableFile, values: Values, flops: Sequence[float], sparsities: Sequence[float], labels: Sequence[str]
) -> list[str]:
    """The scale of each row, which with its sparsity makes its cell."""
    if "scale" in values and "cell" in values:
        raise UserError(f"{table.path}: both columns 'cell' and 'scale'; give one of them")
    if "scale" in values:
        return values["scale"]
    if "cell" in values:
        return _check_cells(table, values["cell"], labels)
    names = sorted(set(values["architecture"]))
    if len(names) > 1:
        raise UserError(
            f"{table.path}: the column 'cell' is missing; with several architectures ({', '.join(names)}) it says "
            "which endpoints belong together: one label for both sides of a comparison, as 100M-S85"
        )
    return _user_cells(flops, sparsities, labels)


def _check_cells(table: TableFile, cells: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The scales of cells by name; raises UserError where a cell holds two sparsities."""
    first: dict[str, int] = {}
    for index, (cell, label) in enumerate(zip(cells, labels, strict=True)):
        other = first.setdefault(cell, index)
        if labels[other] != label:
            raise UserError(
                f"{table.place(index, 'cell')}: {cell!r} holds the sparsities {labels[other]} (row "
                f"{table.first + other}) and {label}; a cell has one"
            )
    return [
        parts[0] if (parts := _split(cell)) and parts[1] == label else cell
        for cell, label in zip(cells, labels, strict=True)
    ]


def _user_cells(sizes: Sequence[float], sparsities: Sequence[float], labels: Sequence[str]) -> list[str]:
    """A scale for each distinct (F, S): as many digits of F as tell them apart, and S where several share an F."""
    distinct = set(zip(sizes, sparsities, strict=True))
    for digits in range(2, 17):
        names = [_short(size, digits) for size in sizes]
        if len(set(zip(names, labels, strict=True))) == len(distinct):
            return names
    return [f"{_short(size, 16)}-{s:.16g}" for size, s in zip(sizes, sparsities, strict=True)]


def _short(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _check_rows(table: TableFile, endpoints: pd.DataFrame) -> None:
    """Raise UserError on a row that repeats another, or whose parts are more than its whole."""
    alike = [("flops_per_token", "S", "tokens"), *([("branch_step",)] if "branch_step" in table.columns else [])]
    for names in alike:
        first = tables.first_rows(endpoints, [*RUN_KEYS, *names])
        for index in np.flatnonzero(first != np.arange(len(endpoints))).tolist():
            raise UserError(
                f"{table.place(index)} repeats row {table.first + first[index]} (the same architecture, cell, "
                f"{', '.join(names)}); take one out, or number repeated trainings in a column 'seed'"
            )
    active, looped = tables.numbers(endpoints, "active_params"), tables.numbers(endpoints, "looped_params")
    for index in np.flatnonzero(looped > active).tolist():
        raise UserError(
            f"{table.place(index, 'looped_params')}: {looped[index]:.0f}, more than the {active[index]:.0f} "
            "active_params"
        )


def _numbered(endpoints: pd.DataFrame) -> pd.DataFrame:
    """The endpoints with a branch step each: where the file names none, the rank of the endpoint in its run by D."""
    ordered = endpoints.sort_values(["tokens", "flops_per_token", "S"], kind="stable")
    rank = ordered.groupby(list(RUN_KEYS), sort=False).cumcount() + 1
    steps = endpoints["branch_step"]
    return endpoints.assign(branch_step=steps.fillna(rank.reindex(endpoints.index).astype(steps.dtype)))


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.scaling.endpoints.user_table", __doc__, argv, Settings, ["table"], ["out"])
    endpoints = read(job.path("table"), job.settings.s_convention)
    job.write("out", artifacts.table(endpoints.rows, ENDPOINTS))
    for line in endpoints.warnings:
        print(f"warning: {line}")
    print(f"{len(endpoints.rows)} endpoints of {job.path('table')}, S convention: {endpoints.s_convention}")


if __name__ == "__main__":
    command(main)
