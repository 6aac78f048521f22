"""The ledger against torch's counter on the real network, forward and backward, to the last FLOP.

The network attends each segment on its own, so one segment of T tokens costs what the ledger says of T keys
charged. Two kernels that torch's counter does not know are given their formulas here.
"""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from smelt.budgets.ledger import BACKWARD, budget, fully_active, sparsity
from smelt.model.attention import GRAIN
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from tests.budgets.geometry import references

TOKENS = 2 * GRAIN  # a segment that is not padded


def grouped_product(one: torch.Size, other: torch.Size, *_: Any, **__: Any) -> int:
    """Rows in groups, each times a matrix of its own; or, for the weights' gradients, groups of columns times rows."""
    return 2 * one[0] * one[1] * other[-1]


def attention(query: torch.Size, key: torch.Size, *_: Any, **__: Any) -> int:
    """Two products of each query head with all keys; the kernel's causal saving is not counted."""
    batch, heads, length, size = query
    return 4 * batch * heads * length * key[2] * size


def attention_backward(_: torch.Size, query: torch.Size, key: torch.Size, *__: Any, **___: Any) -> int:
    """Twice forward; what the kernel computes again is not counted."""
    return BACKWARD * attention(query, key)


ATEN = torch.ops.aten
KERNELS = {
    ATEN._grouped_mm: grouped_product,
    ATEN._scaled_dot_product_flash_attention_for_cpu: attention,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}


def counted(shape: ModelSettings) -> tuple[int, int, int]:
    """FLOPs of one segment: of the network forward, of the LM head forward, and of both with backward."""
    model = Transformer(shape, torch.float32)
    initialise(model, 0)
    tokens = torch.randint(0, shape.vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False, custom_mapping=KERNELS) as counter:
        output = model(tokens, [TOKENS])
        body = counter.get_total_flops()
        logits = model.logits(output.hidden)
        forward = counter.get_total_flops()
        (logits.sum() + output.balance_loss + output.z_loss).backward()
    return body, forward - body, counter.get_total_flops()


def check(shape: ModelSettings) -> None:
    parts = {part.name: part for part in budget(shape, TOKENS).parts}
    head = parts.pop("lm_head").forward_flops
    forward = sum(part.forward_flops for part in parts.values())
    assert counted(shape) == (TOKENS * forward, TOKENS * head, (1 + BACKWARD) * TOKENS * (forward + head))
    found = budget(shape, TOKENS)
    assert found.flops_per_token == 3 * (forward - parts["expert_sum"].forward_flops)


BASELINE = ModelSettings(100, 4, 32, 4, 2, 8, 16, 24)
PLANS = {
    "baseline": {},
    "smelt": {"loop_start": 1, "loop_length": 2, "visits": 2},
    "every_layer": {"loop_length": 4, "visits": 2},
    "four_visits": {"loop_start": 1, "loop_length": 1, "visits": 4},
    "always_on": {"loop_start": 1, "loop_length": 2, "visits": 2, "shared_width": 8},
    "untied": {"tied_embeddings": False},
}


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan(plan: str) -> None:
    check(dataclasses.replace(BASELINE, **PLANS[plan]))


@settings(deadline=None, max_examples=15)
@given(references(largest=5), st.data())
def test_random_networks(shape: ModelSettings, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, shape.layers - 1))
    length = data.draw(st.integers(1, shape.layers - start))
    visits = data.draw(st.integers(1, 3))
    shape = dataclasses.replace(
        shape, loop_start=start, loop_length=length, visits=visits, experts=8 + shape.experts % 9
    )
    check(shape)
    own = sum(p.numel() for name, p in Transformer(shape).named_parameters() if name != "embedding")
    assert own == budget(shape, TOKENS).params


@given(references(), st.integers(1, 4000))
def test_sparsity_of_a_control_is_zero(shape: ModelSettings, keys: int) -> None:
    control = budget(fully_active(shape), keys)
    assert sparsity(control.flops_per_token, control.params, control.flops_per_token, control.params) == 0
