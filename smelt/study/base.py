"""The common part of all kinds of studies: a validated file, a name, a results root, and settings by section."""

import abc
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from smelt.spec import load

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Study(abc.ABC):
    """A validated study; `config` is complete, with all defaults."""

    path: Path
    config: dict[str, Any]
    kind: ClassVar[str]  # where its endpoints come from: grid, endpoints or simulation, the key that says so

    def settings(self, cls: type[T], *sections: str, **others: Any) -> T:
        """Settings of a stage: those of its fields that are keys of some sections of the study, and `others`."""
        keys = {key: value for name in sections for key, value in self.config[name].items()}
        fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return load(cls, {**{key: value for key, value in keys.items() if key in fields}, **others})

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def root(self) -> str:
        """The results root, relative to the working directory."""
        return "results" if self.name == "desk" else f"results/{self.name}"

    def beside(self, name: str) -> str:
        """Path of a file that the study names: relative if it lies in the working directory, so that a moved clone
        reruns nothing."""
        path = (self.path.parent / name).resolve()
        return os.fspath(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    @property
    def scores(self) -> str:
        """The file of downstream scores; empty where the study has none."""
        return self.beside(self.config["scores"]) if "scores" in self.config else ""

    @property
    @abc.abstractmethod
    def reference(self) -> str:
        """The architecture that the others are compared with."""

    @property
    @abc.abstractmethod
    def sparsity_values(self) -> Mapping[str, float]:
        """S at which the frontiers are compared, by label."""

    @property
    def s_convention(self) -> str:
        """The convention of S, as every gain states it."""
        return str(self.config["scaling"]["s_convention"])

    @abc.abstractmethod
    def check(self) -> None:
        """Raise UserError on a mistake that the schema cannot see."""
