"""Names of the streams of contexts, one of each kind for each seed, and where in the text they start.

Seed 0 reads `stable` and `decay` from their first document, seed 1 `stable-seed1` and `decay-seed1`: the same documents
from another one on. So the noise between seeds holds the choice of text, and a further seed changes no shard.
"""

SEED = "-seed"
GOLDEN = (5**0.5 - 1) / 2


def stream_name(kind: str, seed: int) -> str:
    """The stream of a kind, stable or decay, as a seed reads it: its folder below results/corpus/."""
    return f"{kind}{SEED}{seed}" if seed else kind


def stream_kind(name: str) -> str:
    """The kind of a stream: its name in documents.parquet, whatever the seed."""
    return name.partition(SEED)[0]


def stream_start(name: str) -> float:
    """Share of the documents, 0 to 1, that a stream passes over at first and reads at its end.

    Multiples of the golden ratio, modulo 1, keep the starts of any number of first seeds far apart.
    """
    return int(name.partition(SEED)[2] or 0) * GOLDEN % 1.0
