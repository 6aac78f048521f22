"""A last-word task in LAMBADA's form from the held-out documents of the study's own corpus.

Each item is a passage of whole sentences whose last word stands earlier in the passage too, as most of LAMBADA's do
(Paperno et al. 2016): the context asks for a word that only the wider passage gives away. The model has seen the kind
of text and none of the documents.
"""

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from smelt.errors import UserError, command
from smelt.evaluation.tasks.items import write_jsonl
from smelt.job import read_job
from smelt.spec import digest

MODULE = "smelt.evaluation.tasks.last_word"


@dataclasses.dataclass(frozen=True)
class Settings:
    items: int = 1000  # as many as there are, where the documents hold fewer
    document_items: int = 3  # at the most of one document
    fewest_words: int = 20  # of a passage
    most_words: int = 100

    def __post_init__(self) -> None:
        if self.items < 1:
            raise UserError(f"items is {self.items}, expected at least 1")


class Passage(NamedTuple):
    """Sentences `first` to `last` of one document, its last word apart."""

    order: str  # hash of the content
    source: str
    document: str
    first: int
    last: int
    sentence: str  # the last one
    context: str
    word: str


COLUMNS = ("id", "source", "stream", "text")
# A sentence of prose: nothing of code, tables, links or mark-up.
OPENING = re.compile(r"[\"'“‘(]*[^\W\d_]")
ENDING = re.compile(r"[.!?][\"'”’)]*")
FOREIGN = re.compile(r"[{}<>=|\\_#*@/~`^\[\]\t$%&+]|--")
LAST = re.compile(r"(?P<context>.*\s)(?P<word>[^\W\d_]{4,})[.!?][\"'”’)]*", re.DOTALL)
SENTENCE_WORDS = 4  # at the least


def sentences(text: str) -> Iterator[list[str]]:
    """Runs of neighbouring sentences of prose; anything else ends a run."""
    run: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in _split(paragraph):
            if _is_prose(sentence):
                run.append(sentence)
                continue
            if run:
                yield run
            run = []
    if run:
        yield run


def _split(paragraph: str) -> Iterator[str]:
    """A paragraph cut after each word that ends a sentence and stands before a capital."""
    words = paragraph.split()
    start = 0
    for place, word in enumerate(words):
        following = words[place + 1].lstrip("\"'“‘(") if place + 1 < len(words) else "A"
        if re.search(ENDING.pattern + "$", word) and following[:1].isupper():
            yield " ".join(words[start : place + 1])
            start = place + 1
    if start < len(words):
        yield " ".join(words[start:])


def _is_prose(sentence: str) -> bool:
    opening = OPENING.match(sentence)
    return (
        opening is not None
        and opening[0][-1].isupper()
        and not sentence.isupper()
        and re.search(ENDING.pattern + "$", sentence) is not None
        and len(sentence.split()) >= SENTENCE_WORDS
        and FOREIGN.search(sentence) is None
    )


def passages(text: str, source: str, document: str, settings: Settings) -> list[Passage]:
    """For each sentence of a document the shortest passage that ends with it and holds its last word twice."""
    found: list[Passage] = []
    offset = 0
    for run in sentences(text):
        for last, sentence in enumerate(run):
            passage = _shortest(run, last, settings)
            if passage is not None:
                first, context, word = passage
                order = digest(f"{context}\0{word}")
                found.append(
                    Passage(order, source, document, offset + first, offset + last, sentence, context, word)
                )  # fmt: skip
        offset += len(run)
    return found


def _shortest(run: Sequence[str], last: int, settings: Settings) -> tuple[int, str, str] | None:
    """(first sentence, context, last word) of at least two sentences and the wanted length; None if there is none."""
    for first in range(last - 1, -1, -1):
        passage = " ".join(run[first : last + 1])
        words = len(passage.split())
        if words > settings.most_words or run[first] == run[last]:  # a sentence said again asks for no thought
            return None
        match = LAST.fullmatch(passage)
        if match is None:
            return None
        again = re.search(rf"\b{re.escape(match['word'])}\b", match["context"], re.IGNORECASE)
        if words >= settings.fewest_words and again:
            return first, match["context"].strip(), match["word"]
    return None


def apart(found: Iterable[Passage], most: int) -> list[Passage]:
    """At most `most` passages of one document, in the order of their hash, none overlapping another."""
    taken: list[Passage] = []
    for passage in sorted(found):
        if len(taken) < most and all(passage.first > other.last or passage.last < other.first for other in taken):
            taken.append(passage)
    return taken


def chosen(found: Iterable[Passage], count: int) -> list[Passage]:
    """`count` passages by turns of their sources, no last sentence twice; more of them begin with the same ones."""
    passages = pd.DataFrame(sorted(found), columns=list(Passage._fields)).drop_duplicates("sentence")
    turn = passages.groupby("source").cumcount()
    by_turns = passages.loc[turn.sort_values(kind="stable").index]  # within a turn in the order of the hash
    return [Passage(*row) for row in by_turns.head(count).itertuples(index=False, name=None)]


def heldout(path: str | Path) -> Iterator[dict[str, str]]:
    """The held-out rows of documents.parquet, a part of the file at a time. Raises UserError."""
    try:
        with pq.ParquetFile(path) as file:
            if missing := sorted(set(COLUMNS) - set(file.schema_arrow.names)):
                raise UserError(f"{path}: no column {missing[0]!r}, so it is no documents.parquet of a corpus")
            for batch in file.iter_batches(batch_size=128, columns=COLUMNS):
                yield from (row for row in batch.to_pylist() if row["stream"] == "heldout")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from None


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["documents"], ["out"])
    settings, documents = job.settings, job.path("documents")
    found: list[Passage] = []
    for row in heldout(documents):
        found += apart(passages(row["text"], row["source"], row["id"], settings), settings.document_items)
    rows = [
        {"context": p.context, "continuation": p.word, "source": p.source, "document": p.document}
        for p in chosen(found, settings.items)
    ]
    if not rows:
        raise UserError(
            f"{documents}: no held-out passage ends with a word that stands earlier in it; leave the task"
            " last_word out, or hold out more text"
        )
    write_jsonl(rows, job.path("out"))
    print(f"last_word: {len(rows)} of {settings.items} items asked for", file=sys.stderr)


if __name__ == "__main__":
    command(main)
