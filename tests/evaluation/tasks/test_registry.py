"""The list of tasks: what DCLM's own list says, and a clear line for each mistake in the file."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from smelt.errors import UserError
from smelt.evaluation.tasks.registry import TASKS, Task, chosen, presets, read_tasks
from smelt.spec import load, plain

REFERENCE = Path(__file__).parents[2] / "data" / "evals"
SWEEP_32 = {
    "bigbench_qa_wikidata", "arc_easy", "bigbench_cs_algorithms", "bigbench_dyck_languages", "bigbench_operators",
}  # fmt: skip
DESK = ["dyck_languages", "cs_algorithms", "operators", "repeat_copy", "last_word"]


@pytest.fixture(scope="module")
def tasks():
    return read_tasks()


def test_core_and_mmlu_are_as_the_reference_lists_them(tasks):
    reference = json.loads((REFERENCE / "core_tasks.json").read_text())
    labels = [entry["label"].replace("mmlu_fewshot", "mmlu") for entry in reference]
    assert list(tasks)[: len(labels)] == labels
    for name, entry in zip(labels, reference, strict=True):
        task = tasks[name]
        found = (task.kind, task.shots, task.continuation_delimiter, task.example_delimiter, task.partition)
        assert found == (
            entry["type"], entry["num_fewshot"], entry["continuation_delimiter"], entry["example_delimiter"],
            entry["has_categories"],
        )  # fmt: skip
        assert (task.category, task.items, task.completion) == (entry["category"], entry["n"], entry["completion"])
        assert f"local_data/{task.file}" == entry["dclm_dataset_uri"]
        assert task.chance_v1 == pytest.approx(entry["baseline_v1"] / 100, abs=1e-12)
        assert task.chance_v2 == pytest.approx(entry["baseline_v2"] / 100, abs=1e-12)
        assert (task.suite == "core") == entry["in_core"]


def test_digests_are_those_of_the_published_files(tasks):
    # Empty for a file that can only be rebuilt from another source, with bytes of its own.
    digests = json.loads((REFERENCE / "dclm_digests.json").read_text())
    assert {name: tasks[name].sha256 for name in digests} == digests


def test_core_has_the_counts_of_the_paper(tasks):
    core = chosen(["core"], tasks)
    assert len(core) == 22
    assert sum(task.completion for task in core) == 9
    assert sum(task.shots == 0 for task in core) == 7
    categories = [task.category for task in core]
    counts = {category.split()[0]: categories.count(category) for category in categories}
    assert counts == {"language": 6, "world": 4, "commonsense": 4, "symbolic": 5, "reading": 3}
    assert {task.name for task in core if task.chance_v1 != task.chance_v2} == {
        "commonsense_qa", "agi_eval_lsat_ar", "bigbench_language_identification",
    }  # fmt: skip


def test_the_sweep_covers_fifteen_tasks_and_mmlu(tasks):
    swept = {task.name: task.sweep_shots for task in tasks.values() if task.sweep_shots and task.suite != "desk"}
    assert len(swept) == 16
    assert "mmlu" in swept
    assert {name for name, most in swept.items() if most == 32} == SWEEP_32
    assert set(swept.values()) == {8, 32}


def test_synthetic_tasks_are_never_part_of_core(tasks):
    assert [task.name for task in tasks.values() if task.suite == "desk"] == DESK
    assert [task.name for task in tasks.values() if task.synthetic] == DESK[:4]
    assert not any(task.synthetic for task in chosen(["core"], tasks))


def test_a_task_survives_the_spec_of_a_job(tasks):
    for task in tasks.values():
        assert load(Task, json.loads(json.dumps(plain(task)))) == task


def test_chosen_expands_suites_in_the_order_of_the_list(tasks):
    assert [task.name for task in chosen(["desk"], tasks)] == DESK
    assert [task.name for task in chosen(["mmlu"], tasks)] == ["mmlu"]
    assert [task.name for task in chosen(["last_word", "mmlu_standard", "mmlu", "mmlu"], tasks)] == [
        "mmlu", "mmlu_standard", "last_word",
    ]  # fmt: skip
    assert chosen(["core", "arc_easy"], tasks) == chosen(["core"], tasks)
    with pytest.raises(UserError, match=r"'arc_esy'; known are core, mmlu, desk, hellaswag_zeroshot"):
        chosen(["arc_esy"], tasks)


def test_a_core_of_more_tasks_is_refused(tmp_path):
    content = yaml.safe_load(TASKS.read_text(encoding="utf-8"))
    content["tasks"]["further"] = content["tasks"]["copa"] | {"shots": 1}
    (tmp_path / "tasks.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(UserError, match=r"further: suite core has 23 tasks, expected the 22 of DCLM"):
        read_tasks(tmp_path / "tasks.yaml")


def test_presets_are_nested():
    assert presets() == {"smoke": 12, "lite": 48, "full": 0}


def test_reading_the_list_loads_no_torch():
    code = "import sys, smelt.evaluation.tasks.registry as t, smelt.evaluation.tasks.items; "
    code += "t.read_tasks(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


ENTRY = {
    "suite": "desk", "kind": "multiple_choice", "file": "desk/own.jsonl", "items": 0, "shots": 4, "sweep_shots": 0,
    "category": "own", "chance_v1": 0.5, "chance_v2": 0, "source": "here",
}  # fmt: skip


def write(path, tasks, **other):
    content = {"presets": {"smoke": 1, "full": 0}, "sources": {"here": "my disk"}, "tasks": tasks} | other
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_an_entry_of_ones_own_is_read(tmp_path):
    task = read_tasks(write(tmp_path / "own.yaml", {"own": ENTRY}))["own"]
    assert task == Task(name="own", **{**ENTRY, "source": "my disk"})
    assert isinstance(task.chance_v2, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shotz": 4}, "own: unknown key 'shotz'; known are suite, "),
        ({"name": "x"}, "unknown key 'name'"),
        ({"kind": "generation"}, "kind is 'generation', expected one of multiple_choice, schema, language_modeling"),
        ({"suite": "mine"}, "suite is 'mine', expected one of core, mmlu, desk"),
        ({"chance_v1": 1}, r"chance_v1 is 1\.0, expected a fraction from 0 to below 1"),
        ({"chance_v2": -0.1}, "chance_v2 is -0.1"),
        ({"chance_v2": 25.0}, "chance_v2 is 25.0"),
        ({"shots": True}, "shots is True, expected a whole number"),
        ({"shots": 2.0}, "shots is 2.0, expected a whole number"),
        ({"shots": -1}, "shots is -1, expected 0 or more"),
        ({"file": "/data/own.jsonl"}, "file is '/data/own.jsonl', expected a relative path"),
        ({"file": "../own.jsonl"}, "expected a relative path"),
        ({"file": "own.jsonl.gz"}, "ends in .jsonl"),
        ({"sha256": "abc"}, "sha256 is 'abc', expected 64 hexadecimal digits"),
        ({"sha256": 12}, "sha256 is 12, expected a text"),
        ({"source": "there"}, "source is 'there', expected one of here"),
        ({"source": ["here"]}, r"source is \['here'\]"),
        ({"completion": True}, "completion is True, expected false but for language_modeling"),
        ({"synthetic": True, "suite": "core"}, "synthetic is True, expected false for a task of Core"),
        ({"header": "About {category}."}, "only where partition is true"),
        ({"header": "About {subject}."}, "no braces but {category}"),
        ({"demonstrations": "dev.jsonl", "shots": 0}, "nothing where shots is 0"),
        ({"demonstrations": "dev.jsonl", "sweep_shots": 8}, "0 for fixed demonstrations"),
        ({"category": " "}, "category is ' '"),
    ],
)
def test_each_mistake_names_task_and_key(tmp_path, change, message):
    path = write(tmp_path / "own.yaml", {"own": ENTRY | change})
    with pytest.raises(UserError, match=message) as error:
        read_tasks(path)
    assert str(error.value).startswith(f"{path}: own: ")
    assert "\n" not in str(error.value)


def test_missing_keys_and_odd_files_are_explained(tmp_path):
    path = tmp_path / "own.yaml"
    with pytest.raises(UserError, match="no such file"):
        read_tasks(path)
    with pytest.raises(UserError, match="own: the key 'shots' is missing"):
        read_tasks(write(path, {"own": {key: value for key, value in ENTRY.items() if key != "shots"}}))
    with pytest.raises(UserError, match="own: expected the keys of a task, found None"):
        read_tasks(write(path, {"own": None}))
    with pytest.raises(UserError, match="expected the keys presets, sources, tasks"):
        read_tasks(write(path, {}, more=1))
    with pytest.raises(UserError, match="name is 'core', expected no suite's name but its own"):
        read_tasks(write(path, {"core": ENTRY}))
    path.write_text("tasks: [")
    with pytest.raises(UserError, match="not readable YAML"):
        read_tasks(path)
    path.write_text("presets: {}\ntasks: {}\nsources: {}\ntasks: {}\n")
    with pytest.raises(UserError, match="line 4: 'tasks' appears twice"):
        read_tasks(path)


def test_one_task_under_two_names_is_refused(tmp_path):
    path = write(tmp_path / "own.yaml", {"own": ENTRY, "again": ENTRY})
    with pytest.raises(UserError, match="again: own has the same file and shots"):
        read_tasks(path)
    assert len(read_tasks(write(tmp_path / "own.yaml", {"own": ENTRY, "again": ENTRY | {"shots": 0}}))) == 2


@pytest.mark.parametrize("found", [{"smoke": 64, "lite": 16}, {"full": 0, "lite": 16}, {"smoke": -1}, {"smoke": 1.5}])
def test_presets_that_are_no_growing_counts_are_refused(tmp_path, found):
    path = write(tmp_path / "own.yaml", {}, presets=found)
    with pytest.raises(UserError, match="presets"):
        presets(path)


def test_every_field_of_a_task_is_used_by_the_list():
    named = {key for entry in yaml.safe_load(TASKS.read_text())["tasks"].values() for key in entry}
    assert named == {field.name for field in dataclasses.fields(Task)} - {"name"}
