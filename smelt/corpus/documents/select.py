"""Which documents a study reads, and in which order: shares of the sources, split, interleaving.

Everything follows from the hash of a document's text. Its first half orders the documents of a source,
its second half decides the stream, so the two are independent; more text adds documents and moves none
to another stream.
"""

from collections.abc import Mapping, Sequence

from smelt.corpus.documents.clean import Document
from smelt.errors import UserError

STREAMS = ("decay", "heldout", "stable")  # sorted, as in documents.parquet
UNIT = float(2**64)


def stream(identity: str, heldout_share: float, decay_share: float) -> str:
    """The stream of a document: held-out by its hash, else decay by the same number rescaled, else stable."""
    number = int(identity[32:48], 16) / UNIT
    if number < heldout_share:
        return "heldout"
    return "decay" if (number - heldout_share) / (1 - heldout_share) < decay_share else "stable"


def stream_shares(heldout_share: float, decay_share: float) -> dict[str, float]:
    """The fraction of the text that each stream is given."""
    train = 1 - heldout_share
    return {"decay": train * decay_share, "heldout": heldout_share, "stable": train * (1 - decay_share)}


def source_weights(categories: Mapping[str, str], weights: Mapping[str, float]) -> dict[str, float]:
    """Each source's share of the text: its category's weight, shared equally by the category's sources.

    Raises UserError on a weight of a category that no source has.
    """
    if unknown := sorted(set(weights) - set(categories.values())):
        known = ", ".join(sorted(set(categories.values())))
        raise UserError(f"corpus.weights: no source of category {unknown[0]!r}; known are {known}")
    members = list(categories.values())
    shares = {source: weights.get(category, 1.0) / members.count(category) for source, category in categories.items()}
    total = sum(shares.values())
    return {source: share / total for source, share in shares.items()}


def allot(total: float, weights: Mapping[str, float], available: Mapping[str, int]) -> dict[str, float]:
    """Share `total` bytes by weight; a source that has less gives all, and the others share the rest."""
    given: dict[str, float] = {}
    left = dict(weights)
    while left:
        unit = max(0.0, total - sum(given.values())) / sum(left.values())
        short = [source for source in left if available[source] <= unit * left[source]]
        if not short:
            return given | {source: unit * weight for source, weight in left.items()}
        for source in short:
            given[source] = available[source]
            del left[source]
    return given


def interleave(documents: Sequence[Document]) -> list[Document]:
    """One order of all sources' documents in which every prefix has about the mix of the whole.

    A document stands at the fraction of its source that lies before its middle, so that at any place each
    source is within one document of its share. Within a source, documents keep the order of their hashes.
    """
    totals: dict[str, int] = {}
    for document in documents:
        totals[document.source] = totals.get(document.source, 0) + len(document.text)
    before = dict.fromkeys(totals, 0)
    placed = []
    for document in sorted(documents):
        size = len(document.text)
        middle = before[document.source] + size / 2
        placed.append((middle / totals[document.source], document.source, document.id, document))
        before[document.source] += size
    return [document for *_, document in sorted(placed)]
