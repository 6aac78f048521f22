"""How a file falls into documents: one function per rule, and the table that names them.

A rule is written `name` or `name:argument` in the table of sources. Its function takes a file's name,
its bytes and the argument, and yields documents as text. Bytes that are not UTF-8 come through as lone
surrogates, so that cleaning drops and counts the document that holds them, not the whole file.
"""

import csv
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterator

from smelt.corpus.documents import structured
from smelt.corpus.documents.pydoc import pydoc
from smelt.corpus.documents.structured import decode
from smelt.corpus.sources import archive
from smelt.errors import UserError

Rule = Callable[[str, bytes, str], Iterator[str]]
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";"}
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # of the longest cell, beyond the module's 131,072


def whole_file(name: str, data: bytes, _: str) -> Iterator[str]:
    """One file is one document."""
    yield decode(data)


def split(name: str, data: bytes, pattern: str) -> Iterator[str]:
    """A file cut before each line that matches the regular expression."""
    text = decode(data)
    starts = [match.start() for match in re.finditer(pattern, text, re.MULTILINE)]
    edges = [0, *starts, len(text)]
    yield from (text[start:end] for start, end in itertools.pairwise(edges) if end > start)


def csv_columns(name: str, data: bytes, argument: str) -> Iterator[str]:
    """`DELIMITER|COLUMN,COLUMN...`: one row is one document, its filled cells joined by line breaks."""
    delimiter, _, columns = argument.partition("|")
    yield from _rows(name, data, DELIMITERS[delimiter], columns.split(","))


def zip_csv(name: str, data: bytes, columns: str) -> Iterator[str]:
    """Like `csvcol`, of the comma-separated files in a zip archive within the package."""
    inner = archive.open_zip(data, name)
    for member in archive.matching(inner, "*.csv", name):
        content = archive.read_member(inner, member, name)
        yield from _rows(f"{name}/{member}", content, ",", columns.split(","))


def _rows(name: str, data: bytes, delimiter: str, columns: list[str]) -> Iterator[str]:
    reader = csv.DictReader(io.StringIO(decode(data), newline=""), delimiter=delimiter)
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise UserError(f"{name}: no column {missing[0]!r}; fix `rule` in the table of sources")
    try:
        for row in reader:
            yield "\n".join(cell for column in columns if (cell := (row[column] or "").strip()))
    except csv.Error as error:
        raise UserError(f"{name}, line {reader.line_num}: not readable as CSV ({error})") from None


PO_LINE = re.compile(r'(msgid|msgid_plural|msgstr|msgctxt)?(?:\[\d+\])?\s*"(.*)"')
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "r": ""}


def po(name: str, data: bytes, _: str) -> Iterator[str]:
    """All translations of a gettext catalogue are one document, the catalogue's header left out."""
    translations: list[str] = []
    keyword = header = ""
    for line in decode(data).splitlines():
        match = PO_LINE.fullmatch(line.strip())
        if not match:
            continue
        text = re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), match[2])
        if match[1]:
            keyword = match[1]
            if keyword == "msgid":
                header = text
            elif keyword == "msgstr":
                translations.append("")
        elif keyword == "msgid":
            header += text
        if keyword == "msgstr" and header:  # the header is the translation of the empty string
            translations[-1] += text
    yield "\n".join(text for text in translations if text)


RULES: dict[str, tuple[Rule, str]] = {
    # name: function, the form that its argument must have
    "file": (whole_file, ""),
    "pydoc": (pydoc, ""),
    "split": (split, ".+"),
    "csvcol": (csv_columns, rf"({'|'.join(DELIMITERS)})\|[^|]+"),
    "zipcsv": (zip_csv, ".+"),
    "po": (po, ""),
    "icd": (structured.icd, ""),
    "factbook": (structured.factbook, ""),
    "kjv": (structured.kjv, ""),
    "registry": (structured.registry, r"\d+"),
    "imf": (structured.sentences, r"\d+"),
    "botocore": (structured.service, ""),
}


def rule(text: str, source: str) -> tuple[Rule, str]:
    """The function of a rule as written in the table, and its argument."""
    name, _, argument = text.partition(":")
    if name not in RULES:
        raise UserError(f"source {source!r}: unknown rule {name!r}; known are {', '.join(RULES)}")
    function, form = RULES[name]
    if not re.fullmatch(form, argument):
        raise UserError(f"source {source!r}: rule {text!r} needs {name}:ARGUMENT of the form {form or '(nothing)'}")
    if function is split:
        try:
            re.compile(argument)
        except re.error as error:
            raise UserError(f"source {source!r}: rule {text!r} is no regular expression ({error})") from None
    return function, argument
