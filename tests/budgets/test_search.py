"""The command of the wide search: what it writes, and its errors."""

import csv
import json
from pathlib import Path

import pytest

from smelt.budgets.ledger import budget
from smelt.budgets.search import COLUMNS, main
from smelt.errors import UserError
from smelt.model.settings import ModelSettings

REFERENCE = {"layers": 12, "hidden_size": 1280, "heads": 20, "kv_heads": 4, "head_size": 64, "expert_width": 432}
PROBLEM = REFERENCE | {"experts": 192, "loop_start": 3, "loop_length": 6, "visits": 2}
SPEC = {
    "attention_keys": 392,
    "tolerance": {"flops": 0.01, "params": 0.002, "kv": 0.005},
    "problems": {"smelt-200M-S95": PROBLEM},
}


def write(folder: Path, spec: str) -> tuple[dict, list[dict[str, str]], list[bytes]]:
    files = [folder / "search.json", folder / "search.csv"]
    main(["--spec", spec, "--json", str(files[0]), "--csv", str(files[1])])
    with files[1].open() as file:
        rows = list(csv.DictReader(file))
    return json.loads(files[0].read_text()), rows, [file.read_bytes() for file in files]


def test_choice_and_pareto_set(tmp_path: Path) -> None:
    content, rows, written = write(tmp_path, json.dumps(SPEC))
    pinned = content["geometry"]["smelt-200M-S95"]
    model = ModelSettings(vocabulary=1, layers=12, **pinned, loop_start=3, loop_length=6, visits=2)
    reference = ModelSettings(vocabulary=1, experts=192, **REFERENCE)
    ratio = budget(model, 392).flops_per_token / budget(reference, 392).flops_per_token
    assert content["ratios"]["smelt-200M-S95"]["flops_ratio"] == ratio
    assert tuple(rows[0]) == COLUMNS
    assert [row["choice"] for row in rows] == ["closest"] + ["pareto"] * (len(rows) - 1)
    assert rows[0]["hidden_size"] == str(pinned["hidden_size"])
    front = [tuple(abs(float(row[f"{name}_ratio"]) - 1) for name in ("flops", "params", "kv")) for row in rows[1:]]
    assert len(front) == len(content["pareto"]["smelt-200M-S95"]) > 1
    assert not any(
        one != other and all(a <= b for a, b in zip(one, other, strict=True)) for one in front for other in front
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(SPEC))
    assert write(tmp_path / "again", str(spec))[2] == written


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problems": {"a": REFERENCE | {"experts": 192}}}, "problems.a: 'loop_start' is missing"),
        ({"problems": {"a": PROBLEM | {"colour": 1}}}, "problems.a: ModelSettings: unknown setting 'colour'"),
        ({"tolerance": {"kv": 1e-6}}, "problems.smelt-200M-S95: no head size .* KV cache"),
        ({"lattice": {"multiple": 0}}, "multiple is 0"),
        ({"tolerance": {"kv": "1e-3"}}, "tolerance.kv: '1e-3' is no number"),
        ({"attention_keys": None}, "attention_keys: None is no number"),
        ({"problems": {"a": 5}}, "problems.a: 5 is no mapping"),
        ({"problems": []}, "problems: .* is no mapping"),
    ],
)
def test_bad_specs(tmp_path: Path, change: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        write(tmp_path, json.dumps(SPEC | change))


def test_unreadable_specs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not readable"):
        write(tmp_path, str(tmp_path / "nothing.yaml"))
    with pytest.raises(UserError, match="not readable YAML or JSON"):
        write(tmp_path, "{a: [}")
    (tmp_path / "list.yaml").write_text("[1]")
    with pytest.raises(UserError, match="expected a mapping"):
        write(tmp_path, str(tmp_path / "list.yaml"))
