"""Items of a task: DCLM's JSONL files, read strictly, and the nested subsets of the presets. Needs no torch.

A broken row is an error, never a wrong answer: an item that is left out or scored as zero would change a published
number in silence.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.evaluation.tasks.registry import Task
from smelt.spec import canonical_json, digest

NAMED = 6  # fields of a row that a message names


class Item(NamedTuple):
    """One row of a task's file."""

    index: int  # type: ignore[assignment]  # row in the file, from 0
    id: str  # 16 hexadecimal digits of its content's sha256: rows of the same content share it
    query: str  # context of multiple choice and language modelling; empty for schema
    choices: tuple[str, ...]  # multiple choice: the choices; schema: the contexts; language modelling: the answer
    continuation: str  # schema: what follows each context; else empty
    gold: int  # index of the right choice
    category: str  # of a partitioned task; else empty


def find_file(folder: str | Path, task: Task) -> Path | None:
    """The task's file in `folder`, by its path or by its name alone, compressed or not; None where there is none."""
    return find_named(folder, task.file)


def find_named(folder: str | Path, file: str) -> Path | None:
    """`find_file` of a path as `Task.file` and `Task.demonstrations` give it. Raises UserError on a closed folder."""
    names = (file, Path(file).name)
    places = [Path(folder) / f"{name}{ending}" for name in names for ending in ("", ".gz")]
    try:
        return next((place for place in places if place.is_file()), None)
    except OSError as error:
        raise UserError(f"{folder}: cannot be searched for {file} ({error.strerror}); mend its permissions") from None


def read_items(path: str | Path, task: Task) -> list[Item]:
    """All items of the file at `path`, `.jsonl` or `.jsonl.gz`, in its order.

    Raises UserError that names the file and the row of a mistake, or the digest where the file is not the task's.
    """
    data = _bytes(Path(path), task)
    found = digest(data)
    if task.sha256 and found != task.sha256:
        raise UserError(
            f"{path}: not {task.name}'s full file: its sha256 is {found}, expected {task.sha256};"
            f" fetch it again ({task.source})"
        )
    # Split on this byte alone: U+2028 and its like stand inside strings, and `splitlines` would cut there.
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise UserError(f"{path}: {task.name}: the file is empty; fetch it again ({task.source})")
    return [_item(f"{path}, row {row + 1} ({task.name})", row, line, task) for row, line in enumerate(lines)]


def subset(items: Sequence[Item], count: int) -> list[Item]:
    """`count` of the items (0 = all) in their order: those first by a hash of content and row.

    A larger count adds items and takes none away, so what a smaller preset scored is never scored again.
    """
    if count <= 0 or count >= len(items):
        return list(items)
    first = sorted(items, key=lambda item: digest(f"{item.id}{item.index}"))[:count]
    return sorted(first, key=lambda item: item.index)


def write_jsonl(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Rows as `read_items` reads them: one JSON object a line, UTF-8."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _bytes(path: Path, task: Task) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {task.name} can be had from {task.source}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path}: {task.name}: not readable as gzip ({error}); fetch it again ({task.source})"
        ) from None
    except OSError as error:  # no permission, a folder of that name, a broken disk
        raise UserError(
            f"{path}: {task.name}: cannot be read ({error.strerror or error}); mend its permissions, or fetch it"
            f" again ({task.source})"
        ) from None


def _item(place: str, index: int, line: bytes, task: Task) -> Item:
    row = _row(place, line)
    category = _text(place, row, "category") if task.partition else ""
    query, choices, continuation, gold = READERS[task.kind](place, row)
    content = [query, choices, continuation, gold, category]
    try:
        identity = digest(canonical_json(content))[:16]
    except UnicodeEncodeError:
        raise UserError(f"{place}: it holds half a surrogate pair, which is no text; mend the escape \\ud…") from None
    return Item(index, identity, query, tuple(choices), continuation, gold, category)


def _row(place: str, line: bytes) -> dict[str, Any]:
    if not line.strip():
        raise UserError(f"{place}: the row is empty; expected one JSON object a row, so take the empty row out")
    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 ({error.reason} at byte {error.start}); convert the file") from None
    except _Twice as error:
        raise UserError(f"{place}: the field {error} appears twice; keep one of them") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: not JSON ({error}); expected one JSON object a row") from None
    if not isinstance(row, dict):
        raise UserError(f"{place}: expected a JSON object, found {short(row)}")
    return row


class _Twice(Exception):
    """A key that stands twice in an object, shortened."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises _Twice on a key written twice, of which plain JSON would keep the last."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(short(key))
        found[key] = value
    return found


def _multiple_choice(place: str, row: dict[str, Any]) -> tuple[str, list[str], str, int]:
    choices = _texts(place, row, "choices")
    return _text(place, row, "query"), choices, "", _gold(place, row, len(choices))


def _schema(place: str, row: dict[str, Any]) -> tuple[str, list[str], str, int]:
    options = _texts(place, row, "context_options")
    return "", options, _text(place, row, "continuation"), _gold(place, row, len(options))


def _language_modeling(place: str, row: dict[str, Any]) -> tuple[str, list[str], str, int]:
    return _text(place, row, "context"), [_text(place, row, "continuation")], "", 0


READERS = {"multiple_choice": _multiple_choice, "schema": _schema, "language_modeling": _language_modeling}


def _value(place: str, row: dict[str, Any], key: str) -> Any:
    if key not in row:
        raise UserError(f"{place}: the field {key!r} is missing; the row has {_fields(row)}")
    return row[key]


def _fields(row: dict[str, Any]) -> str:
    """The names of a row's fields, however many and long they are, in one short line."""
    names = [short(name) for name in sorted(row)]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join(names[:NAMED] + more) or "no field"


def _text(place: str, row: dict[str, Any], key: str) -> str:
    """A field's text without blanks at its ends, as the reference reads it."""
    value = _value(place, row, key)
    if not isinstance(value, str):
        raise UserError(f"{place}: {key} is {short(value)}, expected a string")
    if not value.strip():
        raise UserError(f"{place}: {key} is empty; expected a text")
    return value.strip()


def _texts(place: str, row: dict[str, Any], key: str) -> list[str]:
    """A field's list of texts, blanks at their ends kept, as the reference reads it."""
    values = _value(place, row, key)
    if not isinstance(values, list):
        raise UserError(f"{place}: {key} is {short(values)}, expected a list of strings")
    if len(values) < 2:
        raise UserError(f"{place}: {key} has {len(values) or 'no'} entries, expected at least two to choose from")
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(f"{place}: {key}[{number}] is {short(value)}, expected a string")
        if not value.strip():
            raise UserError(f"{place}: {key}[{number}] is empty; expected a text")
    return values


def _gold(place: str, row: dict[str, Any], count: int) -> int:
    gold = _value(place, row, "gold")
    if type(gold) is not int:  # true is an int to Python
        raise UserError(f"{place}: gold is {short(gold)}, expected a whole number, the index of the right choice")
    if not 0 <= gold < count:
        raise UserError(f"{place}: gold is {gold}, expected 0 to {count - 1}: there are {count} choices")
    return gold


def short(value: Any) -> str:
    """A value as JSON on one line, of at most 40 characters, for messages."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 40 else f"{text[:37]}..."
