"""How much of a held-out document stands in the training text, word for word.

Near-duplicates (smelt.corpus.documents.neighbours) compare whole documents, and so miss one that contains a passage of
another. Here a document is cut into all its runs of 13 words, the length that GPT-3's authors chose (arXiv 2005.14165,
appendix C). Its overlap is the share of them that stand in any training document.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHINGLE = 13  # words
WORD = re.compile(rb"[\w\x80-\xff]+")
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no word of a run is lost modulo 2^64


class Overlap(NamedTuple):
    """What a held-out document has in common with the training text."""

    shared: int  # of its shingles that stand in a training document, each counted as often as it occurs
    shingles: int  # none where the document has no word

    @property
    def share(self) -> float:
        """0 to 1; 0 where the document has no word."""
        return self.shared / max(1, self.shingles)


def shingles(text: bytes) -> NDArray[np.uint64]:
    """64-bit hashes of a text's runs of `SHINGLE` words, in order; a shorter text is one run."""
    words = WORD.findall(text.lower())
    if not words:
        return np.zeros(0, dtype=np.uint64)
    hashes = np.fromiter(map(zlib.crc32, words), dtype=np.uint64, count=len(words))
    size = min(SHINGLE, len(words))
    found = np.zeros(len(words) - size + 1, dtype=np.uint64)
    for place in range(size):  # a polynomial modulo 2^64: sums wrap, as they may
        found = found * BASE + hashes[place : place + len(found)]
    return found


def overlaps(heldout: Sequence[bytes], training: Iterable[bytes]) -> list[Overlap]:
    """The overlap of each held-out text with the training texts together.

    Memory goes with the held-out text alone, about 16 bytes a word; training texts are read once, one at a time.
    """
    runs = [shingles(text) for text in heldout]
    known = np.unique(np.concatenate(runs)) if runs else np.zeros(0, dtype=np.uint64)
    if not known.size:
        return [Overlap(0, 0) for _ in heldout]
    stands = np.zeros(known.size, dtype=bool)
    for text in training:
        found = shingles(text)
        places = np.searchsorted(known, found).clip(max=known.size - 1)
        stands[places[known[places] == found]] = True
    return [Overlap(int(stands[np.searchsorted(known, own)].sum()), int(own.size)) for own in runs]
