"""What a run on several GPUs keeps on each and sends between them. Computed, not measured.

Weights, gradients and moments are in equal slices, one a GPU. A block's weights are gathered in float32 each time that
the block is executed, forward and again backward, a looped block once a visit; its gradients are summed into slices
once, after the backward pass of its first visit, so that those of a whole looped span are held until then. Embedding,
LM head and last norm are gathered and summed once. All this for each micro-batch, and where a GPU takes several, one
forward pass more, which counts the choices of experts. A GPU gets (G - 1) / G of what G gather or sum from the others.

Expert parallel, the experts are never gathered: the rows of a token's choices go to where their experts are and come
back, forward and backward, in the precision of the products, as many from each GPU where experts are chosen alike; a
block that is computed again in the backward pass sends them again.
"""

from smelt.budgets.memory import GRADIENT, MASTER, all_params
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

VALUE = 2  # bytes of a value of a row that is sent: bfloat16, as the products are


def expert_params(settings: ModelSettings) -> int:
    """Parameters of the experts of one layer."""
    return 3 * settings.experts * settings.hidden_size * settings.expert_width


def block_params(settings: ModelSettings) -> int:
    """Parameters of one layer, experts among them."""
    return (all_params(settings) - root_params(settings)) // settings.layers


def root_params(settings: ModelSettings) -> int:
    """Parameters of embedding, LM head and last norm."""
    tables = 1 if settings.tied_embeddings else 2
    return (tables * settings.vocabulary + 1) * settings.hidden_size


def held_bytes(settings: ModelSettings, expert_parallel: bool = False) -> int:
    """Whole weights of one block and the root, and whole gradients, that a GPU holds at a time beside its slices."""
    block = _gathered_params(settings, expert_parallel)
    waiting = settings.loop_length if settings.visits > 1 else 1  # blocks with gradients
    return MASTER * (block + root_params(settings)) + GRADIENT * (waiting * block + root_params(settings))


def gathered_bytes(settings: ModelSettings, gpus: int, micro_batches: int, expert_parallel: bool = False) -> int:
    """Bytes of weights and gradients that a GPU gets in one step of so many micro-batches of its own."""
    passes = 3 if micro_batches > 1 else 2
    blocks = passes * len(plan(settings)) + settings.layers
    values = blocks * _gathered_params(settings, expert_parallel) + 2 * root_params(settings)
    return MASTER * micro_batches * values * (gpus - 1) // gpus


def exchanged_bytes(
    settings: ModelSettings,
    gpus: int,
    micro_batches: int,
    tokens: int,
    activation_checkpointing: bool = False,
    value_bytes: int = VALUE,
) -> int:
    """Bytes of rows that a GPU gets from the others in one step, expert parallel, with `tokens` tokens of its own."""
    ways = 2 * (2 + activation_checkpointing + (micro_batches > 1))  # there and back: forward, backward, again
    rows = ways * len(plan(settings)) * tokens * settings.active_experts
    return value_bytes * rows * settings.hidden_size * (gpus - 1) // gpus


def _gathered_params(settings: ModelSettings, expert_parallel: bool) -> int:
    return block_params(settings) - (expert_params(settings) if expert_parallel else 0)
