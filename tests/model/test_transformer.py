"""The network: segments, loops, routing and their exactness."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.model.attention import attend, layout
from smelt.model.experts import experts, route
from smelt.model.product import linear
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise, next_token_loss

SMALL = ModelSettings(
    vocabulary=64, layers=4, hidden_size=32, heads=4, kv_heads=2, head_size=8, experts=24, expert_width=16
)
LOOPED = dataclasses.replace(SMALL, loop_start=1, loop_length=2, visits=2)
PRECISIONS = [torch.bfloat16, torch.float32]


def network(shape: ModelSettings, precision: torch.dtype = torch.bfloat16) -> Transformer:
    model = Transformer(shape, precision)
    initialise(model, 0)
    return model


def text(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 64, (length,), generator=torch.Generator().manual_seed(seed))


def losses(model: Transformer, tokens: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    with torch.no_grad():
        flat = next_token_loss(model, model(tokens, lengths).hidden, tokens, lengths)
    return list(flat.split([length - 1 for length in lengths]))


def gradients(model: Transformer, tokens: torch.Tensor, lengths: list[int]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    output = model(tokens, lengths)
    (next_token_loss(model, output.hidden, tokens, lengths).mean() + 0.01 * output.balance_loss).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


LENGTHS = [5, 70, 33, 2, 300, 31, 64, 7]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [SMALL, LOOPED])
def test_perturbed_segment_leaves_the_others_unchanged(shape, precision):
    model, tokens = network(shape, precision), text(sum(LENGTHS))
    before = losses(model, tokens, LENGTHS)
    changed = tokens.clone()
    place = sum(LENGTHS[:2]) + 10  # inside the third segment
    changed[place] = (changed[place] + 1) % 63 + 1
    after = losses(model, changed, LENGTHS)
    assert not torch.equal(before[2], after[2])
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        if index != 2:
            if precision == torch.bfloat16:
                assert torch.equal(one, other)
            else:
                torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed_equals_unpacked(precision):
    model, tokens = network(LOOPED, precision), text(sum(LENGTHS))
    packed = losses(model, tokens, LENGTHS)
    for part, loss, length in zip(tokens.split(LENGTHS), packed, LENGTHS, strict=True):
        alone = losses(model, part, [length])[0]
        if precision == torch.bfloat16:
            assert torch.equal(loss, alone), (length, (loss - alone).abs().max())
        else:
            torch.testing.assert_close(loss, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", range(1, 9))
def test_a_product_s_rows_do_not_depend_on_their_number(rows):
    x, weight = torch.randn(512, 52), torch.randn(312, 52)
    assert torch.equal(linear(x[:rows], weight), linear(x, weight)[:rows])


def test_later_tokens_do_not_reach_earlier_ones():
    model, tokens = network(LOOPED), text(120)
    changed = tokens.clone()
    changed[80] = changed[80] % 63 + 1
    assert torch.equal(losses(model, tokens, [120])[0][:79], losses(model, changed, [120])[0][:79])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_one_visit_is_the_baseline_to_the_last_bit(precision):
    once = dataclasses.replace(SMALL, loop_start=1, loop_length=2, visits=1)
    tokens = text(sum(LENGTHS))
    plain, looped = network(SMALL, precision), network(once, precision)
    assert torch.equal(plain(tokens, LENGTHS).hidden, looped(tokens, LENGTHS).hidden)
    for name, gradient in gradients(plain, tokens, LENGTHS).items():
        assert torch.equal(gradient, gradients(looped, tokens, LENGTHS)[name]), name


def test_a_second_visit_changes_the_result_and_its_writes_are_halved():
    tokens = text(40)
    model = network(LOOPED)
    assert [step.residual_scale for step in model.plan] == [1.0, 0.5, 0.5, 0.5, 0.5, 1.0]
    assert not torch.equal(model(tokens, [40]).hidden, network(SMALL)(tokens, [40]).hidden)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_experts_without_tokens_get_exactly_zero_gradient(precision):
    model, tokens = network(LOOPED, precision), text(3)
    counts = model(tokens, [3]).counts
    found = gradients(model, tokens, [3])
    for layer, steps in ((0, [0]), (1, [1, 3]), (2, [2, 4]), (3, [5])):
        idle = counts[steps].sum(dim=0) == 0
        assert idle.any()
        for name in ("w13", "w2"):
            gradient = found[f"layers.{layer}.{name}"]
            assert (gradient[idle] == 0).all()
            if layer < 3:  # behind the last layer nobody reads the last token, which has no target
                assert (gradient[~idle] != 0).flatten(1).any(dim=1).all()


def dense(x, indices, weights, w13, w2):
    """The same sum, one token and one expert at a time."""
    out = torch.zeros_like(x)
    for token in range(len(x)):
        for choice, weight in zip(indices[token].tolist(), weights[token], strict=True):
            gate, up = (x[token] @ w13[choice]).chunk(2)
            out[token] += weight * ((F.silu(gate) * up) @ w2[choice])
    return out


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_experts_agree_with_one_product_at_a_time(precision, tolerance):
    torch.manual_seed(0)
    # Rows stay clear of 0 in norm, sizes are multiples of 4: the grouped product asks for strides of 16 bytes.
    inputs = [torch.randn(50, 16), torch.rand(50, 3), torch.randn(20, 16, 24) / 4, torch.randn(20, 12, 16) / 4]
    indices = torch.stack([torch.randperm(20)[:3] for _ in range(50)])
    leaves = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
    outputs = [
        experts(a[0], indices, a[1], a[2], a[3], precision) if fast else dense(a[0], indices, a[1], a[2], a[3])
        for fast, a in zip((True, False), leaves, strict=True)
    ]
    torch.testing.assert_close(*outputs, atol=tolerance, rtol=tolerance)
    direction = torch.randn(50, 16)
    for output in outputs:
        (output * direction).sum().backward()
    for mine, reference in zip(*leaves, strict=True):
        scale = reference.grad.abs().max()
        torch.testing.assert_close(mine.grad / scale, reference.grad / scale, atol=tolerance, rtol=0)


def test_router_weights_sum_to_one_and_balance_is_one_where_even():
    routing = route(torch.randn(40, 8), torch.zeros(12, 8), 4)
    torch.testing.assert_close(routing.weights.sum(dim=1), torch.ones(40))
    assert routing.balance_loss.item() == pytest.approx(1.0)
    assert routing.z_loss.item() == pytest.approx(torch.tensor(12.0).log().square().item())
    assert routing.counts.sum() == 160


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 1000))
def test_attention_equals_a_masked_softmax(lengths, seed):
    torch.manual_seed(seed)
    total = sum(lengths)
    q, k, v = torch.randn(total, 4, 8), torch.randn(total, 2, 8), torch.randn(total, 2, 8)
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    mask = (segment[:, None] == segment[None]) & (torch.arange(total)[:, None] >= torch.arange(total)[None])
    keys, values = (x.repeat_interleave(2, dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, keys) / 8**0.5
    expected = torch.einsum("hqk,khd->qhd", scores.masked_fill(~mask, -torch.inf).softmax(-1), values)
    torch.testing.assert_close(attend(q, k, v, layout(lengths)), expected, atol=2e-5, rtol=1e-4)


def test_positions_restart_with_each_segment():
    assert layout([3, 1, 2]).positions.tolist() == [0, 1, 2, 0, 0, 1]


def test_gradient_of_a_step_is_the_same_twice():
    model, tokens = network(LOOPED), text(sum(LENGTHS))
    first, second = gradients(model, tokens, LENGTHS), gradients(model, tokens, LENGTHS)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("shared", [0, 12])
@pytest.mark.parametrize("tied", [True, False])
def test_shared_width_and_head_have_parameters_that_learn(shared, tied):
    model = network(dataclasses.replace(LOOPED, shared_width=shared, tied_embeddings=tied))
    found = gradients(model, text(40), [40])
    assert all((gradient != 0).any() for gradient in found.values())
    assert ("head" in found) == (not tied)
