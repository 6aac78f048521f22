"""The table of sources: which files of which pinned package are text, and how they fall into documents.

One row is one source. Tab-separated, with the columns of `Source`; the same package may serve several
sources. Nothing here touches the network or an archive.
"""

import csv
import dataclasses
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from smelt.errors import UserError


@dataclasses.dataclass(frozen=True)
class Source:
    """One row of the table. `glob` joins patterns with `;`, an excluded one begins with `!`."""

    source: str
    category: str
    package: str
    version: str
    file: str
    sha256: str
    glob: str
    rule: str
    licence: str


COLUMNS = [field.name for field in dataclasses.fields(Source)]
FORMS = {
    "source": (re.compile(r"[a-z][a-z0-9_]*"), "small letters, digits and _"),
    "package": (re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), "a package's name"),
    "version": (re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*"), "an exact version"),
    "file": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*-none-any\.whl"),
        "the name of a pure-Python wheel, *-none-any.whl",
    ),
    "sha256": (re.compile(r"[0-9a-f]{64}"), "64 hexadecimal digits"),
}


def read_sources(path: str | Path, select: Sequence[str] = ()) -> list[Source]:
    """The rows of the table at `path`, in its order; with `select`, only those named.

    Raises UserError that names the row and column of a mistake.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = list(reader)
    except FileNotFoundError:
        raise UserError(f"corpus.sources: no file {path}; give a path from the workflow's folder") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UserError(f"{path}: column {missing[0]!r} is missing; expected {', '.join(COLUMNS)}, tab-separated")
    sources = [_source(f"{path}, line {line}", row) for line, row in enumerate(rows, start=2)]
    names = [source.source for source in sources]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise UserError(f"{path}: source {repeated!r} stands in two rows; give each its own name")
    _check_packages(path, sources)
    return _selected(path, sources, select)


def _source(place: str, row: dict[str, str | None]) -> Source:
    values = {name: (row[name] or "").strip() for name in COLUMNS}
    for name, value in values.items():
        if not value:
            raise UserError(f"{place}: {name!r} is empty")
    for name, (form, wanted) in FORMS.items():
        if not form.fullmatch(values[name]):
            raise UserError(f"{place}: {name} is {values[name]!r}, expected {wanted}")
    return Source(**values)


def _check_packages(path: str | Path, sources: Collection[Source]) -> None:
    """One file has one hash, and one package one version, as pip takes no two of one name."""
    pins: dict[str, tuple[str, str, str]] = {}
    for source in sources:
        pin = (source.version, source.file, source.sha256)
        if pins.setdefault(source.package, pin) != pin:
            raise UserError(
                f"{path}: package {source.package!r} of source {source.source!r} has another version, file or"
                " sha256 in another row; one study takes one release of a package"
            )


def _selected(path: str | Path, sources: list[Source], select: Sequence[str]) -> list[Source]:
    known = {source.source for source in sources}
    unknown = [name for name in select if name not in known]
    if unknown:
        raise UserError(f"corpus.select: no source {unknown[0]!r} in {path}; known are {', '.join(sorted(known))}")
    chosen = [source for source in sources if not select or source.source in select]
    if not chosen:
        raise UserError(f"{path}: the table has no row; a study needs at least one source")
    return chosen
