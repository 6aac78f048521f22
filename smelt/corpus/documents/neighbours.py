"""Near-duplicates: MinHash over shingles of five words, Jaccard similarity of at least 0.8."""

import re
import zlib
from collections.abc import Iterable

from datasketch import MinHash, MinHashLSH

SHINGLE = 5  # words
PERMUTATIONS = 64
SIMILARITY = 0.8
# 16 bands of 4 rows: two documents of similarity 0.8 share a band, and are compared, with probability
# 1 - (1 - 0.8^4)^16 = 0.9998; of the pairs so found, those of an estimated similarity below 0.8 are let go.
BANDS = (16, 4)
WORD = re.compile(rb"[\w\x80-\xff]+")


def signature(text: bytes) -> MinHash:
    """MinHash of a document's shingles; a document of fewer than five words is one shingle."""
    words = WORD.findall(text.lower()) or [text]
    last = max(1, len(words) - SHINGLE + 1)
    shingles = {b" ".join(words[i : i + SHINGLE]) for i in range(last)}
    # crc32 is as even as MinHash needs, and thirty times as fast as a cryptographic hash from Python.
    minhash = MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=zlib.crc32)
    minhash.update_batch(sorted(shingles))
    return minhash


class Index:
    """Documents to look near-duplicates up in."""

    def __init__(self, texts: Iterable[tuple[str, bytes]] = ()) -> None:
        self._lsh = MinHashLSH(num_perm=PERMUTATIONS, params=BANDS)
        self._signatures: dict[str, MinHash] = {}
        for identity, text in texts:
            self.add(identity, signature(text))

    def add(self, identity: str, minhash: MinHash) -> None:
        self._signatures[identity] = minhash
        self._lsh.insert(identity, minhash, check_duplication=False)

    def has_twin(self, minhash: MinHash) -> bool:
        """Whether any document of the index is at least `SIMILARITY` alike."""
        return any(minhash.jaccard(self._signatures[key]) >= SIMILARITY for key in self._lsh.query(minhash))
