"""A setting of a study file: one dataclass field that says its type, default, bounds, unit and meaning.

A stage declares its settings beside the code that uses them. `smelt.study.schema` makes the schema of study files
from these fields, and `docs/make_study.py` the manual. Fingerprints leave out all but the default (`smelt.spec`), so
that a better sentence or another bound reruns no job.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

MISSING = dataclasses.MISSING


class Bounds(TypedDict, total=False):
    """Limits of a number, a text, a list or a mapping; named as in JSON Schema, but in snake_case."""

    minimum: float
    maximum: float
    exclusive_minimum: float
    exclusive_maximum: float
    multiple_of: int
    choices: Sequence[str]  # all values that are allowed
    reserved: Sequence[str]  # values that are not
    pattern: str  # regular expression of a text
    min_items: int  # of a list
    unique_items: bool
    min_properties: int  # of a mapping


class Rules(Bounds, total=False):
    """All that a setting may say beside its sentence and its default."""

    unit: str
    optional: bool  # whether a study may leave the key out although the stage needs a value, which the study computes
    or_mapping: bool  # whether a study may give a mapping in place of the value, which the study resolves
    each: Bounds  # of the items of a list or the values of a mapping
    names: tuple[str, str]  # regular expression of a mapping's keys, and its meaning
    of: Sequence[type]  # dataclasses whose settings are the keys of a mapping
    overrides: Sequence[type]  # the same of each value of a mapping, which may leave out any of them
    alternatives: Sequence[str]  # keys of which each value of a mapping has exactly one


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the metadata of a field holds."""

    meaning: str
    rules: Rules


def setting(meaning: str, default: Any = MISSING, /, **rules: Unpack[Rules]) -> Any:
    """A field of a settings dataclass that a study file may set; required where it has no default.

    `meaning` is one sentence. Each object gets a list or a mapping of its own.
    """
    metadata = {"setting": Setting(meaning, rules)}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: type) -> Mapping[str, "dataclasses.Field[Any]"]:
    """The fields of a dataclass that a study file may set, by name."""
    fields = dataclasses.fields(cls)
    return {field.name: field for field in fields if isinstance(field.metadata.get("setting"), Setting)}
