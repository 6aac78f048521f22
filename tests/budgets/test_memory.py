"""Memory and intensity, against the real network and against sums by hand."""

import dataclasses

import pytest

from smelt.budgets import memory
from smelt.budgets.ledger import budget, kv_bytes_by_visit
from smelt.model.settings import ModelSettings

SMALL = ModelSettings(100, 4, 32, 4, 2, 8, 16, 24, loop_start=1, loop_length=2, visits=3, shared_width=8)


def test_activations_by_hand() -> None:
    step = 2 * 32 + 2 * 32 + (4 + 2 + 2 + 4) * 8 + 16 + 8 * (3 * 24 + 32) + 3 * 8
    assert memory.activation_bytes(SMALL) == 2 * (8 * step + 2 * 32)
    assert memory.activation_bytes(SMALL, checkpointing=True) == 2 * (8 * 32 + step + 2 * 32)
    assert memory.logit_bytes(SMALL) == 400


@pytest.mark.parametrize("tied", [True, False])
def test_state_is_that_of_the_network(tied: bool) -> None:
    from smelt.model.transformer import Transformer

    settings = dataclasses.replace(SMALL, tied_embeddings=tied)
    params = sum(p.numel() for p in Transformer(settings).parameters())
    assert memory.all_params(settings) == params
    assert memory.model_bytes(settings) == 4 * params
    assert memory.optimizer_bytes(settings) == 8 * params
    assert memory.checkpoint_bytes(settings) == 12 * params


def test_cache_by_visit() -> None:
    assert kv_bytes_by_visit(SMALL) == (4 * 64, 2 * 64, 2 * 64)
    assert sum(kv_bytes_by_visit(SMALL)) == budget(SMALL, 1).kv_bytes_per_token
    assert kv_bytes_by_visit(dataclasses.replace(SMALL, visits=1), bytes_per_value=4) == (4 * 128,)


def test_intensities_by_hand() -> None:
    plain = dataclasses.replace(SMALL, visits=1, shared_width=0)
    layer = 32 * (4 + 2 + 2 + 4) * 8 + 32 * 16 + 8 * 3 * 32 * 24
    weights, norms, cache = 4 * layer + 32 * 100, 9 * 32, 4 * 2 * 2 * 8 * 2
    flops = 2 * weights + 4 * 4 * (4 * 8) * 50
    assert memory.decode_intensity(plain, 50) == pytest.approx(flops / (2 * (weights + norms) + cache * 51))
    forward = 4 * (2 * layer + 4 * 32 * 50)
    assert memory.training_intensity(plain, 50) == pytest.approx(3 * forward / (2 * memory.activation_bytes(plain)))
