"""A YAML file against its JSON schema: parsed strictly, explained where it is wrong, completed with the defaults.

All mistakes are UserErrors that name the key and the fix.
"""

import copy
import re
from pathlib import Path
from typing import Any

import jsonschema

from smelt.errors import UserError
from smelt.study.renamed import check_keys
from smelt.user_files.names import suggestion
from smelt.user_files.yaml import read_yaml


def completed(path: Path, schema: dict[str, Any]) -> dict[str, Any]:
    """The content of the YAML file at `path`, valid under `schema` and with the defaults of all keys left out."""
    config = read_yaml(path)
    check_keys(config)
    _validate(config, schema)
    return dict(_filled(config, schema))


def _validate(config: Any, schema: dict[str, Any]) -> None:
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(config))
    if error is not None:
        key = ".".join(map(str, error.absolute_path)) or "the study"
        raise UserError(f"{key}: {_explain(error)}")


def _explain(error: jsonschema.ValidationError) -> str:
    if error.validator == "not" and not error.validator_value:  # a key that another one rules out
        other = error.absolute_schema_path[1]  # dependentSchemas, the other key, ...
        return f"no part of a study with {other}; take it out, or {other}"
    value, expected = error.instance, error.schema.get("description", "")
    meaning = f" ({expected})" if expected else ""
    if error.validator in ("additionalProperties", "propertyNames") and isinstance(value, dict):
        known = error.schema.get("properties", {})
        unknown = [key for key in value if key not in known] or list(value)
        return f"unknown key {unknown[0]!r}; {suggestion(unknown[0], known)}"
    if error.validator == "required":
        missing = [key for key in error.schema["required"] if key not in value]
        return f"the key {missing[0]!r} is missing{meaning}"
    hint = ""
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", value, re.IGNORECASE):
        hint = "; a number is written without quotes and, with an exponent, with a point, as 1.0e-3"
    if error.validator == "type":
        return f"{value!r} is not of type {error.validator_value}{hint}{meaning}"
    if error.validator == "oneOf":
        return f"{value!r} has none of the forms that are allowed, or more than one{hint}{meaning}"
    if error.validator == "pattern":
        return f"{value!r} does not fit{hint}{meaning}"
    if error.validator == "minProperties":
        return f"it is empty; it needs at least one entry{meaning}"
    return f"{error.message}{meaning}"


def _filled(value: Any, schema: dict[str, Any]) -> Any:
    """`value` with the schema's defaults, and whole numbers as floats where the schema says number."""
    if schema.get("type") == "number" and isinstance(value, int):
        return float(value)
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    filled = {
        key: _filled(value[key] if key in value else copy.deepcopy(child["default"]), child)
        for key, child in properties.items()
        if key in value or "default" in child
    }
    extra = {key: part for key, part in value.items() if key not in properties}
    return filled | {key: _filled(part, others) if isinstance(others, dict) else part for key, part in extra.items()}
