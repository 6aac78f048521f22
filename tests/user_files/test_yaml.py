"""Strict YAML: what plain YAML would accept in silence is one line that says where it stands."""

import pytest

from smelt.errors import UserError
from smelt.user_files.yaml import read_yaml


def written(folder, content):
    path = folder / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_plain_values_come_back(tmp_path):
    text = "a: {b: [1, 2.5, true, null]}\nbase: &base {x: 1}\nmerged: {<<: *base, y: 2}\n"
    assert read_yaml(written(tmp_path, text)) == {
        "a": {"b": [1, 2.5, True, None]},
        "base": {"x": 1},
        "merged": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", r"line 3: 'a' appears twice \(first on line 1\); keep one of them"),
        ("a:\n  b: {c: 1, c: 2}\n", "line 2: 'c' appears twice"),
        ("a: .nan\n", "line 1: .nan is no finite number; write a number"),
        ("a: [1, -.inf]\n", "line 1: -.inf is no finite number"),
        ("a: [1\n", "not readable YAML"),
        ("a: 2026-02-31\n", "not readable YAML"),
        (b"a: \xff\n", "not readable YAML"),
        ("? [a, b]\n: 1\n", "not readable YAML"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    with pytest.raises(UserError, match=message) as error:
        read_yaml(written(tmp_path, content))
    assert "\n" not in str(error.value)
