"""Rules for single formats: classifications in XML, records in JSON, chapters in SQLite.

Everything is read with the standard library, and nothing that a file says is obeyed: XML may declare no
entities, a database is opened read-only from a temporary copy.
"""

import html
import json
import re
import sqlite3
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.parsers import expat

from smelt.corpus.sources import archive
from smelt.errors import UserError

TAG = re.compile(r"<[^<>]*>")
BREAK = re.compile(r"<\s*(?:br|/p|/li|/h\d|/tr|/dt|/dd)\s*/?>", re.IGNORECASE)
SENTENCE_END = re.compile(r"[a-z)][.!?](?:\s|$)")
SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+")
SPACES = re.compile(r"[ \t\xa0]+")


def decode(data: bytes) -> str:
    """UTF-8 text without its byte-order mark; a byte that is not UTF-8 becomes a lone surrogate."""
    return data.decode("utf-8-sig", errors="surrogateescape")


def plain(markup: str) -> str:
    """Text of a piece of HTML: tags and entities resolved, one paragraph or list item a line."""
    text = html.unescape(TAG.sub("", BREAK.sub("\n", markup)))
    lines = (SPACES.sub(" ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _json(name: str, data: bytes) -> Any:
    try:
        return json.loads(decode(archive.decompress(data, name)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{name}: not readable as JSON ({error})") from None


def parse_xml(name: str, data: bytes) -> ElementTree.Element:
    """The tree of an XML file. Raises UserError where it declares an entity, whatever it stands for."""
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()

    def refuse(*_: object) -> int:
        raise UserError(f"{name}: declares XML entities, which could expand without bound; the file is refused")

    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler = lambda tag, attributes: builder.start(tag, attributes)
    parser.EndElementHandler = lambda tag: builder.end(tag)
    parser.CharacterDataHandler = builder.data
    parser.buffer_text = True
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserError(f"{name}: not readable as XML ({error})") from None
    return builder.close()


def icd(name: str, data: bytes, _: str) -> Iterator[str]:
    """ICD-10-CM: one three-character category with its codes and notes is one document."""
    for section in parse_xml(name, data).iter("section"):
        for category in section.findall("diag"):
            yield "\n".join(_code(category))


def _code(node: ElementTree.Element) -> Iterator[str]:
    """Lines of a code: `A00.0 Cholera ...`, its notes, then the codes below it."""
    yield f"{node.findtext('name', '')} {node.findtext('desc', '')}".strip()
    for child in node:
        if child.tag == "diag":
            yield from _code(child)
        elif child.tag not in ("name", "desc"):
            for note in child.iter("note"):
                yield f"{child.tag}: {(note.text or '').strip()}"


def factbook(name: str, data: bytes, _: str) -> Iterator[str]:
    """World Factbook: one section of one country is one document, headed by both names."""
    country_data = _json(name, data)
    naming = country_data.get("Government", {}).get("Country name", {})
    forms = ("conventional short form", "conventional long form")
    country = next((text for form in forms if (text := naming.get(form, {}).get("text")) not in (None, "none")), None)
    title = plain(country) if country else Path(name).stem
    for section, content in country_data.items():
        lines = list(_facts("", content))
        if lines:
            yield "\n".join([f"{title}: {section}", *lines])


def _facts(label: str, node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield f"{label}: {plain(node)}" if label else plain(node)
    elif isinstance(node, dict):
        for key, value in node.items():
            inner = label if key == "text" else " ".join([label, key.strip()]).strip() if key == "note" else key.strip()
            yield from _facts(inner, value)


def kjv(name: str, data: bytes, _: str) -> Iterator[str]:
    """King James Bible: one chapter is one document."""
    query = (
        "SELECT books.LongName, verses.ChapterID, verses.Passage1, verses.Passage2 FROM Bible AS verses"
        " JOIN Books AS books ON books.BookID = verses.BookID AND books.TestamentID = verses.TestamentID"
        " ORDER BY verses.TestamentID, verses.BookID, verses.ChapterID, verses.VerseID"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "copy.db"
        file.write_bytes(data)
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as connection:
                rows = connection.execute(query).fetchall()
        except sqlite3.Error as error:
            raise UserError(f"{name}: not readable as the expected SQLite database ({error})") from None
    chapters: dict[tuple[str, int], list[str]] = {}
    for book, chapter, *passages in rows:
        chapters.setdefault((book, chapter), []).extend(passage.strip() for passage in passages if passage)
    for (book, chapter), verses in chapters.items():
        yield "\n".join([f"{book}, chapter {chapter}", *verses])


def registry(name: str, data: bytes, shortest: str) -> Iterator[str]:
    """Records with a name and a description of at least so many characters together."""
    for record in _json(name, data).values():
        description = (record.get("description") or "").strip()
        text = f"{record.get('name') or ''}\n{plain(description)}".strip()
        if description and len(text) >= int(shortest):
            yield text


def sentences(name: str, data: bytes, shortest: str) -> Iterator[str]:
    """Each string of at least so many characters that says anything new: the sentences not met before.

    A string without a full stop is a label in a classification, and left out.
    """
    seen: set[str] = set()
    for text in _strings(_json(name, data)):
        if len(text) < int(shortest) or not SENTENCE_END.search(text):
            continue
        new = [part for part in SENTENCE_BREAK.split(plain(text)) if part not in seen]
        seen.update(new)
        document = " ".join(new)
        if len(document) >= int(shortest):
            yield document


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _strings(value)


def service(name: str, data: bytes, _: str) -> Iterator[str]:
    """A service's description: one document for it, one for each operation with its parameters."""
    model = _json(name, data)
    title = model["metadata"].get("serviceFullName", Path(name).parent.parent.name)
    if text := plain(model.get("documentation", "")):
        yield f"{title}\n\n{text}"
    for operation, content in model["operations"].items():
        text = plain(content.get("documentation", ""))
        shape = model["shapes"].get(content.get("input", {}).get("shape"), {})
        members = ((key, plain(member.get("documentation", ""))) for key, member in shape.get("members", {}).items())
        parameters = [f"{key}: {words}" for key, words in members if words]
        if text:
            yield "\n\n".join([f"{title}: {operation}", text, *parameters])
