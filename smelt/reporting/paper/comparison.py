"""Table: every number that the paper prints, beside ours.

Reads the registry of the paper's numbers and those of the study's tables (Parquet) that exist for its kind of study;
writes results/<study>/tables/paper_comparison.{csv,parquet}, one row for each number of the registry, in its order.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.reporting.paper.registry import Entry, look_up, read_registry, table_file
from smelt.reporting.paper.rounding import PROPAGATES, propagated

MODULE = "smelt.reporting.paper.comparison"
Row = dict[str, Any]
AGREES, DIFFERS, NOT_COMPUTED, NOT_APPLICABLE = "agrees", "differs", "not computed", "not applicable"
MEASURED, SIMULATED, OTHER = "measured", "simulated", "other"
ROUND_OFF = 1e-9  # of a value: no status or difference may hang on the last bits
COMPARISON = pa.schema(
    [
        field("id", pa.string(), "path of the number among the paper's: section, row, column"),
        field("meaning", pa.string(), "what it is, with its unit"),
        field("where", pa.string(), "where arXiv 2609.01343v1 prints it; figures as in arXiv's HTML"),
        field("paper", pa.float64(), "the paper's value"),
        field("ours", pa.float64(), "this study's value"),
        field("difference", pa.float64(), "ours - paper"),
        field("tolerance", pa.float64(), "difference that the printed digits allow"),
        field("status", pa.string(), "agrees, differs, not computed or not applicable"),
        field("target", pa.string(), "file that holds, or will hold, our value"),
        field("reason", pa.string(), "why there is no value of ours, or what moves it"),
    ]
)


@dataclasses.dataclass(frozen=True)
class ComparisonSettings:
    """What the comparison needs to know of the study."""

    study: str
    endpoints: str = OTHER  # measured (the paper's own study), simulated from its published surfaces, or another's
    noise: float = 0.0  # drawn around simulated endpoints, in units of the published RMSE


def not_applicable(entry: Entry, settings: ComparisonSettings) -> str | None:
    """Why a number has nothing to be compared with in this study."""
    if entry.kind == "setting":
        return entry.reason or "a setting of the paper's runs, not a result"
    if settings.endpoints == OTHER:
        return "another study than the paper's"
    if entry.kind == "spread" and settings.endpoints == SIMULATED:
        return "rests on the residuals of the paper's own runs, which are not published; ours are simulated"
    return None


def tolerance(entry: Entry, registry: Sequence[Entry], settings: ComparisonSettings) -> float:
    """Half a unit of the last printed digit; where ours comes from other printed numbers, what their rounding adds."""
    if entry.kind == "bound":
        return 0.0
    return entry.half_digit + (propagated(entry, registry) if settings.endpoints == SIMULATED else 0.0)


def compared(
    entry: Entry, registry: Sequence[Entry], studied: Mapping[str, pd.DataFrame], settings: ComparisonSettings
) -> Row:
    """The row of one number."""
    row: Row = dict.fromkeys(COMPARISON.names)
    row |= {"id": entry.id, "meaning": entry.meaning, "where": entry.where, "paper": entry.value}
    row |= {"target": entry.target, "status": NOT_APPLICABLE, "reason": not_applicable(entry, settings)}
    if row["reason"]:
        return row
    ours, reason = look_up(entry, studied)
    row |= {"status": NOT_COMPUTED, "reason": reason}
    if ours is None:
        return row
    difference, allowed = ours - entry.value, tolerance(entry, registry, settings)
    nothing = ROUND_OFF * abs(entry.value)
    excess = difference if entry.kind == "bound" else abs(difference)
    row |= {"ours": ours, "difference": difference if abs(difference) > nothing else 0.0, "tolerance": allowed}
    row["status"] = AGREES if excess <= allowed + nothing else DIFFERS
    row["target"] = table_file(settings.study, entry.table)
    if settings.noise:
        row["reason"] = f"the endpoints carry drawn noise of {settings.noise:g} x the published RMSE"
    return row


def comparison(
    registry: Sequence[Entry], studied: Mapping[str, pd.DataFrame], settings: ComparisonSettings
) -> list[Row]:
    """One row for each entry of the registry, in its order."""
    if settings.endpoints not in (MEASURED, SIMULATED, OTHER):
        raise UserError(f"endpoints: {settings.endpoints!r}; expected {MEASURED}, {SIMULATED} or {OTHER}")
    for entry in registry:
        if entry.propagates and entry.propagates not in PROPAGATES:
            known = ", ".join(PROPAGATES)
            raise UserError(f"{entry.id}, column propagates: {entry.propagates!r}; expected one of {known}")
    return [compared(entry, registry, studied, settings) for entry in registry]


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, ComparisonSettings, ["registry", "tables*"], ["csv"])
    studied = {path.stem: tables.read(path) for path in job.paths("tables")}
    data = tables.from_rows(comparison(read_registry(job.path("registry")), studied, job.settings), COMPARISON)
    path = job.path("csv")
    artifacts.write_table(tables.to_arrow(data, COMPARISON), path.with_suffix(".parquet"), job.origin)
    tables.write_csv(data, path)


if __name__ == "__main__":
    command(main)
