"""Each split rule on a small file of its form."""

import csv
import gzip
import io
import json
import sqlite3

import pytest

from smelt.corpus.documents.pydoc import Unparsed
from smelt.corpus.documents.rules import RULES, rule
from smelt.errors import UserError
from tests.corpus.conftest import zip_bytes


def split(text: str, name: str, data: bytes | str) -> list[str]:
    function, argument = rule(text, "source")
    return list(function(name, data.encode() if isinstance(data, str) else data, argument))


def test_file():
    assert split("file", "a.txt", "\ufeffone\ntwo") == ["one\ntwo"]


def test_pydoc():
    code = '''"""Module."""
class Thing:
    """A thing."""
    size = 1
    """Its size."""
    def short(self):
        """Short."""
    def long(self):
        """%s"""
    def bare(self): ...
async def work():
    """Work.

        Indented.
    """
def nothing(): pass
''' % ("long " * 50 + "text")
    assert split("pydoc", "pack/__init__.py", code) == [
        "pack\n\nModule.",
        "pack.Thing\n\nA thing.\n\nsize: Its size.\n\nshort: Short.",
        "pack.Thing.long\n\n" + "long " * 50 + "text",
        "pack.work\n\nWork.\n\nIndented.",
    ]


@pytest.mark.parametrize(
    "code", [b"def (:", b"print 'old'", b"a = '\x00'", b"# coding: nonsense\n", b"\xff\xfe" + b"("]
)
def test_python_that_does_not_parse_is_said_so(code):
    with pytest.raises(Unparsed):
        split("pydoc", "a.py", code)


def test_pydoc_executes_nothing(tmp_path):
    marker = tmp_path / "ran"
    split("pydoc", "a.py", f'"""Doc."""\nopen({str(marker)!r}, "w")\n')
    assert not marker.exists()


def test_split():
    assert split(r"split:^###[ ]", "play.md", "head\n### I\none\n#### no\n### II\ntwo") == [
        "head\n", "### I\none\n#### no\n", "### II\ntwo",
    ]  # fmt: skip


def rows_of(*rows: list[str], delimiter: str = ",") -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    return buffer.getvalue()


def test_csv_columns():
    text = rows_of(["id", "Name", "Text"], ["1", "Apple", "red,\nround"], ["2", "", "x" * 200_000], delimiter="\t")
    assert split("csvcol:tab|Name,Text", "a.tsv", text) == ["Apple\nred,\nround", "x" * 200_000]
    with pytest.raises(UserError, match=r"a.tsv: no column 'Colour'"):
        split("csvcol:tab|Colour", "a.tsv", text)


def test_zipped_csv_keeps_rows_apart_that_are_not_utf8():
    text = rows_of(["title", "text"], ["One", "good"], ["Two", "b?d"]).encode().replace(b"?", b"\xff")
    assert split("zipcsv:title,text", "a.zip", zip_bytes({"a.csv": text})) == ["One\ngood", "Two\nb\udcffd"]
    with pytest.raises(UserError, match=r"a.zip: member '../a.csv' leaves"):
        split("zipcsv:text", "a.zip", zip_bytes({"../a.csv": text}))


def test_po():
    catalogue = (
        'msgid ""\nmsgstr ""\n"Language: xx\\n"\n\n# comment\nmsgid "one"\nmsgstr "eins"\n\n'
        'msgid "many"\nmsgid_plural "manys"\nmsgstr[0] "ein \\"Wort\\""\nmsgstr[1] ""\n"zwei "\n"Worte"\n\n'
        'msgid ""\n"long"\nmsgstr "lang"\n\nmsgid "untranslated"\nmsgstr ""\n'
    )
    assert split("po", "a.po", catalogue) == ['eins\nein "Wort"\nzwei Worte\nlang']


def test_icd():
    xml = (
        "<t><section><desc>s</desc><diag><name>A00</name><desc>Cholera</desc><includes><note>all</note></includes>"
        "<diag><name>A00.0</name><desc>Classical &amp; more</desc></diag></diag></section></t>"
    )
    assert split("icd", "a.xml", xml) == ["A00 Cholera\nincludes: all\nA00.0 Classical & more"]


@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY a "aaaa">', '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a SYSTEM "http://127.0.0.1/x"> %a;'],
)
def test_xml_entities_are_refused(declaration):
    with pytest.raises(UserError, match=r"a.xml: declares XML entities"):
        split("icd", "a.xml", f"<!DOCTYPE t [{declaration}]><t>&a;</t>")
    with pytest.raises(UserError, match="not readable as XML"):
        split("icd", "a.xml", "<t>")


def test_factbook():
    country = {
        "Government": {"Country name": {"conventional short form": {"text": "Utopia"}}},
        "Geography": {"Area": {"total": {"text": "3 sq&nbsp;km"}, "note": "<p>small</p>"}, "Climate": {"text": "mild"}},
        "Empty": {},
    }
    assert split("factbook", "ut.json", json.dumps(country)) == [
        "Utopia: Government\nconventional short form: Utopia",
        "Utopia: Geography\ntotal: 3 sq km\nArea note: small\nClimate: mild",
    ]


def test_kjv(tmp_path):
    path = tmp_path / "bible.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE Books (TestamentID, BookID, LongName)")
        connection.execute("CREATE TABLE Bible (TestamentID, BookID, ChapterID, VerseID, Passage1, Passage2)")
        connection.executemany("INSERT INTO Books VALUES (?, ?, ?)", [(1, 1, "Genesis"), (2, 1, "Matthew")])
        rows = [(2, 1, 1, 1, "1:1 d", ""), (1, 1, 1, 2, "1:2 b", "c"), (1, 1, 1, 1, "1:1 a", None)]
        connection.executemany("INSERT INTO Bible VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    assert split("kjv", "a.db", path.read_bytes()) == [
        "Genesis, chapter 1\n1:1 a\n1:2 b\nc",
        "Matthew, chapter 1\n1:1 d",
    ]
    with pytest.raises(UserError, match="SQLite"):
        split("kjv", "a.db", b"SQLite? no")


def test_registry():
    records = {
        "1": {"name": "One", "description": "<b>long</b> enough"},
        "2": {"name": "x" * 80},
        "3": {"description": "a"},
    }
    assert split("registry:10", "a.json", json.dumps(records)) == ["One\nlong enough"]
    with pytest.raises(UserError, match=r"a.json: not readable as JSON"):
        split("registry:10", "a.json", "{")


def test_sentences_are_unique():
    tree = {
        "a": ["One sentence is here. Two is there.", "Label, without, any, full, stop"],
        "b": "Two is there. Three is new.",
    }
    data = gzip.compress(json.dumps(tree).encode())
    assert split("imf:12", "a.json.gz", data) == ["One sentence is here. Two is there.", "Three is new."]


def test_botocore():
    model = {
        "metadata": {"serviceFullName": "Queue"},
        "documentation": "<p>A queue.</p>",
        "operations": {"Send": {"documentation": "<p>Sends.</p>", "input": {"shape": "S"}}, "Undocumented": {}},
        "shapes": {"S": {"members": {"Body": {"documentation": "The <code>text</code>."}, "Id": {}}}},
    }
    data = gzip.compress(json.dumps(model).encode())
    assert split("botocore", "data/queue/2020/service-2.json.gz", data) == [
        "Queue\n\nA queue.", "Queue: Send\n\nSends.\n\nBody: The text.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["unknown", "file:x", "split", "split:(", "csvcol:comma", "csvcol:pipe|a", "registry:x"]
)
def test_bad_rules(text):
    with pytest.raises(UserError, match=r"source 'mine': .*rule"):
        rule(text, "mine")


def test_every_rule_is_tested_here():
    assert set(RULES) == set("file pydoc split csvcol zipcsv po icd factbook kjv registry imf botocore".split())
