"""Settings of the job that measures what networks cost. Needs no torch."""

import dataclasses

from smelt.errors import UserError
from smelt.model.settings import ModelSettings


@dataclasses.dataclass(frozen=True)
class MemberSettings:
    """One architecture at one cell."""

    architecture: str
    scale: str
    sparsity: str  # label of the cell
    model: ModelSettings
    batch_contexts: int  # of a training step
    precision: str  # of the experts' products

    @property
    def cell(self) -> tuple[str, str]:
        """Scale and sparsity."""
        return self.scale, self.sparsity


@dataclasses.dataclass(frozen=True)
class CostSettings:
    """The networks to measure, and how."""

    context: int  # tokens of a training context
    runs: tuple[MemberSettings, ...]
    reference: str  # the architecture that ratios are taken against
    segments: tuple[int, ...] = ()  # lengths of the documents of random text; a shard has its own
    repeats: int = 5  # timed steps, and timed decodings
    warmup: int = 1  # of each before them
    prompt: int = 512  # tokens in the cache when decoding starts
    decode_tokens: int = 32  # decoded one by one
    seconds: float = 20.0  # of timed steps, and of timed decodings, in a cell: then no further repeat starts
    state_bytes: int = 8 * 10**9  # networks with more of weights, gradients and moments are not measured

    def __post_init__(self) -> None:
        for name in ("repeats", "prompt", "decode_tokens", "context"):
            if getattr(self, name) < 1:
                raise UserError(f"costs: {name} is {getattr(self, name)}; it must be at least 1")
        if any(length < 2 for length in self.segments):
            raise UserError("costs: segments must be at least 2 tokens long")
