"""Write docs/study.md and config/schema.yaml from the settings in smelt/: `python docs/make_study.py`.

The page explains the study file key by key. The schema serves editors.
"""

from pathlib import Path
from typing import Any

from smelt.study import schema as study_schema

PAGE = Path(__file__).parent / "study.md"
OVERRIDES = ("cells", "runs")  # their entries hold the keys of `training` again
HEAD = """\
# The study file, key by key

`python docs/make_study.py` writes this page and `config/schema.yaml` from the settings in `smelt/`; a
test holds both current. An editor completes and checks study files by the schema.

A study is one YAML file, chosen with `--config study=NAME` (a file of `config/`) or
`--config study=path/to/file.yaml`; a target stands before `--config`. Studies are never merged: copy
`config/desk.yaml`, give it another `name:`, and change what you like. A mistake is one line that names
the key and how to fix it.

A study trains a grid (`corpus`, `grid`, `training`), or it takes your own endpoints (`endpoints`, see
[endpoints.md](endpoints.md)), or it simulates them from known surfaces (`simulation`, as
`config/published.yaml` does). The `scaling` section means the same in all three.

| key | type | default | meaning |
|---|---|---|---|
"""
TAIL = "`cells.NAME` and `runs.NAME` take the keys of `training` but `jobs`, which the whole study shares.\n"


def rows(schema: dict[str, Any], prefix: str = "") -> list[str]:
    """One line for each key, nested keys after their parent; NAME stands for a key that the user chooses."""
    lines = []
    for name, child in schema.get("properties", {}).items():
        key = f"{prefix}{name}"
        default = needed(name, schema) or (f"`{child['default']}`" if "default" in child else "")
        lines.append(f"| `{key}` | {kind(child)} | {default} | {child['description']} |")
        lines += rows(child, f"{key}.")
        others = child.get("additionalProperties")
        if isinstance(others, dict) and key not in OVERRIDES:
            lines += rows(others, f"{key}.NAME.")
    return lines


def needed(name: str, schema: dict[str, Any]) -> str:
    """Whether a key is required; empty where it is not."""
    if name in schema.get("required", []):
        return "required"
    return "required in a grid" if name in schema.get("then", {}).get("required", []) else ""


def kind(schema: dict[str, Any]) -> str:
    """A type in words, with its unit."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(part.get("type", "") for part in schema["oneOf"])
    return f"{schema['type']}, {schema['unit']}" if "unit" in schema else str(schema["type"])


def manual() -> str:
    """The whole page."""
    table = "\n".join(rows(study_schema.study_schema()))
    return f"{HEAD}{table}\n\n{TAIL}"


if __name__ == "__main__":
    PAGE.write_text(manual(), encoding="utf-8")
    study_schema.FILE.write_text(study_schema.text(), encoding="utf-8")
