"""The ledger: FLOPs per token, parameters and KV-cache bytes of one network, part by part.

Counts are exact whole numbers, found by walking the execution plan. Conventions:

* A matrix product of one token with an m x n weight is 2 m n FLOPs. Backward is twice forward, so
  training is 3 x forward by definition.
* Attention charges each query with `attention_keys` keys: 4 x heads x head_size x keys forward (QK^T and PV).
  How many they are is the study's `grid.attention_keys`, a mean (392 gives arXiv 2609.01343, Appendix A).
* F leaves out embedding and LM head (the head is a part of its own) and elementwise work: norms, RoPE,
  softmax, activations and residual sums count as 0 FLOPs. So does the weighted sum of a token's experts; the
  network writes it as a batched product, which a counter sees, so it is a part of its own too.
* N counts each physical layer once, however often it is visited, with all norms; no embedding, no LM head.
* KV is keys and values of every executed step.
* Active parameters are those that one token meets in one physical traversal, the span counted once.
"""

import dataclasses
import math
from collections.abc import Iterator

from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

BACKWARD = 2  # in units of forward
TRAINING = 1 + BACKWARD
BYTES_PER_VALUE = 2  # of the cache, in bfloat16


@dataclasses.dataclass(frozen=True)
class Part:
    """One kind of module, over the whole network, per token."""

    name: str
    params: int
    active_params: int
    forward_flops: float  # whole unless attention_keys is not
    kv_bytes: int
    counted: bool = True  # whether it enters F and N

    @property
    def backward_flops(self) -> float:
        return BACKWARD * self.forward_flops

    @property
    def training_flops(self) -> float:
        return TRAINING * self.forward_flops


@dataclasses.dataclass(frozen=True)
class Budget:
    """The three budgets of one network and the parts that they are made of."""

    parts: tuple[Part, ...]

    def _counted(self) -> Iterator[Part]:
        return (part for part in self.parts if part.counted)

    @property
    def flops_per_token(self) -> float:
        """F: training FLOPs per token, without embedding and LM head."""
        return sum(part.training_flops for part in self._counted())

    @property
    def params(self) -> int:
        """N: non-embedding parameters."""
        return sum(part.params for part in self._counted())

    @property
    def active_params(self) -> int:
        return sum(part.active_params for part in self._counted())

    @property
    def kv_bytes_per_token(self) -> int:
        return sum(part.kv_bytes for part in self.parts)

    @property
    def head_flops_per_token(self) -> float:
        """Training FLOPs of the LM head, which F leaves out."""
        return sum(part.training_flops for part in self.parts if part.name == "lm_head")


def kv_bytes_by_visit(settings: ModelSettings, bytes_per_value: int = BYTES_PER_VALUE) -> tuple[int, ...]:
    """KV-cache bytes per token that each visit adds, the first (all layers) to the last (the span alone)."""
    step = 2 * settings.kv_heads * settings.head_size * bytes_per_value
    steps = plan(settings)
    return tuple(step * sum(s.visit == visit for s in steps) for visit in range(1 + max(s.visit for s in steps)))


def budget(settings: ModelSettings, attention_keys: float, bytes_per_value: int = BYTES_PER_VALUE) -> Budget:
    """The ledger of `settings`, with `attention_keys` keys charged to each query."""
    if not attention_keys > 0:
        raise UserError(f"attention_keys is {attention_keys!r}; it must be greater than 0")
    keys = int(attention_keys) if attention_keys == int(attention_keys) else attention_keys
    s = settings
    steps = plan(s)
    layers = len({step.layer for step in steps})
    executed = len(steps)
    inner, inner_kv = s.heads * s.head_size, s.kv_heads * s.head_size

    def product(name: str, params: int, active: int | None = None, kv_values: int = 0) -> Part:
        """A part of each layer whose weights multiply the token."""
        met = params if active is None else active
        return Part(name, layers * params, layers * met, executed * 2 * met, executed * kv_values * bytes_per_value)

    expert = 3 * s.hidden_size * s.expert_width  # SwiGLU: two matrices in, one out
    norms = 2 * layers * s.hidden_size + s.hidden_size  # two of each layer and the last one
    head = s.hidden_size * s.vocabulary
    return Budget(
        (
            product("query_projection", s.hidden_size * inner),
            product("key_projection", s.hidden_size * inner_kv, kv_values=inner_kv),
            product("value_projection", s.hidden_size * inner_kv, kv_values=inner_kv),
            product("output_projection", inner * s.hidden_size),
            Part("attention_context", 0, 0, executed * 4 * inner * keys, 0),
            product("router", s.hidden_size * s.experts),
            product("experts", s.experts * expert, s.active_experts * expert),
            product("shared_expert", 3 * s.hidden_size * s.shared_width),
            Part("norms", norms, norms, 0, 0),
            Part("expert_sum", 0, 0, executed * 2 * s.active_experts * s.hidden_size, 0, counted=False),
            Part("lm_head", 0 if s.tied_embeddings else head, head, 2 * head, 0, counted=False),
        )
    )


def fully_active(settings: ModelSettings) -> ModelSettings:
    """The S = 0 control of an unlooped network: the same, with as many experts as are active."""
    return dataclasses.replace(settings, experts=settings.active_experts)


def sparsity(flops: float, params: int, control_flops: float, control_params: int) -> float:
    """S of Eq. 1: 1 - N_act / N with N_act = (F / F0) N0, the control's F0 and N0."""
    return 1 - flops / control_flops * control_params / params


def experts_for_sparsity(reference: ModelSettings, target: float, attention_keys: float) -> int:
    """The number of experts with which `reference`, else unchanged, comes closest to S = `target`.

    F and N grow linearly with the experts, so that Eq. 1 is one linear equation in their number.
    """
    if not 0 <= target < 1:
        raise UserError(f"sparsity is {target!r}; it must lie in [0, 1)")
    least = reference.active_experts
    control, more = (
        budget(dataclasses.replace(reference, experts=experts), attention_keys) for experts in (least, least + 1)
    )
    flops, params = control.flops_per_token, control.params
    flops_each = more.flops_per_token - flops  # the router's column
    params_each = more.params - params
    # (F0 + f x) N0 = (1 - S) F0 (N0 + n x) for x experts beyond the active ones
    slope = (1 - target) * flops * params_each - flops_each * params
    if slope <= 0:
        highest = 1 - flops_each * params / (flops * params_each)
        raise UserError(
            f"sparsity {target} cannot be reached: with ever more experts this geometry comes to {highest:.4f}, "
            "as the router's cost grows with them; use wider experts or a lower sparsity"
        )
    exact = target * flops * params / slope

    def distance(extra: int) -> float:
        found = sparsity(flops + flops_each * extra, params + params_each * extra, flops, params)
        return abs(found - target)

    return least + min((math.floor(exact), math.ceil(exact)), key=distance)
