"""Rows of an artifact as the figures use them: in groups, with labels in the order of what they stand for."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

SIMULATED = "simulated"  # how the source of an endpoint begins that no run has measured
RESAMPLED = {
    "cells": "draws of cells",
    "cells_by_scale": "draws of cells within each scale",
    "endpoints": "draws of single endpoints (too narrow: those of a run go together)",
}
FORMULAS = {
    "smelt": "E + A(1−S)ᵇ/Fᵃ + K/Dᶜ",
    "chinchilla": "E + A/Fᵃ + K/Dᶜ",
    "looped_depth": "E + A/(N_once + r^φ N_rec)ᵃ + K/Dᶜ",
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
        formula = f" {FORMULAS[self.surface]}" if self.surface in FORMULAS else ""
        resampled = RESAMPLED.get(self.resample, f"draws of {self.resample}")
        bands = f"95 % intervals: {self.draws:,} {resampled}" if self.draws else "no intervals: too few usable draws"
        return (f"S convention: {self.convention}", f"surface: {self.surface}{formula}", bands)


def about(
    settings: Mapping[str, Any], coefficients: Mapping[str, Row], endpoints: Sequence[Row], draws: int | None = None
) -> About:
    """Read off the artifacts what the figures say of them; `draws` by default the least of any architecture."""
    first = next(iter(coefficients.values()))
    return About(
        settings["study"],
        settings["reference"],
        first["s_convention"],
        first.get("surface") or About.surface,
        first.get("resample") or About.resample,
        min(row["draws"] for row in coefficients.values()) if draws is None else draws,
        simulation(endpoints),
    )


def simulation(endpoints: Sequence[Row]) -> str:
    """What to say above a figure whose endpoints were simulated; empty where all were measured."""
    sources = [row["source"] for row in endpoints if (row.get("source") or "").lower().startswith(SIMULATED)]
    if not sources:
        return ""
    said = ", ".join(sorted(set(sources)))
    if len(sources) < len(endpoints):
        return f"{len(sources)} of the {len(endpoints)} endpoints: {said}"
    return f"{said[0].upper()}{said[1:]}: no measured endpoint"


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Rows by the value (one name) or the tuple of values (several) of the named columns."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        value = tuple(row[name] for name in names)
        groups.setdefault(value[0] if len(names) == 1 else value, []).append(row)
    return groups


def ordered(rows: Sequence[Row], name: str, by: str) -> list[str]:
    """The labels in column `name`, ordered by the mean of column `by`."""
    means = {label: sum(row[by] for row in group) / len(group) for label, group in grouped(rows, name).items()}
    return sorted(means, key=lambda label: (means[label], label))


def architectures(rows: Iterable[Row], reference: str) -> list[str]:
    """The architectures of some rows, the reference first."""
    return reference_first((row["architecture"] for row in rows), reference)


def reference_first(names: Iterable[str], reference: str) -> list[str]:
    """Each name once, the reference first."""
    return sorted(set(names), key=lambda name: (name != reference, name))


def counted(rows: Sequence[Row], names: Sequence[str]) -> str:
    """How many endpoints of each architecture there are, in words."""
    groups = grouped(rows, "architecture")
    parts = ", ".join(f"{name} {len(groups.get(name, []))}" for name in names)
    return f"{len(rows)} endpoints ({parts})"


def segments(rows: Sequence[Row], by: str) -> list[tuple[str, list[Row]]]:
    """A curve's rows, in order, cut where column `by` changes; each part begins where the one before it ends."""
    parts: list[tuple[str, list[Row]]] = []
    for row in rows:
        if parts and parts[-1][0] == row[by]:
            parts[-1][1].append(row)
        else:
            parts.append((row[by], [parts[-1][1][-1], row] if parts else [row]))
    return parts
