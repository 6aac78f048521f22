"""The matching solver: within tolerance or a clear error, the same at every call, right for the desk grid."""

import dataclasses

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from smelt.budgets.ledger import budget, experts_for_sparsity
from smelt.budgets.solver import Match, Tolerance, match
from smelt.errors import UserError
from smelt.model.execution import middle_span, plan
from smelt.model.settings import ModelSettings

DESK = Tolerance(flops=0.015, params=0.005, kv=0.015)


@st.composite
def references(draw: st.DrawFn) -> ModelSettings:
    kv_heads = draw(st.integers(1, 4))
    hidden_size = 8 * draw(st.integers(2, 32))
    return ModelSettings(
        vocabulary=512,
        layers=draw(st.integers(2, 12)),
        hidden_size=hidden_size,
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        head_size=2 * draw(st.integers(4, 32)),
        experts=draw(st.integers(8, 400)),
        expert_width=max(8, 8 * round(hidden_size * draw(st.floats(0.5, 2)) / 8)),
        shared_width=draw(st.sampled_from([0, 0, 16])),
    )


spans = st.floats(0.1, 1).map(lambda share: round(share, 2))
tolerances = st.builds(Tolerance, *[st.sampled_from([0.005, 0.015, 0.04, 0.1])] * 3)


def attempt(reference: ModelSettings, share: float, visits: int, tolerance: Tolerance, multiple: int) -> Match | None:
    start, end = middle_span(reference.layers, share)
    assume(end > start)
    try:
        return match(reference, start, end - start, visits, 170, tolerance, multiple)
    except UserError:
        return None


@settings(deadline=None)
@given(references(), spans, st.integers(1, 4), tolerances, st.sampled_from([1, 8, 64]))
def test_answer_is_within_tolerance(
    reference: ModelSettings, share: float, visits: int, tolerance: Tolerance, multiple: int
) -> None:
    found = attempt(reference, share, visits, tolerance, multiple)
    if found is None:
        return
    mine, theirs = budget(found.model, 170), budget(reference, 170)
    assert found.flops_ratio == mine.flops_per_token / theirs.flops_per_token
    assert found.params_ratio == mine.params / theirs.params
    assert found.kv_ratio == mine.kv_bytes_per_token / theirs.kv_bytes_per_token
    assert abs(found.flops_ratio - 1) <= tolerance.flops + 1e-12
    assert abs(found.params_ratio - 1) <= tolerance.params + 1e-12
    assert abs(found.kv_ratio - 1) <= tolerance.kv + 1e-12
    if visits > 1:
        assert multiple % found.multiple == 0
        assert found.model.hidden_size % found.multiple == found.model.expert_width % found.multiple == 0
        assert found.model.hidden_size <= reference.hidden_size
        shape = found.model.expert_width / found.model.hidden_size * reference.hidden_size / reference.expert_width
        assert 1 / 1.501 < shape < 1.501
    assert found.model.layers == reference.layers
    assert found.model.active_experts == reference.active_experts


@settings(deadline=None, max_examples=50)
@given(references(), spans, st.integers(2, 3), tolerances)
def test_looser_tolerance_loses_no_answer(
    reference: ModelSettings, share: float, visits: int, tolerance: Tolerance
) -> None:
    found = attempt(reference, share, visits, tolerance, 8)
    if found is not None:
        loose = dataclasses.replace(tolerance, flops=2 * tolerance.flops, params=2 * tolerance.params)
        assert attempt(reference, share, visits, loose, 8) is not None


@given(references(), spans, st.integers(1, 64))
def test_one_visit_is_the_reference(reference: ModelSettings, share: float, multiple: int) -> None:
    found = attempt(reference, share, 1, DESK, multiple)
    assert found is not None
    assert (found.flops_ratio, found.params_ratio, found.kv_ratio) == (1, 1, 1)
    assert dataclasses.replace(found.model, loop_start=0, loop_length=0) == reference
    assert plan(found.model) == plan(reference)


@pytest.mark.parametrize(("hidden_size", "expert_width"), [(32, 48), (48, 64), (64, 80), (96, 80)])
@pytest.mark.parametrize("target", [0.85, 0.95, 0.97])
@pytest.mark.parametrize("keys", [150, 170, 190])
def test_desk_grid(hidden_size: int, expert_width: int, target: float, keys: int) -> None:
    reference = ModelSettings(512, 4, hidden_size, 2, 1, 24, 8, expert_width)
    reference = dataclasses.replace(reference, experts=experts_for_sparsity(reference, target, keys))
    found = match(reference, 1, 2, 2, keys, DESK, 8)
    assert abs(found.flops_ratio - 1) <= 0.015
    assert abs(found.params_ratio - 1) <= 0.005
    assert found.kv_ratio == 1
    assert (found.model.heads, found.model.kv_heads, found.model.head_size) == (2, 1, 16)


def test_coarsest_lattice_is_taken() -> None:
    reference = ModelSettings(128256, 12, 1280, 20, 4, 64, 192, 432)
    for multiple in (8, 64, 128):
        found = match(reference, 3, 6, 2, 392, Tolerance(), multiple)
        assert found.multiple == multiple
        assert found.model.hidden_size % multiple == 0
    small = ModelSettings(512, 4, 32, 2, 1, 24, 357, 48)
    assert match(small, 1, 2, 2, 170, DESK, 128).multiple < 8


def test_shortfall_names_the_budget() -> None:
    reference = ModelSettings(128256, 12, 1280, 20, 4, 64, 192, 432)
    with pytest.raises(UserError, match=r"KV cache 1\.6 % below the reference \(tolerance kv: 1e-06\)"):
        match(reference, 3, 6, 2, 392, Tolerance(kv=1e-6), 64)
    with pytest.raises(UserError, match=r"FLOPs per token .* \(tolerance flops: 1e-09\)"):
        match(reference, 3, 6, 2, 392, Tolerance(flops=1e-9), 64)


def test_hopeless_reference_says_why() -> None:
    reference = ModelSettings(512, 4, 16, 2, 1, 24, 4000, 8)
    with pytest.raises(UserError, match="attention and router alone use up the FLOPs"):
        match(reference, 0, 4, 4, 170, DESK, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"multiple": 0}, "multiple is 0"), ({"loop_length": 5}, "lies outside the layers")],
)
def test_bad_requests(change: dict, words: str) -> None:
    reference = ModelSettings(512, 4, 64, 2, 1, 24, 58, 80)
    request = {"loop_start": 1, "loop_length": 2, "visits": 2, "attention_keys": 170} | change
    with pytest.raises(UserError, match=words):
        match(reference, **request)
    with pytest.raises(UserError, match="must not be looped"):
        match(dataclasses.replace(reference, loop_length=2, visits=2), 1, 2, 2, 170)
    with pytest.raises(UserError, match="tolerance: params"):
        Tolerance(params=0)
