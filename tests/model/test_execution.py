"""Settings that are refused, and the plan that everything walks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import UserError
from smelt.model.execution import Step, middle_span, plan
from smelt.model.settings import ModelSettings

SIZES = {
    "vocabulary": 300,
    "layers": 5,
    "hidden_size": 16,
    "heads": 4,
    "kv_heads": 2,
    "head_size": 8,
    "experts": 16,
    "expert_width": 24,
}


def test_plan_of_a_looped_network() -> None:
    settings = ModelSettings(**SIZES, loop_start=1, loop_length=2, visits=2)
    assert plan(settings) == (
        Step(0, 0, 1.0, 0),
        Step(1, 0, 0.5, 1),
        Step(2, 0, 0.5, 2),
        Step(1, 1, 0.5, 3),
        Step(2, 1, 0.5, 4),
        Step(3, 0, 1.0, 5),
        Step(4, 0, 1.0, 6),
    )


@given(
    layers=st.integers(1, 12),
    start=st.integers(0, 12),
    length=st.integers(0, 12),
    visits=st.integers(1, 5),
)
def test_plan_properties(layers: int, start: int, length: int, visits: int) -> None:
    if start + length > layers or (visits > 1 and length == 0):
        with pytest.raises(UserError):
            ModelSettings(**SIZES | {"layers": layers}, loop_start=start, loop_length=length, visits=visits)
        return
    steps = plan(ModelSettings(**SIZES | {"layers": layers}, loop_start=start, loop_length=length, visits=visits))
    assert len(steps) == layers + (visits - 1) * length
    assert [step.kv_slot for step in steps] == list(range(len(steps)))
    assert {step.layer for step in steps} == set(range(layers))
    for step in steps:
        inside = start <= step.layer < start + length
        assert step.residual_scale == (1 / visits if inside else 1)
        assert 0 <= step.visit < (visits if inside else 1)
    if visits == 1:
        assert steps == plan(ModelSettings(**SIZES | {"layers": layers}))


def test_middle_span_is_the_papers() -> None:
    # arXiv 2609.01343, Section 3.2, looped layers counted from 1: 3-7, 4-9, 6-15, 8-22
    spans = [middle_span(layers, 0.5) for layers in (10, 12, 20, 30)]
    assert spans == [(2, 7), (3, 9), (5, 15), (7, 22)]
    assert middle_span(4, 0) == (2, 2)
    assert middle_span(4, 1) == (0, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loop_start": 4, "loop_length": 2, "visits": 2}, r"span \[4, 6\) lies outside the layers"),
        ({"heads": 3}, r"heads \(3\) must be a multiple of kv_heads \(2\)"),
        ({"head_size": 7}, "head_size is 7; it must be even"),
        ({"experts": 4}, r"active_experts \(8\) is more than experts \(4\)"),
        ({"hidden_size": 0}, "hidden_size is 0; it must be at least 1"),
        ({"layers": 2.0}, "layers must be a whole number"),
        ({"layers": True}, "layers must be a whole number"),
        ({"rope_base": 0.0}, "rope_base is 0.0; it must be greater than 0"),
        ({"visits": 2}, "visits is 2 but loop_length is 0"),
    ],
)
def test_refused_settings(change: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        ModelSettings(**SIZES | change)
