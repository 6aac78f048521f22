"""The last-word task: held-out prose only, passages that give their last word away, a spread over sources."""

import itertools
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt.errors import UserError
from smelt.evaluation.tasks.items import read_items
from smelt.evaluation.tasks.last_word import Settings, apart, chosen, main, passages, sentences
from smelt.evaluation.tasks.registry import read_tasks

SETTINGS = Settings(fewest_words=12, most_words=30)
STORY = (
    "The harbour was quiet that morning. A small boat with a lantern drifted along the wall. "
    "Nobody had seen the owner since winter. The keeper walked down and untied the lantern."
)


def words_of(text):
    return [(passage.context, passage.word) for passage in passages(text, "s", "d", SETTINGS)]


def test_the_shortest_passage_that_holds_the_last_word_twice():
    context = STORY.removeprefix("The harbour was quiet that morning. ").removesuffix(" lantern.")
    assert words_of(STORY) == [(context, "lantern")]


@pytest.mark.parametrize(
    "text",
    [
        STORY.replace("a lantern", "a basket"),  # nothing gives it away
        STORY.replace("lantern.", "map.").replace("lantern", "map"),  # too short to be a word of content
        STORY.replace("a lantern", "lanterns"),  # only a part of another word
        STORY.replace("a lantern", "a skylantern"),
        STORY.replace("Nobody had", "Nobody (see `owner_of`) had"),  # mark-up between
        "A lantern drifted slowly past. The keeper untied the lantern.",  # too short
        STORY.replace("Nobody", "if (x) { return nobody; }\n\nNobody"),  # code between
        STORY.replace(
            "winter.", "winter. " + "Nothing at all moved on the grey water for many long days. " * 2
        ),  # too far away
        "The lantern hung over the lantern.",  # one sentence
        STORY.removesuffix("."),  # no end
        "We saw the grey lantern on the old wall. It was quite dark. We saw the grey lantern on the old wall.",  # again
    ],
)
def test_passages_that_do_not_qualify(text):
    assert words_of(text) == []


def test_case_does_not_hide_a_word_and_quotes_end_a_sentence():
    text = STORY.replace("A small boat with a lantern", "Lantern light").replace("the lantern.", "the “lantern.”")
    assert words_of(text) == []  # an opening quote before the word stays no part of it
    text = STORY.replace("A small boat with a lantern", "Lantern light").replace("the lantern.", "the old lantern.”")
    assert [word for _, word in words_of(text)] == ["lantern"]


def test_sentences_are_cut_at_capitals_and_runs_at_what_is_no_prose():
    text = "It rained at 3.5 mm an hour. It did so e.g. in May. He said so!\n\nx = 1.\n\nThen it was over again."
    assert list(sentences(text)) == [
        ["It rained at 3.5 mm an hour.", "It did so e.g. in May."],
        ["Then it was over again."],
    ]


LOOKS = [("tower", "tall"), ("bridge", "grey")]


def test_passages_of_a_document_do_not_overlap():
    text = " ".join(f"The {name} was old and {look}. We still liked the {name}." for name, look in LOOKS)
    text += " In the end we sold the tower. Then we bought back the bridge."
    found = passages(text, "s", "d", Settings(fewest_words=8, most_words=60))
    assert len(found) == 4
    taken = apart(found, 3)
    spans = sorted((passage.first, passage.last) for passage in taken)
    assert 1 <= len(taken) <= 3
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    assert apart(reversed(found), 3) == taken
    assert len(apart(found, 1)) == 1


def story(thing, place):
    return (
        f"There was a {thing} near the {place} for many years. People came to see it on every feast. "
        f"Then a storm took all of it away. Nobody in that {place} built another {thing}."
    )


@pytest.fixture
def documents(tmp_path):
    things = "castle chapel market temple fountain statue garden windmill orchard lighthouse".split()
    rows = [
        {"id": f"{source}{number}", "source": source, "stream": stream, "text": story(thing, f"{source}-{stream} town")}
        for source, count in (("big", 10), ("small", 2), ("other", 1))
        for stream in ("stable", "heldout", "decay")
        for number, thing in enumerate(things[:count])
    ]
    rows += [{"id": "code", "source": "code", "stream": "heldout", "text": "def f(x):\n    return x\n" * 20}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "documents.parquet", row_group_size=4)
    return tmp_path / "documents.parquet"


def run(documents, out, **settings):
    main(["--spec", json.dumps(settings), "--documents", str(documents), "--out", str(out)])
    return [json.loads(line) for line in out.read_bytes().split(b"\n") if line]


def test_items_come_from_held_out_documents_by_turns_of_their_sources(documents, tmp_path):
    rows = run(documents, tmp_path / "out.jsonl", items=5)
    assert all("-heldout town" in row["context"] for row in rows)
    assert sorted(row["source"] for row in rows[:3]) == ["big", "other", "small"]
    assert sorted(row["source"] for row in rows[3:]) == ["big", "small"]
    for row in rows:
        assert re.search(rf"\b{row['continuation']}\b", row["context"])
        assert row["context"].endswith("built another")


def test_more_items_begin_with_the_same_ones_and_the_order_of_documents_does_not_matter(documents, tmp_path):
    few = run(documents, tmp_path / "few.jsonl", items=4)
    many = run(documents, tmp_path / "many.jsonl")
    assert many[:4] == few
    assert len(many) == 13
    table = pq.read_table(documents)
    pq.write_table(table.take(list(reversed(range(table.num_rows)))), documents)
    again = run(documents, tmp_path / "again.jsonl")
    assert again == many
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "many.jsonl").read_bytes()


def test_what_is_written_is_a_file_of_the_task(documents, tmp_path):
    rows = run(documents, tmp_path / "out.jsonl")
    items = read_items(tmp_path / "out.jsonl", read_tasks()["last_word"])
    assert [(item.query, *item.choices) for item in items] == [(row["context"], row["continuation"]) for row in rows]


def test_text_without_such_passages_and_broken_files_are_explained(documents, tmp_path):
    table = pq.read_table(documents)
    out = tmp_path / "out.jsonl"
    pq.write_table(table.filter(pa.compute.equal(table["source"], "code")), tmp_path / "code.parquet")
    with pytest.raises(UserError, match="no held-out passage ends with a word"):
        run(tmp_path / "code.parquet", out)
    assert not out.exists()
    with pytest.raises(UserError, match=r"none\.parquet: no such file"):
        run(tmp_path / "none.parquet", out)
    pq.write_table(table.drop_columns("text"), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="no column 'text'"):
        run(tmp_path / "other.parquet", out)
    (tmp_path / "text.parquet").write_text("plain")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        run(tmp_path / "text.parquet", out)
    with pytest.raises(UserError, match="items is 0"):
        run(documents, out, items=0)


def test_a_last_sentence_of_two_documents_is_asked_for_once():
    found = [passage for source in "ab" for passage in passages(story("castle", "hill"), source, source, Settings())]
    assert len(found) == 2
    assert len(chosen(found, 5)) == 1


def test_no_source_crowds_out_another():
    text = " ".join(story(thing, "hill") for thing in ("castle", "chapel", "market", "temple"))
    found = [
        passage
        for source, document in (("a", "1"), ("a", "2"), ("b", "3"))
        for passage in apart(passages(text.replace("hill", f"hill{document}"), source, document, Settings()), 3)
    ]
    assert {passage.source for passage in chosen(found, 2)} == {"a", "b"}
