"""Specs are one text for one value, and fingerprints follow code and nothing else."""

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt import spec
from smelt.errors import UserError
from smelt.spec import canonical_json, digest, load, plain
from smelt.training.settings import TrainingSettings

PACKAGE = Path(spec.__file__).parent
MODULES = {
    ".".join(["smelt", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=20)


@given(st.dictionaries(st.text(), values), st.randoms())
def test_canonical_json_is_one_text_for_one_value(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value


def test_canonical_json_has_neither_blanks_nor_escapes():
    assert canonical_json({"b": [1, 2.0], "a": "é"}) == '{"a":"é","b":[1,2.0]}'


@pytest.mark.parametrize("value", [np.int64(1), np.float32(1), np.zeros(2), {1, 2}, Path("a"), TrainingSettings])
def test_what_is_no_plain_value_is_refused(value):
    # Snakemake would drop such a parameter in silence, and a change of it would rerun nothing.
    with pytest.raises(TypeError):
        canonical_json({"value": value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan")])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([value])


settings = st.builds(
    TrainingSettings,
    steps=st.integers(100, 10**6),
    branch_steps=st.sets(st.integers(1, 100), min_size=1).map(sorted).map(tuple),
    decay_steps=st.integers(1, 100),
    learning_rate=st.floats(1e-9, 1.0),
    warmup_steps=st.integers(0, 9),
    gradient_clip=st.sampled_from([1.0, 0.5]),
    precision=st.sampled_from(["bfloat16", "float32"]),
    seed=st.integers(0, 3),
)


@given(settings)
def test_settings_survive_their_spec(value):
    assert load(TrainingSettings, canonical_json(plain(value))) == value
    assert load(TrainingSettings, json.loads(canonical_json(plain(value)))) == value


def test_defaults_stay_out_of_a_spec():
    needed = {"steps": 4, "branch_steps": [4], "decay_steps": 1, "learning_rate": 0.1}
    assert plain(load(TrainingSettings, needed)) == needed
    assert plain(load(TrainingSettings, {**needed, "gradient_clip": 2.0, "seed": 0})) == {
        **needed,
        "gradient_clip": 2.0,
    }


def test_a_new_setting_leaves_specs_as_they_were():
    @dataclasses.dataclass(frozen=True)
    class Longer(TrainingSettings):
        momentum: float = 0.5

    needed = {"steps": 4, "branch_steps": (4,), "decay_steps": 1, "learning_rate": 0.1}
    assert canonical_json(plain(Longer(**needed))) == canonical_json(plain(TrainingSettings(**needed)))


@dataclasses.dataclass(frozen=True)
class Inner:
    name: str
    sizes: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Outer:
    runs: tuple[Inner, ...]
    chosen: Inner | None = None
    by_name: dict[str, Inner] = dataclasses.field(default_factory=dict)
    pairs: tuple[tuple[str, int], ...] = ()


def test_nested_settings_survive_their_spec():
    value = Outer((Inner("a"), Inner("b", (1, 2))), Inner("c"), {"d": Inner("d", (3,))}, (("x", 1), ("y", 2)))
    told = plain(value)
    assert told["runs"] == [{"name": "a"}, {"name": "b", "sizes": [1, 2]}]
    assert load(Outer, canonical_json(told)) == value
    assert plain(Outer((Inner("a"),))) == {"runs": [{"name": "a"}]}


def test_an_unknown_setting_inside_another_is_named():
    with pytest.raises(UserError, match="Inner: unknown setting 'size'; known are name, sizes"):
        load(Outer, {"runs": [{"name": "a", "size": 1}]})


def test_unknown_and_missing_settings_are_named():
    with pytest.raises(UserError, match=r"TrainingSettings: unknown setting 'step'; known are steps, branch_steps"):
        load(TrainingSettings, '{"step": 3}')
    with pytest.raises(UserError, match=r"TrainingSettings: setting 'decay_steps' is missing"):
        load(TrainingSettings, {"steps": 3, "branch_steps": [3], "learning_rate": 0.1})


def test_digest_is_sha256():
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest("") == digest(b"") == empty
    assert digest("é") == digest("é".encode())


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `smelt` of a few modules; returns the fingerprint of smelt.stage.job after an edit."""
    files = {
        "__init__.py": '__version__ = "1"\n',
        "errors.py": "class UserError(Exception):\n    pass\n",
        "spec.py": "import smelt.errors\nSIZE = 3\n",
        "unrelated.py": "A = 1\n",
        "stage/__init__.py": "A = 0\n",
        "stage/job.py": '"""Reads and writes."""\nfrom smelt.stage import help\n\n\ndef main(argv):\n    """Run."""\n'
        "    from smelt.late import later  # costs time\n    return later(help.ONE)\n",
        "stage/help.py": "from smelt.spec import SIZE\nONE = 1\n",
        "stage/other.py": "from smelt.stage.help import ONE\n",
        "settings.py": 'A = setting("A value.", 3, minimum=1)\nB = setting("Another.")\n',
        "late.py": "from smelt.settings import A\n\n\ndef later(value):\n    return value + 1\n",
    }
    folder = tmp_path / "smelt"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(spec, "PACKAGE", folder)

    def fingerprint(**edits: tuple[str, str]) -> str:
        for name, text in files.items():
            old, new = edits.get(name.removesuffix(".py").replace("/", "_"), ("", ""))
            assert old in text
            (folder / name).write_text(text.replace(old, new) if old else text)
        spec.fingerprint.cache_clear()
        spec._parsed.cache_clear()
        return spec.fingerprint("smelt.stage.job")

    yield fingerprint
    spec.fingerprint.cache_clear()
    spec._parsed.cache_clear()


@pytest.mark.parametrize(
    "edit",
    [
        {"stage_job": ("return later", "return 2 * later")},
        {"stage_help": ("ONE = 1", "ONE = 2")},
        {"late": ("+ 1", "+ 2")},  # imported inside a function
        {"spec": ("SIZE = 3", "SIZE = 4")},  # two imports away
        {"settings": (", 3,", ", 4,")},  # the default of a setting
        {"settings": ('Another."', 'Another.", 1')},
        {"settings": ("B =", "C =")},
        {"errors": ("(Exception)", "(ValueError)")},  # three imports away
        {"stage_help": ("ONE = 1", "ONE = 1\nTWO = 2")},
        {"stage___init__": ("A = 0", "A = 1")},  # a parent package runs before its modules
    ],
    ids=lambda edit: "-".join(edit),
)
def test_an_edit_of_reachable_code_changes_the_fingerprint(package, edit):
    assert package(**edit) != package()


@pytest.mark.parametrize(
    "edit",
    [
        {"stage_job": ("  # costs time", "")},
        {"stage_job": ('"""Run."""', '"""Run it all, with\n    care."""')},
        {"stage_job": ('"""Reads and writes."""\n', "")},
        {"stage_job": ("(help.ONE)", "(\n        help.ONE,\n    )")},
        {"late": ("value + 1", "(value  +  1)")},
        {"unrelated": ("A = 1", "A = 2")},
        {"settings": ("A value.", "A number.")},  # what a study file may say is no code of a job
        {"settings": ("minimum=1", "minimum=0, maximum=9")},
        {"stage_other": ("ONE", "SIZE")},  # imports what the job imports, and is not imported by it
        {"__init__": ('"1"', '"2"')},  # a release is no code
    ],
    ids=lambda edit: "-".join(edit),
)
def test_other_edits_do_not(package, edit):
    assert package(**edit) == package()


def test_a_docstring_alone_is_still_a_body(package):
    assert package(late=("    return value + 1", '    """Nothing."""')) == package(late=("return value + 1", "pass"))


def test_no_import_hides_from_the_fingerprint():
    """It follows `import smelt.x` and `from smelt.x import y`, so nothing may be imported in another way."""
    hidden = [
        f"{name}:{node.lineno}"
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.level)
        or (isinstance(node, ast.Name) and node.id in ("importlib", "__import__"))
    ]
    assert hidden == []


def test_what_needs_no_torch_does_not_load_it():
    stages = (
        "artifacts",
        "budgets",
        "corpus",
        "errors",
        "job",
        "labels",
        "reporting",
        "scaling",
        "setting",
        "spec",
        "study",
        "surfaces",
        "tables",
    )
    light = [name for name in MODULES if name.split(".")[1:2] and name.split(".")[1] in stages]
    light += [
        "smelt.model.settings",
        "smelt.model.execution",
        "smelt.training.settings",
        "smelt.training.steps.schedule",
    ]
    light += ["smelt.evaluation.settings"]
    assert {"smelt.scaling.fitting.fit", "smelt.reporting.tables", "smelt.study.load", "smelt.budgets.match"} <= set(
        light
    )
    code = f"import importlib, sys\nfor name in {light}:\n    importlib.import_module(name)\n"
    code += "    assert 'torch' not in sys.modules, name"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
