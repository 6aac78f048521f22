"""Labels of what figures show, in the order of what they stand for, and words on what the numbers rest on."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from smelt import tables
from smelt.surfaces import SURFACES

Row = dict[str, Any]  # one row of a table, a missing value as None

SIMULATED = "simulated"  # prefix of `source` for endpoints that were not trained
RESAMPLED = {
    "cells": "draws of cells",
    "cells_by_scale": "draws of cells within each scale",
    "endpoints": "draws of single endpoints (too narrow: those of a run go together)",
}


@dataclasses.dataclass(frozen=True)
class About:
    """What every figure of the scaling stage says of its numbers."""

    study: str
    reference: str
    convention: str  # of S
    surface: str = "smelt"
    resample: str = "cells"
    draws: int = 0  # that the intervals use
    simulated: str = ""  # where the endpoints were not measured: what they are

    @property
    def parts(self) -> tuple[str, ...]:
        """The words of the footer that are the same in all figures of a study."""
        resampled = RESAMPLED.get(self.resample, f"draws of {self.resample}")
        bands = f"95 % intervals: {self.draws:,} {resampled}" if self.draws else "no intervals: too few usable draws"
        return (f"S convention: {self.convention}", f"surface: {self.surface} {SURFACES[self.surface].formula}", bands)


def about(
    study: str, reference: str, coefficients: pd.DataFrame, endpoints: pd.DataFrame, draws: int | None = None
) -> About:
    """What the figures of a study say of its tables; `draws` is by default the smallest of any architecture."""
    first = tables.rows(coefficients.head(1))[0]
    return About(
        study,
        reference,
        first["s_convention"],
        first["surface"],
        first["resample"],
        int(coefficients["draws"].min()) if draws is None else draws,
        simulation(endpoints),
    )


def simulation(endpoints: pd.DataFrame) -> str:
    """What to say above a figure whose endpoints were simulated; empty where all were measured."""
    sources = [source for source in endpoints["source"].dropna() if source.lower().startswith(SIMULATED)]
    if not sources:
        return ""
    said = ", ".join(sorted(set(sources)))
    if len(sources) < len(endpoints):
        return f"{len(sources)} of the {len(endpoints)} endpoints: {said}"
    return f"{said[0].upper()}{said[1:]}: no measured endpoint"


def by_architecture(coefficients: pd.DataFrame) -> dict[str, Row]:
    """The row of each architecture, of a table that has one for each."""
    return {row["architecture"]: row for row in tables.rows(coefficients)}


def groups(rows: pd.DataFrame, *names: str, sort: bool = False) -> list[tuple[Any, pd.DataFrame]]:
    """The rows of each value (one name) or tuple of values (several) of the named columns, missing ones too.

    Groups are in the order of their first rows, or of their values where `sort` is set.
    """
    return list(rows.groupby(list(names) if len(names) > 1 else names[0], sort=sort, dropna=False))


def ordered(rows: pd.DataFrame, name: str, by: str) -> list[str]:
    """The labels in column `name`, ordered by the mean of column `by`, equal ones by name."""
    means = rows.groupby(name)[by].mean()  # its labels are sorted
    return [str(label) for label in means.sort_values(kind="stable").index]


def reference_first(names: Iterable[str], reference: str) -> list[str]:
    """Each name once, the reference first, the others sorted."""
    return sorted(set(names), key=lambda name: (name != reference, name))


def counted(rows: pd.DataFrame, names: Sequence[str]) -> str:
    """How many endpoints of each architecture there are, in words."""
    parts = ", ".join(f"{name} {(rows['architecture'] == name).sum()}" for name in names)
    return f"{len(rows)} endpoints ({parts})"


def segments(rows: pd.DataFrame, by: str) -> list[tuple[str, pd.DataFrame]]:
    """A curve's rows, in order, cut where column `by` changes, with the value of each part.

    Each part but the first begins with the last row of the part before it, so that the parts join.
    """
    values = rows[by].to_numpy()
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()] if len(rows) else []
    parts = zip(starts, [*starts[1:], len(rows)], strict=False)
    return [(str(values[start]), rows.iloc[max(start - 1, 0) : end]) for start, end in parts]
