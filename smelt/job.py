"""A job of the workflow as a command: its settings, the files that it reads and writes, and their provenance.

Every rule calls `python -m smelt.<stage>.<module> --spec JSON --<input> FILE ... --<output> FILE ...`. `read_job` turns
that line into a `Job`; a stage declares only the names of its files:

    def main(argv: Sequence[str]) -> None:
        job = read_job("smelt.scaling.endpoints.collect", __doc__, argv, Settings, ["losses*"], ["out"])
        job.write("out", collect(job.settings, job.paths("losses")))
"""

import argparse
import dataclasses
import functools
import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from smelt import artifacts
from smelt.spec import load

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Job(Generic[T]):
    """One call of a stage's command."""

    module: str  # dotted name, as in provenance
    settings: T
    spec: Any  # the settings as plain values, as the rule gave them
    files: Mapping[str, tuple[Path, ...]]  # by the name of an input or output
    inputs: tuple[str, ...]  # names of `files` that are read
    options: Any = None  # what the line says beside spec and files, as the dataclass that `read_job` was asked for

    def path(self, name: str) -> Path:
        """The one file of an input or output."""
        (path,) = self.files[name]
        return path

    def paths(self, name: str) -> tuple[Path, ...]:
        """All files of an input or output, in the order of the rule."""
        return self.files[name]

    @functools.cached_property
    def origin(self) -> dict[str, Any]:
        """Provenance of all that the job writes: its spec, its code and the digest of each file that it reads."""
        return artifacts.provenance(self.module, self.spec, [path for name in self.inputs for path in self.files[name]])

    def write(self, name: str, data: "pa.Table") -> None:
        """Write an output as Parquet with the job's provenance."""
        artifacts.write_table(data, self.path(name), self.origin)


def read_job(
    module: str,
    description: str | None,
    argv: Sequence[str],
    settings: type[T],
    reads: Sequence[str],
    writes: Sequence[str],
    options: type[Any] | None = None,
) -> Job[T]:
    """The job that a command line asks for.

    `settings` is the dataclass of the job's spec. `reads` and `writes` are the names of its files, each an option of
    the same name; a name that ends in `*` takes any number of files, one that ends in `?` one file or none.
    `options` is a dataclass of what else the line may say, such as a folder or a number of processes: one option a
    field, required where the field has no default, the field's metadata (`help`, `choices`) passed on to argparse.
    Options enter no provenance: what decides an output belongs in the spec.
    Raises UserError where the spec does not fit `settings`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--spec", default="{}", help=f"settings as JSON; see {settings.__name__} in {module}")
    for name in (*reads, *writes):
        many, optional = name.endswith("*"), name.endswith("?")
        parser.add_argument(
            f"--{_bare(name).replace('_', '-')}",
            nargs="*" if many or optional else 1,
            type=Path,
            required=not optional,
            default=[],
            metavar="FILE",
            help=f"{'read' if name in reads else 'written'}{'; any number' if many else ''}",
        )
    fields = _add_options(parser, options)
    arguments = vars(parser.parse_args(argv))
    spec = json.loads(arguments["spec"])
    files = {_bare(name): tuple(arguments[_bare(name)]) for name in (*reads, *writes)}
    values = options(**{name: arguments[name] for name in fields}) if options else None
    return Job(module, load(settings, spec), spec, files, tuple(_bare(name) for name in reads), values)


def _add_options(parser: argparse.ArgumentParser, options: type[Any] | None) -> list[str]:
    """Add an option for each field of the dataclass `options`; returns the names of the fields."""
    if options is None:
        return []
    hints, fields = typing.get_type_hints(options), dataclasses.fields(options)
    for field in fields:
        (kind, *_) = typing.get_args(hints[field.name]) or (hints[field.name],)  # of `Path | None`, Path
        required = field.default is dataclasses.MISSING
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            required=required,
            default=None if required else field.default,
            **field.metadata,
        )
    return [field.name for field in fields]


def _bare(name: str) -> str:
    return name.rstrip("*?")
