"""Settings of the job that cleans and chooses documents. Needs none of its libraries."""

import dataclasses

from smelt.corpus.settings import Selected
from smelt.setting import setting


@dataclasses.dataclass(frozen=True)
class Settings(Selected):
    """How much text is read of which sources, and how its documents are split."""

    megabytes: float = setting(
        "Text to read, in MB (10^6 bytes) over all sources, shared by weight; 0 takes all there is.",
        0,
        unit="MB",
        minimum=0,
    )
    weights: dict[str, float] = setting(
        "Share of the text by category, relative to one another; a category left out weighs 1. Needs megabytes.",
        {},
        each={"exclusive_minimum": 0},
    )
    heldout_share: float = setting(
        "Share of documents, by a hash of their content, kept for evaluation.",
        0.05,
        exclusive_minimum=0,
        exclusive_maximum=1,
    )
    decay_share: float = setting(
        "Share of the training documents, by the same hash, kept for the decay stream.",
        0.15,
        exclusive_minimum=0,
        exclusive_maximum=1,
    )
    heldout_overlap: float = setting(
        "Largest share of a held-out document's runs of 13 words that may stand in the training text; a document above "
        "it is dropped. 1 keeps all.",
        1,
        minimum=0,
        maximum=1,
    )
