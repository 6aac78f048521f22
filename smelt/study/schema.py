"""The JSON schema of study files, made from the settings that `smelt.study.sections.file` names.

`python docs/make_study.py` writes it to config/schema.yaml, from which editors complete and check study files.
The workflow does not read that file: it makes the schema anew.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from smelt.setting import MISSING, Bounds, Setting, settings_of
from smelt.study.sections.file import StudyFile

Schema = dict[str, Any]
FILE = Path(__file__).parents[2] / "config" / "schema.yaml"
HEADER = """\
# Made by `python docs/make_study.py` from the settings in smelt/; do not edit it. It serves editors: a study file
# names it in its first line. docs/study.md says the same in words.
"""
NEEDED = ["corpus", "grid", "training"]  # by a study that trains
ABSENT: Schema = {"not": {}}
TRAINED_ONLY = ["seeds", *NEEDED, "cells", "runs", "tuning", "ablations", "cost_estimate", "evaluation"]
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
KEYWORDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusive_minimum": "exclusiveMinimum",
    "exclusive_maximum": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "choices": "enum",
    "pattern": "pattern",
    "min_items": "minItems",
    "unique_items": "uniqueItems",
    "min_properties": "minProperties",
}


@functools.cache
def study_schema() -> Schema:
    """The schema of a study file. A study trains a grid, or its endpoints stand in a file, or they are simulated."""
    without = {
        key: {"properties": dict.fromkeys([other, *TRAINED_ONLY], ABSENT)}
        for key, other in (("endpoints", "simulation"), ("simulation", "endpoints"))
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "study",
        "description": str(StudyFile.__doc__),
        **object_schema([StudyFile]),
        "if": {"not": {"anyOf": [{"required": [key]} for key in without]}},
        "then": {"required": NEEDED},
        "dependentSchemas": without,
    }


def object_schema(classes: Sequence[type]) -> Schema:
    """The schema of a mapping whose keys are the settings of some dataclasses, in that order."""
    fields = {name: field for cls in classes for name, field in settings_of(cls).items()}
    hints = {name: typing.get_type_hints(cls)[name] for cls in classes for name in settings_of(cls)}
    required = [name for name, field in fields.items() if _needed(field)]
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {name: _property(field, hints[name]) for name, field in fields.items()},
    }


def _overrides(classes: Sequence[type]) -> Schema:
    """The same with no key required and no default: what it leaves out stays as it is elsewhere."""
    full = object_schema(classes)
    keys = {
        name: {keyword: value for keyword, value in child.items() if keyword != "default"}
        for name, child in full["properties"].items()
    }
    return {"type": "object", "additionalProperties": False, "properties": keys}


def _needed(field: "dataclasses.Field[Any]") -> bool:
    return _default(field) is MISSING and not _said(field).rules.get("optional")


def _said(field: "dataclasses.Field[Any]") -> Setting:
    return typing.cast(Setting, field.metadata["setting"])


def _default(field: "dataclasses.Field[Any]") -> Any:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return list(default) if isinstance(default, tuple) else default


def _property(field: "dataclasses.Field[Any]", hint: Any) -> Schema:
    """The schema of one key."""
    said = _said(field)
    schema: Schema = {"description": said.meaning}
    if unit := said.rules.get("unit"):
        schema["unit"] = unit
    schema |= _value(hint, said)
    default = _default(field)
    return schema if default is MISSING or default is None else {**schema, "default": default}


def _value(hint: Any, said: Setting) -> Schema:
    """What a value may be, from its type and the rules of its setting."""
    rules = said.rules
    if rules.get("or_mapping"):
        return {"oneOf": [{"type": TYPES[hint], **_bounds(rules)}, {"type": "object"}]}
    if isinstance(hint, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return {"oneOf": [_value(part, said) for part in parts]} if parts[1:] else _value(parts[0], said)
    if dataclasses.is_dataclass(hint):
        return object_schema([typing.cast(type, hint)])
    origin, parts = typing.get_origin(hint), list(typing.get_args(hint))
    if origin is tuple:
        return _list(parts, said)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(parts[1], said)
    bounds = _bounds(rules)
    if reserved := rules.get("reserved"):
        bounds["not"] = {"enum": list(reserved)}
    return bounds if "enum" in bounds else {"type": TYPES[hint], **bounds}


def _list(parts: list[Any], said: Setting) -> Schema:
    items = {"type": TYPES[parts[0]], **_bounds(said.rules.get("each", {}))}
    if parts[1] is not Ellipsis:
        return {"type": "array", "items": items, "minItems": len(parts), "maxItems": len(parts)}
    return {"type": "array", "items": items, **_bounds(said.rules)}


def _mapping(part: Any, said: Setting) -> Schema:
    rules = said.rules
    if classes := rules.get("of"):
        return object_schema(classes)
    schema: Schema = {"type": "object", **_bounds(rules)}
    if typing.get_origin(part) is tuple:  # the bounds are those of each list
        return {"type": "object", "additionalProperties": _list(list(typing.get_args(part)), said)}
    if names := rules.get("names"):
        schema["propertyNames"] = {"pattern": names[0], "description": names[1]}
    if classes := rules.get("overrides"):
        values = _overrides(classes)
    elif dataclasses.is_dataclass(part):
        values = object_schema([typing.cast(type, part)])
    else:
        values = {"type": TYPES[part], **_bounds(rules.get("each", {}))}
    if keys := rules.get("alternatives"):
        values["description"] = f"Give either {' or '.join(keys)}."
        values["oneOf"] = [{"required": [key]} for key in keys]
    return {**schema, "additionalProperties": values}


def _bounds(rules: Bounds) -> Schema:
    """JSON Schema's keywords for the bounds of a value."""
    found = {KEYWORDS[name]: value for name, value in rules.items() if name in KEYWORDS}
    return {keyword: list(value) if isinstance(value, tuple) else value for keyword, value in found.items()}


class _Plain(yaml.SafeDumper):
    """Writes equal parts in full, each where it belongs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text() -> str:
    """The content of config/schema.yaml."""
    return HEADER + yaml.dump(
        study_schema(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None
    )
