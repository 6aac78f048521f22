"""Cached decoding is the forward pass, and its cache is what the budgets say."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.budgets.ledger import budget, kv_bytes_by_visit
from smelt.model.decode import Cache, extend, for_decoding, greedy
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from tests.budgets.geometry import references

BASELINE = ModelSettings(
    vocabulary=64, layers=4, hidden_size=32, heads=4, kv_heads=2, head_size=8, experts=24, expert_width=16
)
PLANS = {
    "baseline": {},
    "smelt": {"loop_start": 1, "loop_length": 2, "visits": 2},
    "three_visits": {"loop_start": 1, "loop_length": 2, "visits": 3},
    "every_layer": {"loop_length": 4, "visits": 2},
    "always_on_untied": {"loop_start": 1, "loop_length": 2, "visits": 2, "shared_width": 8, "tied_embeddings": False},
}
TOKENS, PROMPT = 48, 20
# On logits of about 1. Attention sums in another order, all else is the same to the last bit; of the bfloat16 products
# of the experts a few then round the other way.
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 1e-2}


def network(shape: ModelSettings, precision: torch.dtype = torch.float32) -> Transformer:
    model = Transformer(shape, precision)
    initialise(model, 0)
    return model


def text(*shape: int) -> torch.Tensor:
    return torch.randint(1, 64, shape, generator=torch.Generator().manual_seed(0))


def whole(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    """Logits (T, V) of one sequence in one pass."""
    with torch.inference_mode():
        return model.logits(model(tokens, [len(tokens)]).hidden)


def cached(model: Transformer, tokens: torch.Tensor, pieces: list[int], cache: Cache) -> torch.Tensor:
    """Logits (B, T, V) of sequences (B, T) that come in pieces."""
    hidden = torch.cat([extend(model, part, cache) for part in tokens.split(pieces, dim=1)], dim=1)
    with torch.inference_mode():
        return model.logits(hidden.flatten(0, 1)).unflatten(0, tokens.shape)


def shape_of(name: str) -> ModelSettings:
    return dataclasses.replace(BASELINE, **PLANS[name])


ONE_BY_ONE = [PROMPT] + [1] * (TOKENS - PROMPT)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", PLANS)
def test_decoding_is_the_forward_pass(name, precision):
    model, tokens = network(shape_of(name), precision), text(TOKENS)
    expected = whole(model, tokens)
    found = cached(model, tokens[None], ONE_BY_ONE, Cache(model.settings, TOKENS, dtype=torch.float32))[0]
    torch.testing.assert_close(found, expected, atol=TOLERANCES[precision], rtol=0)
    assert torch.equal(found.argmax(dim=-1), expected.argmax(dim=-1))


@pytest.mark.parametrize("name", ["baseline", "smelt"])
def test_a_bfloat16_cache_is_near(name):
    model, tokens = network(shape_of(name)), text(TOKENS)
    found = cached(model, tokens[None], ONE_BY_ONE, Cache(model.settings, TOKENS))[0]
    error = found - whole(model, tokens)
    assert 0 < error.square().mean().sqrt() < 0.02


@pytest.mark.parametrize("pieces", [[TOKENS], [1] * TOKENS, [7, 30, 1, 10]], ids=["prompt", "one by one", "pieces"])
def test_pieces_do_not_matter(pieces):
    model, tokens = network(shape_of("smelt")), text(3, TOKENS)
    cache = Cache(model.settings, TOKENS, 3, torch.float32)
    found = cached(model, tokens, pieces, cache)
    for sequence, logits in zip(tokens, found, strict=True):
        torch.testing.assert_close(logits, whole(model, sequence), atol=TOLERANCES[torch.float32], rtol=0)
    assert cache.filled == cache.length


@pytest.mark.parametrize("name", PLANS)
def test_every_visit_keeps_its_own(name):
    """Every slot is written, no two are the same, and each one is read."""
    model, tokens = network(shape_of(name)), text(1, PROMPT + 1)
    prompt, last = tokens.split([PROMPT, 1], dim=1)
    cache = Cache(model.settings, PROMPT + 5, dtype=torch.float32)
    for kept in (cache.keys, cache.values):
        kept.fill_(torch.nan)
    extend(model, prompt, cache)
    expected = extend(model, last, cache)
    steps = plan(model.settings)
    assert len(cache.keys) == len(steps) == len({step.kv_slot for step in steps})
    for kept in (cache.keys, cache.values):
        assert kept[..., : PROMPT + 1, :].isfinite().all()
        assert kept[..., PROMPT + 1 :, :].isnan().all()
        assert len({tuple(slot.flatten().tolist()) for slot in kept[..., :PROMPT, :]}) == len(steps)
    for slot in range(len(steps)):
        before = cache.values[slot].clone()
        cache.values[slot].mul_(2)
        cache.filled = PROMPT
        assert not torch.allclose(extend(model, last, cache), expected)
        cache.values[slot].copy_(before)
    cache.filled = PROMPT
    assert torch.equal(extend(model, last, cache), expected)


@settings(deadline=None, max_examples=40)
@given(references(largest=4), st.integers(1, 40), st.integers(1, 3), st.data())
def test_the_cache_takes_what_the_ledger_says(shape, length, batch, data):
    start = data.draw(st.integers(0, shape.layers - 1))
    span = data.draw(st.integers(1, shape.layers - start))
    shape = dataclasses.replace(shape, loop_start=start, loop_length=span, visits=data.draw(st.integers(1, 4)))
    cache = Cache(shape, length, batch)
    assert cache.bytes == length * batch * budget(shape, 1).kv_bytes_per_token
    assert cache.bytes == length * batch * sum(kv_bytes_by_visit(shape))
    wide = Cache(shape, length, batch, torch.float32)
    assert wide.bytes == length * batch * budget(shape, 1, bytes_per_value=4).kv_bytes_per_token


@pytest.mark.parametrize("name", PLANS)
def test_a_decode_allocates_what_the_ledger_says(name):
    """The cache as it stands after tokens were decoded, in the precision of the budgets."""
    model = network(shape_of(name), torch.bfloat16)
    cache = Cache(model.settings, TOKENS)
    cached(model, text(1, TOKENS), ONE_BY_ONE, cache)
    assert cache.bytes == TOKENS * budget(model.settings, TOKENS).kv_bytes_per_token


def test_greedy_takes_the_most_likely():
    model, prompt = network(shape_of("smelt")), text(2, PROMPT)
    cache = Cache(model.settings, PROMPT + 5, 2, torch.float32)
    found = greedy(model, prompt, 6, cache)
    assert found.shape == (2, 6)
    assert cache.filled == PROMPT + 5
    for row, sequence in enumerate(torch.cat([prompt, found], dim=1)):
        logits = whole(model, sequence)[PROMPT - 1 : -1]
        assert torch.equal(logits.argmax(dim=-1), found[row])


@pytest.mark.parametrize("precision", TOLERANCES)
def test_experts_held_in_their_precision_give_the_same_bits(precision):
    model, tokens = network(shape_of("smelt"), precision), text(1, TOKENS)
    before = extend(model, tokens, Cache(model.settings, TOKENS))
    assert torch.equal(extend(for_decoding(model), tokens, Cache(model.settings, TOKENS)), before)
    assert model.layers[0].w13.dtype == precision


def test_a_full_cache_says_so():
    model = network(BASELINE)
    cache = Cache(model.settings, 8)
    extend(model, text(1, 6), cache)
    with pytest.raises(ValueError, match="room for 8 tokens and holds 6; 3 more"):
        extend(model, text(1, 3), cache)
    assert cache.filled == 6
