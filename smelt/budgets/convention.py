"""How many keys a query of attention is charged with: the one convention of F that papers leave unsaid.

* `keys`: the mean number of keys, charged as it stands (392 reproduces arXiv 2609.01343, Appendix A).
* `length`: documents of that many tokens. *full* charges each query with its whole document, which is what dense
  products cost and what torch's counter counts; *half* with itself and the tokens before it, (length + 1) / 2 in
  the mean, which is what a causal kernel computes.
* `lengths`: the documents of a packed corpus as they are; means over tokens, so that long documents weigh more.
"""

import dataclasses

from smelt.errors import UserError

CAUSAL = ("full", "half")


@dataclasses.dataclass(frozen=True)
class Attention:
    """One of `keys`, `length` and `lengths`, and which keys of a document are charged."""

    keys: float | None = None
    length: float | None = None  # tokens
    lengths: tuple[int, ...] = ()  # tokens of each document, cut ones as they were packed
    causal: str = "full"

    def __post_init__(self) -> None:
        if (self.keys is not None) + (self.length is not None) + bool(self.lengths) != 1:
            raise UserError("attention: give exactly one of keys, length and lengths")
        for name in ("keys", "length"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise UserError(f"attention: {name} is {value!r}; it must be greater than 0")
        if any(type(length) is not int or length < 1 for length in self.lengths):
            raise UserError("attention: lengths must be whole numbers of at least 1")
        if self.causal not in CAUSAL:
            raise UserError(f"attention: causal is {self.causal!r}; known are {', '.join(CAUSAL)}")
        if self.keys is not None and self.causal != "full":
            raise UserError("attention: keys are charged as they stand; causal goes with length or lengths")

    @property
    def charged(self) -> float:
        """Keys charged to a query, in the mean; whole numbers stay whole."""
        if self.keys is not None:
            return _plain(self.keys)
        if self.length is not None:
            return _plain(self.length if self.causal == "full" else (self.length + 1) / 2)
        pairs = sum(n * n if self.causal == "full" else n * (n + 1) // 2 for n in self.lengths)
        return _plain(pairs / sum(self.lengths))

    def __str__(self) -> str:
        """The convention in words, as the tables print it."""
        if self.keys is not None:
            return "mean keys"
        source = f"documents of {self.length:g} tokens" if self.length is not None else "measured documents"
        return f"{source}, {'all keys' if self.causal == 'full' else 'causal half'}"


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value
