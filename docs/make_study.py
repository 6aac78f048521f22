"""Write docs/study.md, the study file key by key, from config/schema.yaml: `python docs/make_study.py`."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
HEAD = """# The study file, key by key

Made from `config/schema.yaml` by `python docs/make_study.py`; a test holds the two together. A study is one YAML file,
chosen with `--config study=NAME` (a file of `config/`) or `--config study=path/to/file.yaml`; a target stands before
`--config`. Studies are never merged: copy `config/desk.yaml`, give it another `name:`, and change what you like. A
mistake is one line that names the key and how to fix it.

A study trains a grid (`corpus`, `grid`, `training`), or it takes your own endpoints (`endpoints`, see
[endpoints.md](endpoints.md)), or it simulates them from known surfaces (`simulation`, as `config/published.yaml` does).
The `scaling` section means the same in all three.

| key | type | default | meaning |
|---|---|---|---|
"""


def rows(schema: dict[str, Any], root: dict[str, Any], prefix: str = "") -> list[str]:
    """One line for each key, nested keys after their parent; NAME stands for a key that the user chooses."""
    lines = []
    for name, child in schema.get("properties", {}).items():
        key = f"{prefix}{name}"
        default = needed(name, schema) or (f"`{child['default']}`" if "default" in child else "")
        lines.append(f"| `{key}` | {kind(child)} | {default} | {child['description']} |")
        target = root["$defs"][child["$ref"].split("/")[-1]] if "$ref" in child else child
        lines += rows(target, root, f"{key}.")
        others = target.get("additionalProperties")
        if isinstance(others, dict) and "properties" in others:
            lines += rows(others, root, f"{key}.NAME.")
    return lines


def needed(name: str, schema: dict[str, Any]) -> str:
    """Whether a key is required; empty where it is not."""
    if name in schema.get("required", []):
        return "required"
    return "required in a grid" if name in schema.get("then", {}).get("required", []) else ""


def kind(schema: dict[str, Any]) -> str:
    """A type in words."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(part.get("type", "") for part in schema["oneOf"])
    return str(schema.get("type", "object"))


def manual() -> str:
    """The whole page."""
    schema = yaml.safe_load((ROOT / "config/schema.yaml").read_text(encoding="utf-8"))
    overrides = "\n`cells.NAME` and `runs.NAME` take the keys of `training` but `jobs`, which the whole study shares.\n"
    return HEAD + "\n".join(rows(schema, schema)) + "\n" + overrides


if __name__ == "__main__":
    (ROOT / "docs/study.md").write_text(manual(), encoding="utf-8")
