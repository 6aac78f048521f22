"""Settings that several jobs of the corpus read; a setting of one job stands beside its code."""

import dataclasses

from smelt.setting import setting


@dataclasses.dataclass(frozen=True)
class Selected:
    """Which sources of the table are read."""

    select: tuple[str, ...] = setting(
        "Names of the sources to use; empty means all of the table.", (), unique_items=True
    )


@dataclasses.dataclass(frozen=True)
class Packed:
    """The contexts that pieces of documents are packed into."""

    context: int = setting("Length of a packed context in tokens.", 4096, unit="tokens", minimum=16)
    segment_tokens: int = setting(
        "Longest segment of a context in tokens, BOS included; longer documents are cut. 0 takes the whole context.",
        0,
        unit="tokens",
        minimum=0,
    )

    @property
    def longest_segment(self) -> int:
        """Tokens of the longest segment, BOS included."""
        return self.segment_tokens or self.context
