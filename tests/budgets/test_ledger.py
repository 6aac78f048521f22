"""The ledger against the paper's published geometry, torch's own counter and the real network."""

import csv
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.budgets.ledger import budget, experts_for_sparsity, fully_active, sparsity
from smelt.errors import UserError
from smelt.model.execution import middle_span, plan
from smelt.model.settings import ModelSettings

KEYS = 392  # keys per query that reproduce the paper's printed ratios
# The 32 cells of arXiv 2609.01343, Appendix A. Hidden size, layers, experts and rounded budgets are printed there;
# heads, widths and exact counts are recovered from them: they reproduce every printed digit.
FAMILY = list(csv.DictReader((Path(__file__).parent / "paper_family.csv").open()))
GEOMETRY = [field.name for field in dataclasses.fields(ModelSettings) if field.name in FAMILY[0]]


def paper_settings(row: dict[str, str]) -> ModelSettings:
    looped = row["architecture"] == "smelt"
    return ModelSettings(vocabulary=128256, visits=2 if looped else 1, **{name: int(row[name]) for name in GEOMETRY})


@pytest.mark.parametrize("row", FAMILY, ids=lambda row: f"{row['architecture']}-{row['scale']}-S{row['sparsity']}")
def test_paper_cells(row: dict[str, str]) -> None:
    settings = paper_settings(row)
    found = budget(settings, KEYS)
    assert found.params == int(row["total_params"])
    assert found.active_params == int(row["active_params"])
    assert found.flops_per_token == int(row["flops_per_token"])
    assert found.kv_bytes_per_token == int(row["kv_bytes_per_token"])
    start, end = middle_span(settings.layers, 0.5)
    assert (settings.loop_start, settings.loop_length) == ((start, end - start) if settings.visits == 2 else (0, 0))


def test_sparsity_of_the_paper_cells() -> None:
    assert len(FAMILY) == 32
    controls = {
        row["scale"]: budget(fully_active(paper_settings(row)), KEYS)
        for row in FAMILY
        if row["architecture"] == "baseline"
    }
    for row in FAMILY:
        found, control = budget(paper_settings(row), KEYS), controls[row["scale"]]
        s = sparsity(found.flops_per_token, found.params, control.flops_per_token, control.params)
        assert s == pytest.approx(float(row["s_baseline"]), abs=1e-6)


def test_parts_add_up_and_say_what_is_left_out() -> None:
    settings = ModelSettings(1000, 4, 32, 4, 2, 8, 16, 24, loop_start=1, loop_length=2, visits=3)
    found = budget(settings, 100)
    parts = {part.name: part for part in found.parts}
    assert parts["attention_context"].forward_flops == 8 * 4 * 4 * 8 * 100
    assert parts["norms"].params == 4 * 2 * 32 + 32
    assert parts["norms"].forward_flops == 0
    assert found.head_flops_per_token == 3 * 2 * 32 * 1000
    assert found.params == sum(part.params for part in found.parts if part.name != "lm_head")
    untied = budget(dataclasses.replace(settings, tied_embeddings=False), 100)
    assert untied.params == found.params
    assert untied.parts[-1].params == 32 * 1000


def test_counts_are_exact_where_the_keys_are_whole() -> None:
    settings = paper_settings(FAMILY[-1])
    assert isinstance(budget(settings, 392).flops_per_token, int)
    assert budget(settings, 392.0) == budget(settings, 392)
    assert budget(settings, 392.5).flops_per_token > budget(settings, 392).flops_per_token


def test_keys_must_be_positive() -> None:
    with pytest.raises(UserError, match="attention_keys"):
        budget(paper_settings(FAMILY[0]), 0)


@pytest.mark.parametrize("visits", [1, 2, 3])
def test_torch_counts_the_same(visits: int) -> None:
    """A forward and a backward pass with explicit products, counted by torch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    s = ModelSettings(
        50, 3, 12, 4, 2, 6, 9, 10, active_experts=2, shared_width=7, loop_start=1, loop_length=1, visits=visits
    )
    tokens = 11
    generator = torch.Generator().manual_seed(0)

    def weight(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_()

    inner, inner_kv, group = s.heads * s.head_size, s.kv_heads * s.head_size, s.heads // s.kv_heads
    layers = [
        {
            "q": weight(s.hidden_size, inner),
            "k": weight(s.hidden_size, inner_kv),
            "v": weight(s.hidden_size, inner_kv),
            "o": weight(inner, s.hidden_size),
            "router": weight(s.hidden_size, s.experts),
            "in": weight(s.experts, 2, s.hidden_size, s.expert_width),
            "out": weight(s.experts, s.expert_width, s.hidden_size),
            "shared_in": weight(2, s.hidden_size, s.shared_width),
            "shared_out": weight(s.shared_width, s.hidden_size),
        }
        for _ in range(s.layers)
    ]

    def swiglu(x: torch.Tensor, into: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return (torch.nn.functional.silu(x @ into[0]) * (x @ into[1])) @ out

    def forward(x: torch.Tensor) -> torch.Tensor:
        for step in plan(s):
            w = layers[step.layer]
            q = (x @ w["q"]).view(tokens, s.heads, s.head_size).transpose(0, 1)
            k, v = (
                (x @ w[name]).view(tokens, s.kv_heads, s.head_size).transpose(0, 1).repeat_interleave(group, 0)
                for name in "kv"
            )
            mixed = (q @ k.transpose(1, 2)).softmax(-1) @ v
            x = x + step.residual_scale * (mixed.transpose(0, 1).reshape(tokens, inner) @ w["o"])
            top = (x @ w["router"]).softmax(-1).topk(s.active_experts)
            writes = [swiglu(x, w["shared_in"], w["shared_out"])]
            for expert in range(s.experts):
                rows, slot = (top.indices == expert).nonzero(as_tuple=True)
                found = swiglu(x[rows], w["in"][expert], w["out"][expert]) * top.values[rows, slot].unsqueeze(1)
                writes.append(torch.zeros_like(x).index_add(0, rows, found))
            x = x + step.residual_scale * sum(writes)
        return x

    x = torch.randn(tokens, s.hidden_size, generator=generator).requires_grad_()
    found = budget(s, tokens)
    with FlopCounterMode(display=False) as counter:
        y = forward(x)
        forward_flops = counter.get_total_flops()
        (y * torch.randn(y.shape, generator=generator)).sum().backward()
    assert forward_flops * 3 == found.flops_per_token * tokens
    assert counter.get_total_flops() == found.flops_per_token * tokens


def test_parameters_are_those_of_the_network() -> None:
    from smelt.model.transformer import Transformer

    for extra in ({}, {"loop_start": 1, "loop_length": 2, "visits": 2, "shared_width": 8}):
        settings = ModelSettings(100, 4, 32, 4, 2, 8, 16, 24, **extra)
        own = sum(p.numel() for name, p in Transformer(settings).named_parameters() if name != "embedding")
        assert own == budget(settings, 10).params


@given(
    hidden=st.integers(1, 40).map(lambda n: 8 * n),
    width=st.integers(1, 40).map(lambda n: 8 * n),
    target=st.floats(0, 0.97),
    keys=st.integers(16, 2000),
)
def test_experts_for_sparsity_is_the_closest(hidden: int, width: int, target: float, keys: int) -> None:
    reference = ModelSettings(512, 4, hidden, 2, 1, 24, 8, width)
    control = budget(reference, keys)

    def s_of(experts: int) -> float:
        found = budget(dataclasses.replace(reference, experts=experts), keys)
        return sparsity(found.flops_per_token, found.params, control.flops_per_token, control.params)

    try:
        experts = experts_for_sparsity(reference, target, keys)
    except UserError:
        assert s_of(10**9) <= target + 1e-6
        return
    near = [n for n in (experts - 1, experts, experts + 1) if n >= 8]
    assert abs(s_of(experts) - target) <= min(abs(s_of(n) - target) for n in near) + 1e-12


def test_sparsity_of_the_controls_is_zero() -> None:
    reference = paper_settings(next(row for row in FAMILY if row["scale"] == "200M"))
    assert experts_for_sparsity(reference, 0, KEYS) == 8
    assert experts_for_sparsity(reference, 0.946, KEYS) == 192
    with pytest.raises(UserError, match=r"sparsity is 1\.5"):
        experts_for_sparsity(reference, 1.5, KEYS)
    with pytest.raises(UserError, match=r"cannot be reached.*wider experts"):
        experts_for_sparsity(dataclasses.replace(reference, expert_width=2), 0.99, KEYS)
