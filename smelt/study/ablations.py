"""The `sweeps` of a study: which runs of its grid make the points of each ablation.

Only the study and `smelt.workflow.specs` use it. A sweep has lines; a line names its architectures and the one that
they are compared with, and is drawn in every cell in which that one is trained.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

Trained = Mapping[tuple[str, str, str], ModelSettings]  # by (architecture, scale, sparsity)


def check(config: Mapping[str, Any], trained: Trained) -> None:
    """Raise UserError where a sweep names what the grid does not have."""
    if not config["ablations"]:
        return
    if config["tuning"]["learning_rates"]:
        raise UserError("ablations: a study that tunes the learning rate has no sweeps; take one of the two out")
    for name, sweep in config["ablations"].items():
        _known(f"ablations.{name}.sparsities", sweep["sparsities"], config["grid"]["sparsities"])
        for line, entry in sweep["lines"].items():
            where = f"ablations.{name}.lines.{line}"
            _known(f"{where}.architectures", entry["architectures"], config["grid"]["architectures"])
            reference = _reference(entry)
            _known(f"{where}.reference", [reference], entry["architectures"])
            cells = list(_cells(sweep, reference, trained))
            if not cells:
                raise UserError(
                    f"{where}: its reference {reference!r} is trained in no cell of the sweep; train it there"
                )
            for cell in cells:
                _apart(where, sweep["axis"], list(_line(line, entry, cell, trained)))


def points(config: Mapping[str, Any], trained: Trained) -> dict[str, list[dict[str, Any]]]:
    """The points of each sweep: line by line, cell by cell, in the order of the study file."""
    return {
        name: [
            point
            for line, entry in sweep["lines"].items()
            for cell in _cells(sweep, _reference(entry), trained)
            for point in _line(line, entry, cell, trained)
        ]
        for name, sweep in config["ablations"].items()
    }


def _reference(entry: Mapping[str, Any]) -> str:
    return str(entry["reference"] or entry["architectures"][0])


def _cells(sweep: Mapping[str, Any], reference: str, trained: Trained) -> Iterator[tuple[str, str]]:
    for architecture, scale, sparsity in trained:
        if architecture == reference and sparsity in (sweep["sparsities"] or [sparsity]):
            yield scale, sparsity


def _line(line: str, entry: Mapping[str, Any], cell: tuple[str, str], trained: Trained) -> Iterator[dict[str, Any]]:
    """A point for each architecture; one that is not trained in the cell says nothing of its plan."""
    scale, sparsity = cell
    about = {"line": line, "reference": _reference(entry), "scale": scale, "sparsity": sparsity}
    for architecture in entry["architectures"]:
        model = trained.get((architecture, scale, sparsity))
        yield {**about, "architecture": architecture, **(_plan(model) if model else {})}


def _plan(model: ModelSettings) -> dict[str, int]:
    return {
        "layers": model.layers,
        "looped": model.loop_length if model.visits > 1 else 0,
        "executed_layers": len(plan(model)),
        "visits": model.visits if model.loop_length else 1,
    }


def _known(where: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{where}: no {name!r}; known are {', '.join(known)}")


def _apart(where: str, axis: str, line: list[dict[str, Any]]) -> None:
    """A curve needs its points at different places of its axis."""
    seen: dict[float, str] = {}
    for point in line:
        if "layers" not in point:
            continue
        place = point["looped"] / point["layers"] if axis == "span_pct" else point[axis]
        twin = seen.setdefault(place, point["architecture"])
        if twin != point["architecture"]:
            raise UserError(
                f"{where}: {twin} and {point['architecture']} have the same {axis}; choose another axis or another line"
            )
