"""The one strict YAML loader for files that people write: study files and the list of tasks."""

import math
from pathlib import Path
from typing import Any

import yaml

from smelt.errors import UserError


class _StrictLoader(yaml.SafeLoader):
    """Refuses what plain YAML accepts in silence: a key that appears twice (it keeps the last), NaN and infinity."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue  # refused, or merged, below
            key = self.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if key in seen:
                raise UserError(f"line {line}: {key!r} appears twice (first on line {seen[key]}); keep one of them")
            seen[key] = line
        return super().construct_mapping(node, deep)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        value = super().construct_yaml_float(node)
        if not math.isfinite(value):
            raise UserError(f"line {node.start_mark.line + 1}: {node.value} is no finite number; write a number")
        return value


_StrictLoader.add_constructor("tag:yaml.org,2002:float", _StrictLoader.construct_yaml_float)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file as plain values.

    Raises UserError, with the line but without the path, where the file is no UTF-8 or no YAML, repeats a key, or
    holds a number that is not finite.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date that does not exist
        raise UserError(f"not readable YAML: {' '.join(str(error).split())}") from None
