"""Search wider than a study does as it is read: each cell's closest matched model and its Pareto set, as JSON and CSV.

The JSON's `geometry` is what a study takes as `grid.geometry`. One problem is a reference and its loop:

  attention_keys: 392
  tolerance: {flops: 0.01, params: 0.002, kv: 0.005}
  lattice: {multiple: 8, shape: 1.25}
  problems:
    smelt-200M-S95:
      {layers: 12, hidden_size: 1280, heads: 20, kv_heads: 4, head_size: 64, experts: 192, expert_width: 432,
       loop_start: 3, loop_length: 6, visits: 2}

  python -m smelt.budgets.search --spec JSON|FILE.yaml --json FILE --csv FILE
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from smelt import tables
from smelt.artifacts import replacing
from smelt.budgets.lattice import Lattice
from smelt.budgets.match import Match, Problem, Tolerance
from smelt.budgets.matching import coarsest, frontier
from smelt.errors import UserError, command
from smelt.model.settings import ModelSettings
from smelt.spec import load

GEOMETRY = ("hidden_size", "heads", "kv_heads", "head_size", "experts", "expert_width", "shared_width")
LOOP = ("loop_start", "loop_length", "visits")
RATIOS = ("flops_ratio", "params_ratio", "kv_ratio")
COLUMNS = ("run", "choice", *GEOMETRY, "multiple", *RATIOS)


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The problems by the name of the run that each gives, and what counts as an answer."""

    attention_keys: float
    problems: dict[str, dict[str, Any]]  # geometry of the reference, and loop_start, loop_length, visits
    tolerance: dict[str, float] = dataclasses.field(default_factory=dict)  # as `Tolerance`
    lattice: dict[str, Any] = dataclasses.field(default_factory=dict)  # as `Lattice`


def search(settings: SearchSettings) -> dict[str, list[Match]]:
    """The answers of each problem: the closest matched model first, then the Pareto set of its lattice."""
    tolerance, lattice = load(Tolerance, settings.tolerance), load(Lattice, settings.lattice)
    answers = {}
    for name, problem in settings.problems.items():
        try:
            reference, loop = _problem(problem)
            request = Problem(reference, *loop, settings.attention_keys, tolerance, lattice)
            chosen = coarsest(request)
            coarse = dataclasses.replace(lattice, multiple=chosen.multiple)
            answers[name] = [chosen, *frontier(dataclasses.replace(request, lattice=coarse))]
        except UserError as error:
            raise UserError(f"problems.{name}: {error}") from None
    return answers


def _problem(problem: dict[str, Any]) -> tuple[ModelSettings, tuple[int, int, int]]:
    if missing := [key for key in LOOP if key not in problem]:
        raise UserError(f"{missing[0]!r} is missing; a problem needs {', '.join(LOOP)}")
    shape = {key: value for key, value in problem.items() if key not in LOOP}
    start, length, visits = (problem[key] for key in LOOP)
    return load(ModelSettings, {"vocabulary": 1, **shape}), (start, length, visits)  # no budget holds the vocabulary


def geometry(match: Match) -> dict[str, int]:
    """The sizes that a study fixes (grid.geometry)."""
    return {key: value for key in GEOMETRY if (value := getattr(match.model, key)) or key != "shared_width"}


def _row(run: str, choice: str, match: Match) -> list[Any]:
    sizes = [getattr(match.model, key) for key in GEOMETRY]
    return [run, choice, *sizes, match.multiple, *(getattr(match, key) for key in RATIOS)]


def write(answers: dict[str, list[Match]], json_file: Path, csv_file: Path) -> None:
    """The choice and the Pareto set of each problem."""
    content = {
        "geometry": {run: geometry(matches[0]) for run, matches in answers.items()},
        "ratios": {run: {key: getattr(matches[0], key) for key in RATIOS} for run, matches in answers.items()},
        "pareto": {
            run: [{**geometry(match), **{key: getattr(match, key) for key in RATIOS}} for match in matches[1:]]
            for run, matches in answers.items()
        },
    }
    with replacing(json_file) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    matches = [(run, number, match) for run, answer in answers.items() for number, match in enumerate(answer)]
    rows = [_row(run, "pareto" if number else "closest", match) for run, number, match in matches]
    tables.write_csv(pd.DataFrame(rows, columns=list(COLUMNS)), csv_file)


def read_spec(spec: str) -> SearchSettings:
    """Settings from JSON, or from a YAML or JSON file."""
    text = spec
    if not spec.lstrip().startswith("{"):
        try:
            text = Path(spec).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--spec {spec}: not readable ({error}); give a YAML file or JSON") from None
    try:
        values = json.loads(text) if text is spec else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"--spec: not readable YAML or JSON: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError("--spec: expected a mapping with attention_keys and problems")
    settings = load(SearchSettings, values)
    _check(settings)
    return settings


def _check(settings: SearchSettings) -> None:
    """Raise UserError where a value is of the wrong kind: YAML reads 1e-3 as text."""
    mappings: dict[str, Any] = {name: getattr(settings, name) for name in ("tolerance", "lattice", "problems")}
    if isinstance(settings.problems, dict):
        mappings |= {f"problems.{name}": problem for name, problem in settings.problems.items()}
    for name, mapping in mappings.items():
        if not isinstance(mapping, dict):
            raise UserError(f"{name}: {mapping!r} is no mapping")
    numbers = {"attention_keys": settings.attention_keys}
    numbers |= {f"{name}.{key}": value for name in ("tolerance", "lattice") for key, value in mappings[name].items()}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{name}: {value!r} is no number; with an exponent one has a point, as 1.0e-3")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True, help="settings as JSON, or a file")
    parser.add_argument("--json", type=Path, required=True, help="output")
    parser.add_argument("--csv", type=Path, required=True, help="output")
    arguments = parser.parse_args(argv)
    write(search(read_spec(arguments.spec)), arguments.json, arguments.csv)


if __name__ == "__main__":
    command(main)
