"""A job's own settings and the identity of the code that runs it.

A rule hands each job one canonical JSON string (`spec`), and Snakemake reruns the job when that
string changes; `fingerprint` does the same for the code. A stage declares its settings as a frozen
dataclass beside the code that uses them and reads them with `load`, so that a new key of the study
changes neither the spec nor the fingerprint of a job that does not use it.
"""

import ast
import dataclasses
import functools
import hashlib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from smelt.errors import UserError

T = TypeVar("T")
PACKAGE = Path(__file__).parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # statements that hold a docstring


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no blanks, plain values only (arrays and objects raise TypeError)."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def digest(text: str | bytes) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def load(cls: type[T], text: str | dict[str, Any]) -> T:
    """Build the settings dataclass `cls` from a job's JSON; nested dataclasses too, and lists become tuples.

    Raises UserError on an unknown or a missing key.
    """
    values = json.loads(text) if isinstance(text, str) else text
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - fields.keys())
    if unknown:
        raise UserError(f"{cls.__name__}: unknown setting {unknown[0]!r}; known are {', '.join(fields)}")
    missing = [
        name
        for name, field in fields.items()
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UserError(f"{cls.__name__}: setting {missing[0]!r} is missing")
    hints = typing.get_type_hints(cls)
    return cls(**{name: _loaded(hints[name], value) for name, value in values.items()})


def _loaded(hint: Any, value: Any) -> Any:
    """A plain value as its field's type has it: nested dataclasses are built, lists become tuples."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        hint = next((part for part in parts if part is not type(None)), Any)
        return None if value is None else _loaded(hint, value)
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return load(typing.cast(type[Any], hint), dict(value))
    if isinstance(value, list):
        part = parts[0] if origin is tuple and parts[1:] == (Ellipsis,) else Any
        return tuple(_loaded(part, item) for item in value)
    if isinstance(value, Mapping) and len(parts) == 2:
        return {key: _loaded(parts[1], item) for key, item in value.items()}
    return value


def plain(settings: Any) -> dict[str, Any]:
    """A settings dataclass as plain values, those equal to their default left out: the inverse of `load`.

    Nested dataclasses become dictionaries, tuples become lists. A default left out keeps a spec as it is when a
    setting is added; where a default changes, the code changes with it, and so does its fingerprint.
    """
    return {
        field.name: _plain(value)
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) != _default(field)
    }


def _default(field: "dataclasses.Field[Any]") -> Any:
    """The default of a field; MISSING, which equals nothing, where it has none."""
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


@functools.cache
def fingerprint(module: str) -> str:
    """Digest of the code that `module` can reach inside the package, comments and docstrings left out.

    `module` is a dotted name such as "smelt.training.train". Editing any module of its import closure,
    parent packages included, changes the digest; reformatting one, rewording a setting or moving its bounds, or
    editing another module, does not.
    """
    if not _source(module).is_file():
        raise ValueError(f"no module {module}")
    return digest("\n".join(f"{name}\n{_parsed(name).code}" for name in sorted(_closure(module))))[:16]


def _source(module: str) -> Path:
    relative = Path(*module.split(".")[1:])
    file = PACKAGE / relative.with_suffix(".py") if relative.parts else PACKAGE / "__init__.py"
    return file if file.is_file() else PACKAGE / relative / "__init__.py"


@dataclasses.dataclass(frozen=True)
class _Module:
    """What a fingerprint needs of a module: parsed once, although most fingerprints reach the same modules."""

    code: str  # without comments and docstrings
    imports: tuple[str, ...]  # modules of this package that it imports, at any depth, and its parent package


@functools.cache
def _parsed(module: str) -> _Module:
    tree = ast.parse(_source(module).read_text(encoding="utf-8"))
    # Importing a module runs its parent packages first.
    names = [module.rpartition(".")[0]] if "." in module else []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.split(".")[0] == "smelt"]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "smelt":
            names += [str(node.module)] + [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            _keep_default(node.value)
    return _Module(ast.unparse(tree), tuple(name for name in dict.fromkeys(names) if _source(name).is_file()))


def _keep_default(call: ast.Call) -> None:
    """Of a field's `setting(meaning, default, bounds ...)` keep the default, which is all that a job uses."""
    if isinstance(call.func, ast.Name) and call.func.id == "setting":
        call.args, call.keywords = call.args[1:], []


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all statements inside; expressions, which hold neither import nor docstring, are left out."""
    yield node
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, field, ()):
            yield from _statements(child)


def _closure(module: str) -> set[str]:
    """The modules that `module` can reach inside the package, itself included."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _parsed(name).imports
    # The package's own version is no code: a release must not rerun anything.
    return seen - {"smelt"}
