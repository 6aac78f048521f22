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
