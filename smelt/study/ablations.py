"""The `ablations` of a study: which runs of its grid make the points of each.

An ablation has lines. A line names its architectures and the reference that they are compared with, and is drawn in
every cell in which the reference is trained.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings
from smelt.scaling.ablations.settings import Point

Trained = Mapping[tuple[str, str, str], ModelSettings]  # by (architecture, scale, sparsity)


def check(config: Mapping[str, Any], trained: Trained) -> None:
    """Raise UserError where an ablation names what the grid does not have."""
    if not config["ablations"]:
        return
    if config["tuning"]["learning_rates"]:
        raise UserError("ablations: a study that tunes the learning rate has no ablations; take one of the two out")
    for name, ablation in config["ablations"].items():
        _known(f"ablations.{name}.sparsities", ablation["sparsities"], config["grid"]["sparsities"])
        for line, entry in ablation["lines"].items():
            where = f"ablations.{name}.lines.{line}"
            _known(f"{where}.architectures", entry["architectures"], config["grid"]["architectures"])
            reference = _reference(entry)
            _known(f"{where}.reference", [reference], entry["architectures"])
            cells = list(_cells(ablation, reference, trained))
            if not cells:
                raise UserError(
                    f"{where}: its reference {reference!r} is trained in no cell of the ablation; train it there"
                )
            for cell in cells:
                _apart(where, ablation["axis"], list(_line(line, entry, cell, trained)))


def points(config: Mapping[str, Any], trained: Trained) -> dict[str, tuple[Point, ...]]:
    """The points of each ablation: line by line, cell by cell, in the order of the study file."""
    return {
        name: tuple(
            point
            for line, entry in ablation["lines"].items()
            for cell in _cells(ablation, _reference(entry), trained)
            for point in _line(line, entry, cell, trained)
        )
        for name, ablation in config["ablations"].items()
    }


def _reference(entry: Mapping[str, Any]) -> str:
    return str(entry["reference"] or entry["architectures"][0])


def _cells(ablation: Mapping[str, Any], reference: str, trained: Trained) -> Iterator[tuple[str, str]]:
    for architecture, scale, sparsity in trained:
        if architecture == reference and sparsity in (ablation["sparsities"] or [sparsity]):
            yield scale, sparsity


def _line(line: str, entry: Mapping[str, Any], cell: tuple[str, str], trained: Trained) -> Iterator[Point]:
    """One point per architecture of the line. Architectures not trained in this cell keep empty plan columns."""
    for architecture in entry["architectures"]:
        point = Point(line, _reference(entry), architecture, *cell)
        model = trained.get((architecture, *cell))
        yield _planned(point, model) if model else point


def _planned(point: Point, model: ModelSettings) -> Point:
    return dataclasses.replace(
        point,
        layers=model.layers,
        looped=model.loop_length if model.visits > 1 else 0,
        executed_layers=len(plan(model)),
        visits=model.visits if model.loop_length else 1,
    )


def _known(where: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{where}: no {name!r}; known are {', '.join(known)}")


def _apart(where: str, axis: str, line: list[Point]) -> None:
    """Raise UserError where two architectures of a curve have the same value on its axis."""
    seen: dict[float, str] = {}
    for point in line:
        if point.layers is None or point.looped is None:
            continue
        value = point.looped / point.layers if axis == "span_pct" else getattr(point, axis)
        first = seen.setdefault(value, point.architecture)
        if first != point.architecture:
            raise UserError(
                f"{where}: {first} and {point.architecture} have the same {axis}; choose another axis or another line"
            )
