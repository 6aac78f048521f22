"""The runs of a grid: what each of them is, and its recipe, from `training`, `cells` and `runs` together.

Precedence: `runs` over `cells` over `training`. Errors name the key in the section that set the value.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.setting import settings_of
from smelt.spec import load
from smelt.study.sections.names import RUN
from smelt.study.sections.training import RunKeys
from smelt.training.settings import TrainingSettings, paper_branches, paper_decay
from smelt.user_files.names import suggestion

Config = Mapping[str, Any]
FORMS = {"cells": "SCALE-SPARSITY", "runs": RUN}  # of the names in a section


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one network is trained."""

    training: TrainingSettings
    save_interval: int  # steps between saves of its state; decides no bit of it


@dataclasses.dataclass(frozen=True)
class Run:
    """One network to train: architecture x cell x seed (x rate, in a tuning study)."""

    architecture: str
    scale: str
    sparsity: str
    seed: int
    rate: int | None  # number of the swept learning rate, from 1
    model: ModelSettings
    training: TrainingSettings
    save_interval: int  # steps between saves of its state
    trained: bool  # by the default targets

    @property
    def cell(self) -> str:
        """Its scale and sparsity, as the study file names them together."""
        return f"{self.scale}-{self.sparsity}"

    @property
    def name(self) -> str:
        """Its name in the study file, whatever its seed and rate."""
        return f"{self.architecture}-{self.cell}"

    @property
    def id(self) -> str:
        """Its name among all runs, and that of its folder."""
        seed = f"-seed{self.seed}" if self.seed else ""
        rate = f"-rate{self.rate}" if self.rate else ""
        return f"{self.name}{seed}{rate}"

    @property
    def contexts(self) -> dict[str, int]:
        """Contexts that it reads of each stream."""
        size = self.training.batch_contexts
        return {"stable": self.training.steps * size, "decay": self.training.decay_steps * size}


def recipe(config: Config, names: tuple[str, str, str], reference: str, seed: int, rate: float | None) -> Recipe:
    """The recipe of the run of an architecture, scale and sparsity.

    `rate` is the learning rate of a tuning study, which wins over those of the sections. Raises UserError where a
    section names no learning rate for the run, or the settings do not go together.
    """
    architecture, scale, sparsity = names
    layers = _layers(config, architecture, f"{scale}-{sparsity}")
    keys = _merged(layers, RunKeys)
    tuned_on = reference if keys["shared_learning_rate"] else architecture
    settings = _merged(layers, TrainingSettings)
    key = f"{_section(layers, 'learning_rate')}.learning_rate"
    settings["learning_rate"] = rate or _rate(settings["learning_rate"], key, tuned_on, scale)
    settings.setdefault("branch_steps", list(paper_branches(settings["steps"])))
    settings.setdefault("decay_steps", paper_decay(settings["steps"]))
    try:
        return Recipe(load(TrainingSettings, {**settings, "seed": seed}), keys["save_interval"])
    except UserError as error:
        raise UserError(f"training of {'-'.join(names)}: {error}") from None


def _merged(layers: Mapping[str, Mapping[str, Any]], cls: type) -> dict[str, Any]:
    """The settings of a dataclass that a run's sections hold, each as the first section that has it says."""
    return {
        name: next(part[name] for part in layers.values() if name in part)
        for name in settings_of(cls)
        if any(name in part for part in layers.values())
    }


def by_scale(config: Config, key: str) -> dict[str, list[Any]]:
    """The list of each scale from a key, as `tuning.learning_rates`, that holds one list for all or a list for each.

    Raises UserError where the mapping names no scale of the grid, or leaves one out.
    """
    value: Any = functools.reduce(lambda section, name: section[name], key.split("."), config)
    scales = config["grid"]["scales"]
    if not isinstance(value, dict):
        return dict.fromkeys(scales, value)
    _check_known(key, "scale", value, scales)
    if missing := [scale for scale in scales if not value.get(scale)]:
        raise UserError(f"{key}: no list for scale {missing[0]!r}; add it, or write one list for all scales")
    return value


def check_rates(config: Config) -> None:
    """Raise UserError on a mapping of learning rates that names what the grid does not have."""
    overrides = {f"{section}.{name}": part for section in FORMS for name, part in config[section].items()}
    for name, part in {"training": config["training"], **overrides}.items():
        key, rates = f"{name}.learning_rate", part.get("learning_rate")
        if not isinstance(rates, dict):
            continue
        _check_known(key, "architecture", rates, config["grid"]["architectures"])
        for architecture, by_scale in rates.items():
            if isinstance(by_scale, dict):
                _check_known(f"{key}.{architecture}", "scale", by_scale, config["grid"]["scales"])


def check_recipes(config: Config, runs: Sequence[Run]) -> None:
    """Raise UserError where `cells` or `runs` changes nothing, or the recipes of the grid's runs do not go together."""
    _check_overrides(config, runs)
    _check_branches(config, runs)
    for run in runs:
        _check_warmup(config, run)


def _layers(config: Config, architecture: str, cell: str) -> dict[str, Mapping[str, Any]]:
    """The sections that hold training settings of a run, by their name in the file; the first with a key decides."""
    run = f"{architecture}-{cell}"
    return {
        f"runs.{run}": config["runs"].get(run, {}),
        f"cells.{cell}": config["cells"].get(cell, {}),
        "training": config["training"],
    }


def _section(layers: Mapping[str, Mapping[str, Any]], *names: str) -> str:
    """The name of the section that decides any of some keys."""
    return next((name for name, section in layers.items() if set(names) & section.keys()), "training")


def _rate(rate: Any, key: str, architecture: str, scale: str) -> float:
    """The learning rate of an architecture at a scale, from one number or a mapping."""
    for kind, name in (("architecture", architecture), ("scale", scale)):
        if isinstance(rate, dict):
            if name not in rate:
                given = ", ".join(map(str, rate)) or "none"
                raise UserError(f"{key}: no rate for {kind} {name!r}; given are {given}; add it, or write one number")
            rate, key = rate[name], f"{key}.{name}"
    if isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
        raise UserError(f"{key}: {rate!r} is no number above 0; write one, with a point, as 1.0e-3")
    return float(rate)


def _check_known(key: str, kind: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            hint = suggestion(name, known, [other for other in known if other not in given])
            raise UserError(f"{key}: {name!r} is no {kind} of the grid; {hint}")


def _check_overrides(config: Config, runs: Sequence[Run]) -> None:
    """Raise UserError on an override that has no effect: a misspelt cell or run, or one that is not trained."""
    grid = config["grid"]
    cells = {f"{scale}-{label}": label for scale in grid["scales"] for label in grid["sparsities"]}
    every = {
        "cells": cells,
        "runs": {f"{name}-{cell}": label for name in grid["architectures"] for cell, label in cells.items()},
    }
    names = {"cells": [run.cell for run in runs if run.trained], "runs": [run.name for run in runs if run.trained]}
    for section, other in (("cells", "runs"), ("runs", "cells")):
        kind, trained = section[:-1], list(dict.fromkeys(names[section]))
        for name in config[section]:
            if name in every[other]:
                near = max(trained, key=lambda own: own.endswith(f"-{name}") or name.endswith(f"-{own}"))
                advice = f"put it under {other}, or name a {kind}, {FORMS[section]}, as {near}"
                raise UserError(f"{section}.{name}: this is a {other[:-1]}; {advice}")
            if name not in every[section]:
                hint = suggestion(name, trained)
                raise UserError(f"{section}.{name}: no such {kind}; a {kind} is {FORMS[section]}; {hint}")
            if name not in trained:
                raise UserError(f"{section}.{name}: {_untrained(grid, every[section][name])}")


def _untrained(grid: Config, sparsity: str) -> str:
    """Why an entry has no effect."""
    left_out = "grid.exclude leaves it out"
    why = left_out if grid["sparsities"][sparsity]["trained"] else f"grid.sparsities.{sparsity} says trained: false"
    return f"it is not trained ({why}), so that the entry changes nothing; take it out, or let it be trained"


def _check_branches(config: Config, runs: Sequence[Run]) -> None:
    """Raise UserError where runs branch off at different numbers of steps: endpoints are numbered alike in all."""
    counts = [len(run.training.branch_steps) for run in runs]
    usual = max(counts, key=counts.count)
    odd = next((run for run, count in zip(runs, counts, strict=True) if count != usual), None)
    if odd is None:
        return
    count, other = len(odd.training.branch_steps), runs[counts.index(usual)]
    layers = _layers(config, odd.architecture, odd.cell)
    named = any("branch_steps" in section for section in layers.values())
    key = "branch_steps" if named else "steps"
    advice = "more steps, or " if count < usual and not named else ""
    raise UserError(
        f"{_section(layers, key)}.{key}: {odd.id} has {count} branches and {other.id} has {usual}; all runs branch off "
        f"equally often: give {advice}branch_steps of {usual}"
    )


def _check_warmup(config: Config, run: Run) -> None:
    if run.training.warmup_steps >= run.training.steps:
        section = _section(_layers(config, run.architecture, run.cell), "warmup_steps", "steps")
        raise UserError(
            f"{section}.warmup_steps: {run.training.warmup_steps} with {run.training.steps} steps of the stable phase, "
            "so that the learning rate never reaches its peak; lower it, or raise steps"
        )
