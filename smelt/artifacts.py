"""Read and write the pipeline's files: Parquet with a declared schema and its provenance, CSV for people.

An artifact's provenance names the spec, the fingerprint of the code, the package's version and the
digest of each input, so that a number can be traced back to what it came from. It holds no time, host
or absolute path: the same inputs give the same bytes. Every write goes to a temporary name and is
renamed, so that a reader never sees half a file.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from smelt import __version__
from smelt.errors import UserError
from smelt.spec import canonical_json, fingerprint

KEY = b"smelt"  # of the provenance in the Parquet schema's metadata


def field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    """A column with its meaning and unit, kept in the file's schema. Columns are nullable: a missing
    value stands beside its reason."""
    return pa.field(name, kind, metadata={"description": description})


def provenance(module: str, spec: Any, inputs: Iterable[str | Path] = ()) -> dict[str, Any]:
    """What an artifact came from.

    `module` is the dotted name of the module whose command wrote it, `spec` its settings as plain
    values, `inputs` the files that it read (digested here; a relative path is kept as its name, of an
    absolute one only the last part).
    """
    return {
        "package": __version__,
        "module": module,
        "code": fingerprint(module),
        "spec": spec,
        "inputs": {_name(path): file_digest(path) for path in inputs},
    }


def _name(path: str | Path) -> str:
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()


def file_digest(path: str | Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` on success, remove it on failure."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")  # one name, so that the next try clears what a kill left
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows (mappings) as a table with exactly the columns of `schema`."""
    for row in rows:
        if row.keys() != set(schema.names):
            difference = sorted(row.keys() ^ set(schema.names))
            raise ValueError(f"row does not fit the schema: {difference}")
    return pa.Table.from_pylist(list(rows), schema=schema)


def write_table(data: pa.Table, path: str | Path, origin: Mapping[str, Any], row_group_size: int | None = None) -> None:
    """Write `data` as Parquet with `origin` (see `provenance`) in its schema's metadata."""
    described = data.replace_schema_metadata({KEY: canonical_json(origin)})
    with replacing(path) as temporary:
        pq.write_table(described, temporary, compression="zstd", row_group_size=row_group_size)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet artifact. Raises UserError where it is missing or not Parquet."""
    with _readable(path):
        return pq.read_table(path, columns=list(columns) if columns is not None else None)


@contextlib.contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from None


def read_provenance(path: str | Path) -> dict[str, Any]:
    """What the artifact at `path` came from, as `provenance` returned it."""
    with _readable(path):
        metadata = pq.read_schema(path).metadata or {}
    if KEY not in metadata:
        raise UserError(f"{path}: carries no provenance, so it was not written by this pipeline")
    return json.loads(metadata[KEY])
