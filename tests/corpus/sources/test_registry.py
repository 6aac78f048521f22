"""The table of sources: the one that ships, and mistakes in one's own."""

import re
from pathlib import Path

import pytest

from smelt.corpus.documents.rules import rule
from smelt.corpus.sources.fetch import requirements
from smelt.corpus.sources.registry import read_sources
from smelt.errors import UserError

DESK = Path(__file__).parents[3] / "config" / "sources" / "desk.tsv"


def test_the_desk_table():
    sources = read_sources(DESK)
    categories = [source.category for source in sources]
    counts = {name: categories.count(name) for name in sorted(set(categories))}
    assert counts == {"Code": 7, "Finance": 8, "Knowledge": 9, "Math/STEM": 10, "Web": 5}
    for source in sources:
        rule(source.rule, source.source)
    lines = requirements(sources).splitlines()
    assert len(lines) == 33
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_selection_keeps_the_order_of_the_table():
    assert [source.source for source in read_sources(DESK, ["news", "c_libc"])] == ["c_libc", "news"]
    with pytest.raises(UserError, match=r"corpus.select: no source 'nonsense'"):
        read_sources(DESK, ["nonsense"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sha256", "abc", r"line 2: sha256 is 'abc', expected 64"),
        ("file", "one-1.0.tar.gz", r"line 2: file is .* expected the name of a pure-Python wheel"),
        ("file", "../one-none-any.whl", r"line 2: file is"),
        ("package", "--index-url", r"line 2: package is"),
        ("version", "1.0 --pre", r"line 2: version is"),
        ("source", "A b", r"line 2: source is"),
        ("licence", "", r"line 2: 'licence' is empty"),
        ("source", "two", r"source 'two' stands in two rows"),
        ("package", "two", r"package 'two' .* one release"),
    ],
)
def test_mistakes_name_row_and_column(corpus, column, value, message):
    corpus.add("one", {"a.txt": "text"})
    corpus.add("two", {"a.txt": "text"})
    corpus.rows[0][column] = value
    corpus.write()
    with pytest.raises(UserError, match=message):
        read_sources(corpus.table)


def test_no_table_no_rows_no_column(tmp_path):
    with pytest.raises(UserError, match="no file"):
        read_sources(tmp_path / "none.tsv")
    table = tmp_path / "table.tsv"
    table.write_text("source\tcategory\n")
    with pytest.raises(UserError, match="column 'package' is missing"):
        read_sources(table)
    table.write_text(DESK.read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match="no row"):
        read_sources(table)
    table.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        read_sources(table)
