"""Item files: every broken kind is one clear error, and the subsets of the presets are nested."""

import dataclasses
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import UserError
from smelt.evaluation.tasks.items import Item, find_file, read_items, subset, write_jsonl
from smelt.evaluation.tasks.registry import Task, read_tasks
from smelt.spec import digest

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "evals"
BASE = Task("own", "desk", "multiple_choice", "a/own.jsonl", 0, 0, 0, "own", 0.0, 0.0, "my disk")
SCHEMA = dataclasses.replace(BASE, kind="schema")
LM = dataclasses.replace(BASE, kind="language_modeling")
PARTS = dataclasses.replace(BASE, partition=True)
ROW = {"query": " Where? ", "choices": ["here", " there "], "gold": 1, "extra": None}
PAIR = {"context_options": ["a", "b"], "continuation": " c\n", "gold": 0}
TEXT = {"context": "one two\n", "continuation": " three "}


def save(path, *rows):
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows) + b"\n")
    return path


def test_the_three_kinds_are_read_and_only_fields_are_stripped(tmp_path):
    path = tmp_path / "own.jsonl"
    (item,) = read_items(save(path, ROW), BASE)
    assert item == Item(0, item.id, "Where?", ("here", " there "), "", 1, "")
    (item,) = read_items(save(path, PAIR), SCHEMA)
    assert item == Item(0, item.id, "", ("a", "b"), "c", 0, "")
    (item,) = read_items(save(path, TEXT), LM)
    assert item == Item(0, item.id, "one two", ("three",), "", 0, "")
    (item,) = read_items(save(path, ROW | {"category": " law "}), PARTS)
    assert item.category == "law"


def test_an_id_is_that_of_the_content(tmp_path):
    changed = [ROW | {"gold": 0}, ROW | {"query": "When?"}, ROW | {"choices": ["here", "there"]}]
    rows = [ROW, dict(reversed(ROW.items())) | {"query": "Where?", "extra": 7}, *changed]
    items = read_items(save(tmp_path / "own.jsonl", *rows), BASE)
    assert items[0].id == items[1].id
    assert len({item.id for item in items}) == 4
    assert all(len(item.id) == 16 and int(item.id, 16) >= 0 for item in items)
    assert [item.index for item in items] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_only_a_newline_ends_a_row(tmp_path, separator):
    rows = [ROW | {"query": f"one{separator}two"}, ROW]
    # Control characters must be escaped in JSON; the others stand in a string as they are.
    lines = [json.dumps(row, ensure_ascii=separator < " ").encode() for row in rows]
    path = tmp_path / "own.jsonl"
    for end in (b"", b"\n"):
        path.write_bytes(b"\n".join(lines) + end)
        assert [item.query for item in read_items(path, BASE)] == [f"one{separator}two", "Where?"]


def test_windows_line_ends_and_gzip_read_the_same(tmp_path):
    plain = read_items(save(tmp_path / "own.jsonl", ROW, ROW), BASE)
    data = (tmp_path / "own.jsonl").read_bytes()
    (tmp_path / "crlf.jsonl").write_bytes(data.replace(b"\n", b"\r\n"))
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(data))
    assert read_items(tmp_path / "crlf.jsonl", BASE) == plain == read_items(tmp_path / "own.jsonl.gz", BASE)


BROKEN = [
    (BASE, {"choices": ["a", "b"], "gold": 0}, 'the field \'query\' is missing; the row has "choices", "gold"'),
    (BASE, {}, "the field 'choices' is missing; the row has no field"),
    (BASE, ROW | {"gold": 2}, "gold is 2, expected 0 to 1"),
    (BASE, ROW | {"gold": -1}, "gold is -1, expected 0 to 1"),
    (BASE, ROW | {"gold": True}, "gold is true, expected a whole number"),
    (BASE, ROW | {"gold": 1.0}, "gold is 1.0, expected a whole number"),
    (BASE, ROW | {"gold": "1"}, 'gold is "1", expected a whole number'),
    (BASE, ROW | {"gold": None}, "gold is null"),
    (BASE, ROW | {"gold": float("nan")}, "gold is NaN"),
    (BASE, ROW | {"choices": []}, "choices has no entries, expected at least two"),
    (BASE, ROW | {"choices": ["a"], "gold": 0}, "choices has 1 entries, expected at least two"),
    (BASE, ROW | {"choices": "ab"}, 'choices is "ab", expected a list of strings'),
    (BASE, ROW | {"choices": ["a", 3]}, r"choices\[1\] is 3, expected a string"),
    (BASE, ROW | {"choices": ["a", " "]}, r"choices\[1\] is empty"),
    (BASE, ROW | {"query": 3}, "query is 3, expected a string"),
    (BASE, ROW | {"query": "\n"}, "query is empty"),
    (BASE, ROW | {"query": "\ud800"}, "half a surrogate pair"),
    (SCHEMA, PAIR | {"context_options": ["a"]}, "context_options has 1 entries"),
    (SCHEMA, PAIR | {"gold": 2}, "gold is 2, expected 0 to 1"),
    (SCHEMA, {"context_options": ["a", "b"], "gold": 0}, "'continuation' is missing"),
    (LM, {"context": "a"}, "'continuation' is missing"),
    (LM, TEXT | {"continuation": ""}, "continuation is empty"),
    (LM, TEXT | {"context": ["a"]}, r'context is \["a"\], expected a string'),
    (PARTS, ROW, "the field 'category' is missing"),
    (PARTS, ROW | {"category": 3}, "category is 3, expected a string"),
    (PARTS, ROW | {"category": ""}, "category is empty"),
    (BASE, [ROW], "expected a JSON object, found "),
    (BASE, b"{not json}", "not JSON"),
    (BASE, b'{"query": "cut', "not JSON"),
    (BASE, b"[" * 100_000, "not JSON"),
    (BASE, b'{"gold": ' + b"9" * 5000 + b"}", "not JSON"),
    (BASE, b"\xef\xbb\xbf{}", "not JSON .*BOM"),
    (BASE, b'{"query": "caf\xe9"}', "not UTF-8 .* at byte 14"),
    (BASE, b"", "the row is empty"),
    (
        BASE,
        b'{"query": "a", "choices": ["b", "c"], "gold": 0, "gold": 1}',
        'the field "gold" appears twice; keep one',
    ),
    (BASE, b'{"query": "a", "extra": {"x": 1, "x": 1}}', 'the field "x" appears twice'),
    (BASE, b'{"' + b"k" * 100_000 + b'": 1, "' + b"k" * 100_000 + b'": 1}', r"the field \"k+\.\.\. appears twice"),
    (BASE, {"a\nb": 1, "c" * 100_000: 2}, r'the row has "a\\nb", "c+\.\.\.$'),
    (BASE, {f"field {number}": 0 for number in range(900)}, r'"field 1", .*, 894 more$'),
]


@pytest.mark.parametrize(("task", "row", "message"), BROKEN)
def test_each_broken_row_is_one_clear_error(tmp_path, task, row, message):
    good = {"multiple_choice": ROW, "schema": PAIR, "language_modeling": TEXT}[task.kind] | {"category": "x"}
    path = save(tmp_path / "own.jsonl", good, row, good)
    with pytest.raises(UserError, match=message) as error:
        read_items(path, task)
    assert str(error.value).startswith(f"{path}, row 2 (own): ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_files_that_are_not_the_tasks_are_refused(tmp_path):
    path = save(tmp_path / "own.jsonl", ROW)
    right = dataclasses.replace(BASE, sha256=digest(path.read_bytes()))
    assert len(read_items(path, right)) == 1
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(read_items(packed, right)) == 1  # the digest is of what the file holds
    save(path, ROW, ROW)
    with pytest.raises(UserError, match=rf"sha256 is {digest(path.read_bytes())}, expected {right.sha256}.*my disk"):
        read_items(path, right)
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"own\.jsonl: own: the file is empty"):
        read_items(path, BASE)
    for broken in (packed.read_bytes()[:-9], b"plain text", packed.read_bytes()[:15] + bytes(9)):
        packed.write_bytes(broken)
        with pytest.raises(UserError, match="not readable as gzip"):
            read_items(packed, BASE)
    with pytest.raises(UserError, match="no such file; own can be had from my disk"):
        read_items(tmp_path / "none.jsonl", BASE)


@pytest.mark.parametrize("name", ["own.jsonl", "own.jsonl.gz"])
def test_a_file_that_cannot_be_opened_is_one_clear_error(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=rf"{name}: own: cannot be read \(Is a directory\).*again \(my disk\)"):
        read_items(tmp_path / name, BASE)

    def closed(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", closed)
    with pytest.raises(UserError, match=r"cannot be searched for a/own\.jsonl \(Permission denied\); mend"):
        find_file(tmp_path, BASE)


def test_a_file_is_found_by_path_or_by_name(tmp_path):
    assert find_file(tmp_path, BASE) is None
    (tmp_path / "a").mkdir()
    for name in ("own.jsonl.gz", "own.jsonl", "a/own.jsonl.gz", "a/own.jsonl"):
        (tmp_path / name).write_bytes(b"")
        assert find_file(tmp_path, BASE) == tmp_path / name
    assert find_file(tmp_path / "nowhere", BASE) is None


def made(count):
    return [Item(index, digest(str(index // 2))[:16], "q", ("a", "b"), "", 0, "") for index in range(count)]


@given(st.integers(0, 60), st.integers(1, 70), st.integers(1, 70))
def test_subsets_are_nested_and_in_order(count, few, many):
    few, many = sorted((few, many))
    items = made(count)
    small, large = subset(items, few), subset(items, many)
    assert len(small) == min(few, count)
    assert set(small) <= set(large)
    assert [item.index for item in large] == sorted(item.index for item in large)
    assert subset(items, 0) == items


def test_a_subset_is_a_sample_that_no_process_changes():
    items = made(1000)
    found = [item.index for item in subset(items, 16)]
    assert max(found) > 500 > min(found)  # not the first rows of a file that may be sorted
    code = (
        "import tests.evaluation.tasks.test_items as t;"
        "print([item.index for item in t.subset(t.made(1000), 16)])"
    )  # fmt: skip
    root = Path(__file__).parents[3]
    for seed in "12":
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env={"PYTHONHASHSEED": seed}
        )
        assert run.stdout == f"{found}\n"


def test_what_is_written_is_read_again(tmp_path):
    write_jsonl([{"context": "a\u2028b", "continuation": "é"}, TEXT], tmp_path / "sub" / "own.jsonl")
    assert [item.query for item in read_items(tmp_path / "sub" / "own.jsonl", LM)] == ["a\u2028b", "one two"]
    assert "é".encode() in (tmp_path / "sub" / "own.jsonl").read_bytes()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the texts of the published tasks are not part of the repository")
def test_the_published_files_are_read_with_their_digests():
    tasks = read_tasks()
    manifest = json.loads((SHARED / "manifest.json").read_text())
    for name, entry in manifest.items():
        task = tasks[name.replace("_fewshot", "")]
        part = entry["rows"] < entry["rows_full"]
        if part and task.sha256:
            with pytest.raises(UserError, match="sha256"):
                read_items(SHARED / entry["file"], task)
        items = read_items(SHARED / entry["file"], dataclasses.replace(task, sha256="") if part else task)
        assert len(items) == entry["rows"]
        assert part or len(items) == task.items
