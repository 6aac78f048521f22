"""The shape of one network, as a run's spec carries it.

Reads nothing and needs no torch, so that the study and the budgets can use it as plain numbers.
"""

import dataclasses

from smelt.errors import UserError


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Geometry of a decoder-only MoE Transformer with one looped span.

    Every layer has grouped-query attention and the same number of SwiGLU experts. The layers
    [loop_start, loop_start + loop_length) are passed through `visits` times, the whole span each time.
    """

    vocabulary: int
    layers: int  # physical layers, each counted once
    hidden_size: int
    heads: int
    kv_heads: int
    head_size: int
    experts: int  # per layer
    expert_width: int  # inner width of one expert (two H x width matrices in, one width x H out)
    active_experts: int = 8  # per token
    shared_width: int = 0  # inner width of a SwiGLU that every token passes; 0 for none
    loop_start: int = 0
    loop_length: int = 0
    visits: int = 1
    rope_base: float = 10000.0
    norm_eps: float = 1e-6
    tied_embeddings: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and type(value) is not int:
                raise UserError(f"{field.name} must be a whole number, not {value!r}")
        for name, lowest in LOWEST.items():
            if getattr(self, name) < lowest:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {lowest}")
        for name in ("rope_base", "norm_eps"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)!r}; it must be greater than 0")
        if self.heads % self.kv_heads:
            raise UserError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if self.head_size % 2:
            raise UserError(f"head_size is {self.head_size}; it must be even, as RoPE turns pairs")
        if self.active_experts > self.experts:
            raise UserError(
                f"active_experts ({self.active_experts}) is more than experts ({self.experts}); "
                "add experts or activate fewer"
            )
        if self.loop_start + self.loop_length > self.layers:
            raise UserError(
                f"the span [{self.loop_start}, {self.loop_start + self.loop_length}) lies outside the layers; "
                f"loop_start + loop_length must be at most layers ({self.layers})"
            )
        if self.visits > 1 and self.loop_length == 0:
            raise UserError(f"visits is {self.visits} but loop_length is 0; give a span or set visits to 1")


LOWEST = {
    "vocabulary": 1,
    "layers": 1,
    "hidden_size": 1,
    "heads": 1,
    "kv_heads": 1,
    "head_size": 2,
    "experts": 1,
    "expert_width": 1,
    "active_experts": 1,
    "shared_width": 0,
    "loop_start": 0,
    "loop_length": 0,
    "visits": 1,
}
