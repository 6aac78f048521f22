"""What a network keeps in memory, and how much it computes for each byte that it moves. Computed, not measured.

Activations: what reverse mode keeps of one token, in bfloat16, with attention fused (no scores are kept). Of each
executed step, so once more for each further visit:

    inputs of both norms             2 H
    their outputs                    2 H
    queries, keys, values, output    2 heads d + 2 KV heads d
    router probabilities             E
    active experts                   k (3 W + H)      gate, up, their product; what each writes
    always-on width                  3 W_s

and once 2 H, of the last norm. With checkpointing by block only the input of each step (H) is kept, and one step at
a time has all of the above, while it is computed again. Logits belong to the LM head and stand apart.

State: float32 master weights and AdamW's two moments of every parameter, embedding and LM head among them, which is
also what a resumable checkpoint holds; a branch's model is the weights alone.
"""

from smelt.budgets.ledger import BYTES_PER_VALUE, budget
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

MASTER, GRADIENT, MOMENTS = 4, 4, 2 * 4  # bytes of a parameter: float32
STATE = MASTER + GRADIENT + MOMENTS  # while it is trained
LOGIT = 4  # bytes: float32


def step_values(settings: ModelSettings) -> dict[str, int]:
    """Values that training keeps of one token in one executed step, by what they are."""
    s = settings
    return {
        "norm_inputs": 2 * s.hidden_size,
        "norm_outputs": 2 * s.hidden_size,
        "attention": 2 * (s.heads + s.kv_heads) * s.head_size,
        "router": s.experts,
        "experts": s.active_experts * (3 * s.expert_width + s.hidden_size),
        "shared_expert": 3 * s.shared_width,
    }


def activation_bytes(settings: ModelSettings, checkpointing: bool = False) -> int:
    """Bytes a token that training keeps until its backward pass, LM head apart."""
    steps, step = len(plan(settings)), sum(step_values(settings).values())
    values = steps * settings.hidden_size + step if checkpointing else steps * step
    return BYTES_PER_VALUE * (values + 2 * settings.hidden_size)


def logit_bytes(settings: ModelSettings) -> int:
    """Bytes of one token's logits."""
    return LOGIT * settings.vocabulary


def all_params(settings: ModelSettings) -> int:
    """Parameters, embedding and LM head among them."""
    tables = 1 if settings.tied_embeddings else 2
    return budget(settings, 1).params + tables * settings.vocabulary * settings.hidden_size


def state_bytes(settings: ModelSettings) -> int:
    """Bytes of a network in training: master weights, gradients and moments."""
    return STATE * all_params(settings)


def checkpoint_bytes(settings: ModelSettings) -> int:
    """Bytes of a resumable checkpoint: master weights and moments."""
    return (MASTER + MOMENTS) * all_params(settings)


def model_bytes(settings: ModelSettings) -> int:
    """Bytes of the weights alone, in float32."""
    return MASTER * all_params(settings)


def optimizer_bytes(settings: ModelSettings) -> int:
    """Bytes of AdamW's two moments."""
    return MOMENTS * all_params(settings)


def decode_intensity(settings: ModelSettings, attention_keys: float) -> float:
    """FLOPs per byte moved when one token is decoded alone, LM head included.

    Moved are, in bfloat16, the weights that the token meets, again at each visit (a layer's experts do not stay in
    a processor's cache), the cache of `attention_keys` earlier tokens, and the token's own entry.
    """
    cost = budget(settings, attention_keys)
    weights = sum(part.forward_flops / 2 for part in cost.parts if part.active_params)  # each is met by one product
    flops = 2 * weights + sum(part.forward_flops for part in cost.parts if part.name == "attention_context")
    norms = (2 * len(plan(settings)) + 1) * settings.hidden_size
    moved = BYTES_PER_VALUE * (weights + norms) + cost.kv_bytes_per_token * (attention_keys + 1)
    return flops / moved


def training_intensity(settings: ModelSettings, attention_keys: float) -> float:
    """F per byte of activations moved: each value kept is written once and read once, without checkpointing.

    Weights are shared by all tokens of a batch and left out, so that the figure belongs to large batches.
    """
    return budget(settings, attention_keys).flops_per_token / (2 * activation_bytes(settings))
