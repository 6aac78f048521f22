"""The specs of jobs as functions of wildcards, which is how a rule asks for them."""

import sys
import typing
from collections.abc import Callable
from typing import Any

from smelt.errors import UserError
from smelt.spec import canonical_json, plain
from smelt.study.base import Study
from smelt.study.grid import GridStudy, Run
from smelt.workflow import specs
from smelt.workflow.paths import training_study


class Specs:
    """Functions of wildcards for the rules: canonical JSON of a job's settings, computed when a job is made.

    A mistake in the study that shows only then ends Snakemake with one line.
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    def of(self, settings: Callable[[Any], object]) -> Callable[[Any], str]:
        """The spec of a job that serves the whole study; `settings` is a function of `smelt.workflow.specs`."""
        return lambda wildcards: self._json(lambda: settings(self._checked(settings)))

    def of_run(self, settings: Callable[[Any, Run], object]) -> Callable[[Any], str]:
        """The spec of a job of the run that the wildcard `run` names."""
        return lambda wildcards: self._json(lambda: settings(self.study, self._run(wildcards)))

    def of_branch(self, wildcards: Any) -> str:
        """The spec of the decay that the wildcards `run` and `branch` name."""
        return self._json(lambda: specs.decay(self._grid(), self._run(wildcards), int(wildcards.branch)))

    def of_requests(self, wildcards: Any) -> str:
        """The spec of the requests of the evaluation set that the wildcard `part` names."""
        return self._json(lambda: specs.requests(self._grid(), wildcards.part))

    def _json(self, settings: Callable[[], object]) -> str:
        try:
            return canonical_json(plain(settings()))
        except UserError as error:
            sys.exit(f"error: {self.study.path}: {error}")

    def _checked(self, settings: Callable[..., Any]) -> Study:
        """The study, which must train where the settings are those of a grid."""
        needed = typing.get_type_hints(settings)["study"]
        return self._grid() if needed is GridStudy else self.study

    def _grid(self) -> GridStudy:
        return training_study(self.study)

    def _run(self, wildcards: Any) -> Run:
        return self._grid().runs[wildcards.run]
