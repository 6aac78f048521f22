"""Rows of an artifact as the figures use them: in groups, with labels in the order of what they stand for."""

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]


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
