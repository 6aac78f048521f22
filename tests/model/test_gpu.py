"""The GPU's network against the CPU's, on CPU tensors as far as kernels exist there, and on a GPU if there is one."""

import dataclasses

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from smelt.model import gpu, gpu_attention, gpu_loss
from smelt.model.attention import allowed, attend, layout
from smelt.model.experts import experts, route
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise, next_token_loss

SMALL = ModelSettings(
    vocabulary=64, layers=4, hidden_size=32, heads=4, kv_heads=2, head_size=8, experts=24, expert_width=16,
    loop_start=1, loop_length=2, visits=2,
)  # fmt: skip
SHARED = dataclasses.replace(SMALL, shared_width=8, tied_embeddings=False)
ODD = dataclasses.replace(SMALL, hidden_size=30, expert_width=13)  # not rows of a grouped product without padding
LENGTHS = [5, 70, 33, 2, 31, 7]
PLAIN = gpu.Execution(torch.float32, compiled=False)
# Largest difference from the float32 reference: of logits over the largest, of the mean loss, of gradients over their
# norm. On the CPU they are 3e-7, 9e-7 and 5e-7 in float32; 2e-2, 9e-4 and 3e-2 in bfloat16.
TOLERANCE = {torch.float32: (2e-5, 2e-5, 2e-5), torch.bfloat16: (6e-2, 5e-3, 6e-2)}
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
DEVICES = ["cpu", pytest.param("cuda", marks=on_gpu)]


def network(shape: ModelSettings, device: str = "cpu") -> Transformer:
    model = Transformer(shape, torch.float32)
    initialise(model, 0)
    return model.to(device)


def text(length: int = sum(LENGTHS)) -> torch.Tensor:
    return torch.randint(1, 64, (length,), generator=torch.Generator().manual_seed(0))


def reference(shape: ModelSettings):
    """Logits, summed loss and gradients of the CPU path in float32."""
    model, tokens = network(shape), text()
    output = model(tokens, LENGTHS)
    loss = next_token_loss(model, output.hidden, tokens, LENGTHS).sum()
    (loss + output.balance_loss + output.z_loss).backward()
    return model.logits(output.hidden).detach(), loss.item(), {n: p.grad for n, p in model.named_parameters()}


def found(shape: ModelSettings, execution: gpu.Execution, device: str = "cpu", kernel: str = ""):
    """The same by the GPU's network."""
    model, tokens = network(shape, device), text().to(device)
    segments = gpu_attention.packed(LENGTHS, None, device, kernel, execution.precision)
    gpu.install(model, execution)
    output = model(tokens, segments)
    following, _ = gpu_loss.targets(tokens, LENGTHS)
    loss = gpu_loss.summed_loss(model, output.hidden, following, execution.precision, chunk=40)
    (loss + output.balance_loss + output.z_loss).backward()
    gradients = {n: p.grad.cpu() for n, p in model.named_parameters()}
    return model.logits(output.hidden).detach().cpu(), loss.item(), gradients


def agree(got, expected, precision: torch.dtype) -> None:
    values, losses, gradients = TOLERANCE[precision]
    targets = sum(LENGTHS) - len(LENGTHS)
    assert (got[0] - expected[0]).abs().max() < values * max(1.0, expected[0].abs().max().item())
    assert abs(got[1] - expected[1]) / targets < losses
    for name, gradient in expected[2].items():
        assert (got[2][name] - gradient).norm() <= gradients * gradient.norm() + 1e-6, name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("shape", [SMALL, SHARED, ODD])
def test_logits_losses_and_gradients_agree_with_the_reference(shape, precision, device):
    # bfloat16 may choose another expert at a near tie, which no tolerance covers: all experts are active there.
    shape = shape if precision == torch.float32 else dataclasses.replace(shape, experts=8)
    agree(found(shape, gpu.Execution(precision, compiled=False), device), reference(shape), precision)


@on_gpu
@pytest.mark.parametrize("kernel", ["varlen", "flex", "plain"])
def test_each_attention_kernel_agrees_compiled(kernel):
    shape = dataclasses.replace(SMALL, experts=8)
    agree(found(shape, gpu.Execution(), "cuda", kernel), reference(shape), torch.bfloat16)


@on_gpu
def test_a_step_gives_the_same_bits_again():
    torch.use_deterministic_algorithms(True)
    try:
        one, other = (found(SMALL, gpu.Execution(), "cuda") for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert one[1] == other[1]
    assert all(torch.equal(one[2][name], other[2][name]) for name in one[2])


def test_recomputed_blocks_give_the_same_gradients():
    kept, again = (found(SMALL, dataclasses.replace(PLAIN, activation_checkpointing=which)) for which in (False, True))
    assert kept[1] == again[1]
    for name, gradient in kept[2].items():
        assert torch.equal(gradient, again[2][name]), name


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("shape", [SMALL, SHARED])
def test_chunked_loss_equals_the_plain_one(shape, chunk):
    tokens = text()
    hidden = torch.randn(len(tokens), shape.hidden_size, generator=torch.Generator().manual_seed(1))
    results = []
    for chunked in (False, True):
        model, rows = network(shape), hidden.clone().requires_grad_()
        if chunked:
            following, count = gpu_loss.targets(tokens, LENGTHS)
            assert count == (following >= 0).sum()
            loss = gpu_loss.summed_loss(model, rows, following, torch.float32, chunk) / count
        else:
            loss = next_token_loss(model, rows, tokens, LENGTHS).mean()
        loss.backward()
        head = model.embedding if shape.tied_embeddings else model.head
        results.append((loss.detach(), rows.grad, head.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_a_loss_without_gradients_keeps_none():
    model, tokens = network(SMALL), text()
    following, _ = gpu_loss.targets(tokens, LENGTHS)
    with torch.no_grad():
        loss = gpu_loss.summed_loss(model, torch.ones(len(tokens), SMALL.hidden_size), following, torch.float32)
    assert not loss.requires_grad


def test_routing_agrees_with_the_reference():
    x, router = torch.randn(50, 16), torch.randn(24, 16)
    one, other = gpu.route(x, router, 8), route(x, router, 8)
    for name, value in one._asdict().items():
        torch.testing.assert_close(value, getattr(other, name), msg=name)


def test_experts_without_tokens_get_exactly_zero_gradient():
    x, indices = torch.randn(9, 16), torch.tensor([[0, 3]] * 8 + [[3, 5]])
    weights = torch.rand(9, 2)
    leaves = [torch.randn(7, 16, 16).requires_grad_(), torch.randn(7, 8, 16).requires_grad_()]
    out = gpu.experts(x, indices, weights, *leaves, torch.float32)
    torch.testing.assert_close(out, experts(x, indices, weights, *leaves, torch.float32), atol=1e-4, rtol=1e-4)
    out.square().sum().backward()
    for leaf in leaves:
        assert [bool((part != 0).any()) for part in leaf.grad] == [True, False, False, True, False, True, False]


def test_plain_kernel_agrees_with_the_reference_in_branches():
    lengths, branches = [40, 17, 9], [[5, 8, 3], [], [2, 2]]
    q, k, v = (torch.randn(66, heads, 8) for heads in (4, 2, 2))
    segments = gpu_attention.packed(lengths, branches, "cpu", "plain")
    expected = layout(lengths, branches)
    assert torch.equal(segments.positions, expected.positions)
    torch.testing.assert_close(gpu_attention.attend(q, k, v, segments), attend(q, k, v, expected), atol=1e-5, rtol=0)


def test_the_block_mask_is_that_of_the_reference():
    lengths, branches = [40, 117, 90], [[5, 8, 3], [], [20, 20]]
    segment, branch, _ = gpu_attention._ids(lengths, branches)
    mask = gpu_attention.block_mask(segment, branch).mask_mod
    order = torch.arange(sum(lengths))
    assert torch.equal(mask(0, 0, order[:, None], order[None]), allowed(lengths, branches))


def test_flex_forward_agrees_with_the_reference_on_the_cpu():
    lengths, branches = [140, 17, 90], [[5, 8, 3], [], [20, 20]]
    q, k, v = (torch.randn(247, heads, 24) for heads in (4, 2, 2))
    segments = gpu_attention.packed(lengths, branches, "cpu", "flex")
    parts = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = gpu_attention.flex_attention(*parts, block_mask=segments.blocks, enable_gqa=True).squeeze(0).transpose(0, 1)
    torch.testing.assert_close(out, attend(q, k, v, layout(lengths, branches)), atol=1e-5, rtol=0)


def test_varlen_s_shapes_and_offsets_hold_on_the_meta_device():
    segments = gpu_attention.packed(LENGTHS, None, "cpu", "varlen")
    assert segments.offsets.tolist() == [0, 5, 75, 108, 110, 141, 148]
    assert segments.longest == 128
    meta = segments._replace(offsets=segments.offsets.to("meta"))
    q, k, v = (torch.empty(148, heads, 12, dtype=torch.bfloat16, device="meta") for heads in (4, 2, 2))
    assert gpu_attention.attend(q, k, v, meta).shape == (148, 4, 12)


def test_the_fastest_kernel_that_can_is_chosen():
    cuda = torch.device("cuda")
    assert gpu_attention.choose(cuda, False, torch.bfloat16) == "varlen"
    assert gpu_attention.choose(cuda, True, torch.bfloat16) == "flex"
    assert gpu_attention.choose(cuda, False, torch.float32) == "flex"


def test_batches_of_other_lengths_compile_a_block_no_further():
    torch._dynamo.reset()
    counter = CompileCounter()
    block = torch.compile(gpu._visit, backend=counter, fullgraph=True)
    model = network(SMALL)
    gpu.install(model, gpu.Execution())
    for lengths in ([30, 20, 50], [70, 7], [9, 40, 12, 60], [33]):
        segments = gpu_attention.packed(lengths, None, "cpu", "plain")
        for layer in model.layers:
            x = gpu._dynamic(torch.randn(sum(lengths), SMALL.hidden_size))
            rotary = gpu._rotary(segments.positions, SMALL)
            block(layer, x, segments, rotary, 1.0, torch.bfloat16)
    assert counter.frame_count <= 2  # the second with dynamic sizes throughout


@pytest.mark.slow
def test_a_compiled_block_agrees_with_an_eager_one_on_the_cpu():
    torch._dynamo.reset()
    shape = dataclasses.replace(SMALL, experts=8, layers=1, loop_start=0, loop_length=0, visits=1)
    eager = found(shape, gpu.Execution(compiled=False))
    agree(found(shape, gpu.Execution()), eager, torch.bfloat16)
