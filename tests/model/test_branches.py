"""Branches of a segment: what they see, where they stand, and that they equal plain segments."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.model.attention import allowed, attend, layout
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise

LOOPED = ModelSettings(
    vocabulary=64, layers=3, hidden_size=32, heads=4, kv_heads=2, head_size=8, experts=12, expert_width=16,
    active_experts=3, loop_start=1, loop_length=1, visits=3,
)  # fmt: skip
SEGMENT = st.tuples(st.integers(1, 330), st.lists(st.integers(1, 40), max_size=4))


def network(precision: torch.dtype = torch.bfloat16) -> Transformer:
    model = Transformer(LOOPED, precision)
    initialise(model, 0)
    return model


def text(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 64, (length,), generator=torch.Generator().manual_seed(seed))


def hidden(model, tokens, lengths, branches=None):
    with torch.no_grad():
        return model(tokens, lengths, branches).hidden


def test_the_mask_is_segment_and_context_or_own_branch_and_not_behind():
    expected = [
        "100000000",
        "110000000",  # the context's last token
        "111000000",
        "111100000",
        "110010000",  # the second branch sees no token of the first
        "000001000",
        "000001100",
        "000001010",
        "000000001",
    ]
    found = allowed([5, 3, 1], [[2, 1], [1, 1], []])
    assert ["".join(map(str, row)) for row in found.int().tolist()] == expected


def test_without_branches_the_mask_is_causal_inside_segments():
    assert torch.equal(allowed([3, 2]), allowed([3, 2], [[], []]))
    assert torch.equal(allowed([4]), torch.ones(4, 4, dtype=torch.bool).tril())


def test_positions_of_a_branch_go_on_where_its_context_ends():
    assert layout([6, 2], [[2, 1], []]).positions.tolist() == [0, 1, 2, 3, 4, 3, 0, 1]
    assert layout([4, 3], [[2], [1, 1]]).positions.tolist() == [0, 1, 2, 3, 0, 1, 1]


def test_segments_without_forks_are_laid_out_as_ever():
    lengths = [5, 300, 1]
    plain, none, one = layout(lengths), layout(lengths, [[], [], []]), layout(lengths, [[2], [40], []])
    assert plain.buckets == none.buckets == one.buckets
    assert not plain.forks
    assert not none.forks
    assert not one.forks
    for name in ("positions", "gather", "inverse"):
        assert torch.equal(getattr(plain, name), getattr(none, name)), name
        assert torch.equal(getattr(plain, name), getattr(one, name)), name


@settings(max_examples=30, deadline=None)
@given(st.lists(SEGMENT, min_size=1, max_size=4), st.integers(0, 1000))
def test_attention_equals_a_masked_softmax(segments, seed):
    torch.manual_seed(seed)
    branches = [parts for _, parts in segments]
    lengths = [context + sum(parts) for context, parts in segments]
    total = sum(lengths)
    q, k, v = torch.randn(total, 4, 8), torch.randn(total, 2, 8), torch.randn(total, 2, 8)
    keys, values = (x.repeat_interleave(2, dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, keys) / 8**0.5
    mask = allowed(lengths, branches)
    expected = torch.einsum("hqk,khd->qhd", scores.masked_fill(~mask, -torch.inf).softmax(-1), values)
    torch.testing.assert_close(attend(q, k, v, layout(lengths, branches)), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("context", "parts"), [(1, [1, 1]), (3, [40, 1, 7]), (250, [6, 6, 6, 6]), (700, [90, 5])])
def test_each_branch_is_what_it_is_as_a_segment_of_its_own(context, parts):
    model = network(torch.float32)
    tree = text(context + sum(parts))
    found = hidden(model, tree, [len(tree)], [parts])
    head, *tails = tree.split([context, *parts])
    _, *results = found.split([context, *parts])
    torch.testing.assert_close(found[:context], hidden(model, head, [context]), atol=1e-5, rtol=0)
    for tail, result in zip(tails, results, strict=True):
        alone = hidden(model, torch.cat([head, tail]), [context + len(tail)])
        torch.testing.assert_close(result, alone[context:], atol=2e-5, rtol=0)


def test_a_changed_branch_leaves_context_sisters_and_neighbours_as_they_are():
    model, lengths, branches = network(), [60, 20, 300], [[10, 15, 5], [4, 4], []]
    tokens = text(sum(lengths))
    changed = tokens.clone()
    changed[42] = changed[42] % 63 + 1  # of the second branch, which is 40 to 55
    before, after = (hidden(model, x, lengths, branches) for x in (tokens, changed))
    same = (before == after).all(dim=1)
    assert same[:42].all()
    assert same[55:].all()
    assert not same[42:55].any()


def test_the_bits_of_a_tree_do_not_depend_on_what_it_is_packed_with():
    model = network()
    trees = [(1, [1, 2]), (33, [3, 3, 3, 3]), (33, [3, 3, 3, 4]), (250, [30, 1]), (400, [5, 6]), (80, []), (80, [9])]
    lengths = [context + sum(parts) for context, parts in trees]
    texts = [text(length, seed) for seed, length in enumerate(lengths)]
    alone = [hidden(model, x, [len(x)], [parts]) for x, (_, parts) in zip(texts, trees, strict=True)]
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 2, 4, 0, 1, 5, 3], [3, 1, 2]):
        rows = [lengths[i] for i in order]
        packed = hidden(model, torch.cat([texts[i] for i in order]), rows, [trees[i][1] for i in order])
        for index, part in zip(order, packed.split(rows), strict=True):
            assert torch.equal(part, alone[index]), (order, index)
