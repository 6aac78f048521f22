"""Hints for a misspelt name: the closest known one."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like `name`; empty where none is like it.

    Ties are broken by the number of letters in the same position.
    """
    return max(
        difflib.get_close_matches(name, list(known), 9),
        key=lambda other: (difflib.SequenceMatcher(None, other, name).ratio(), sum(map(str.__eq__, other, name))),
        default="",
    )


def suggestion(name: object, known: Iterable[str], likely: Iterable[str] = ()) -> str:
    """Hint for an unknown name: the closest of `likely`, else the closest of `known`, else the list of known names."""
    closest = nearest(str(name), likely) or nearest(str(name), known)
    return f"did you mean {closest!r}?" if closest else f"known are {', '.join(known)}"
