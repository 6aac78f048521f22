"""The smoke study with changes, read as Snakemake reads it."""

import copy

import pytest
import yaml

from smelt.study import load as studies

SMOKE = studies.CONFIG / "smoke.yaml"
REMOVED = object()


@pytest.fixture
def read(tmp_path):
    """`read({"training.steps": 9})` is the smoke study with that key set (REMOVED: taken out)."""

    def changed(changes=None):
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
        return text(yaml.safe_dump(config, sort_keys=False))

    def text(content: str | bytes):
        file = tmp_path / "study.yaml"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return studies.read(file)

    changed.text = text
    return changed
