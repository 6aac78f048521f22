"""The smoke study with changes, read as Snakemake reads it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.study import load as studies

SMOKE = studies.CONFIG / "smoke.yaml"
REMOVED = object()


class Reader:
    """Reads studies from one file, written anew each time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, changes: Mapping[str, Any] | None = None) -> Any:
        """The smoke study with some keys set: `read({"training/steps": 9})`; REMOVED takes a key out."""
        config = copy.deepcopy(yaml.safe_load(SMOKE.read_text(encoding="utf-8")))
        for path, value in (changes or {}).items():
            *parents, last = path.split("/")
            node = config
            for key in parents:
                node = node.setdefault(key, {})
            if value is REMOVED:
                del node[last]
            else:
                node[last] = value
        return self.text(yaml.safe_dump(config, sort_keys=False))

    def text(self, content: str | bytes) -> Any:
        """The study with some text."""
        self._file.write_bytes(content.encode() if isinstance(content, str) else content)
        return studies.read(self._file)


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """`read(changes)` is the smoke study with these, `read.text(content)` the study of a text."""
    return Reader(tmp_path / "study.yaml")
