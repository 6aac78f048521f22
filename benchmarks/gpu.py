"""Time a training step on one GPU: looped against baseline, compiled, recomputed and without determinism, and against
transformers' Qwen3-MoE with grouped products. Prints one row a form, with the largest memory held.

MFU counts the ledger's training FLOPs and the LM head's over the GPU's dense bfloat16 peak (--peak, TFLOP/s). The
looped network executes 1.5 times the layers on the same sizes here: compare its MFU with the baseline's, or its
tokens/s times its FLOPs. Documents have uneven lengths and each step has other ones.
"""

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from smelt.budgets.ledger import budget
from smelt.model.gpu import install
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.backends.gpu import Device, Feed, gpu_step, prepare
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch, ContextStream
from smelt.training.steps.step import optimizer

CONTEXT, DOCUMENT, VOCABULARY = 4096, 512, 50_304
RECIPE = TrainingSettings(
    steps=1000, branch_steps=(1000,), decay_steps=1, learning_rate=1e-4, batch_contexts=8, device="cuda"
)
BASE = ModelSettings(VOCABULARY, 12, hidden_size=768, heads=12, kv_heads=4, head_size=64, experts=64, expert_width=256)
LOOPED = dataclasses.replace(BASE, loop_start=3, loop_length=6, visits=2)


class Texts(ContextStream):
    """Random tokens in documents of uneven length, other ones at each step."""

    def __init__(self) -> None:
        super().__init__([], 0)

    def batch(self, step: int, size: int) -> Batch:
        generator = np.random.default_rng(step)
        tokens = size * CONTEXT - int(generator.integers(0, 64))
        cuts = np.unique(generator.integers(2, tokens - 2, tokens // DOCUMENT) // 2 * 2)
        lengths = np.diff(cuts, prepend=0, append=tokens)
        return Batch(torch.from_numpy(generator.integers(1, VOCABULARY, tokens)), lengths.tolist())


def ours(settings: ModelSettings, compiled: bool, activation_checkpointing: bool) -> Callable[[int], object]:
    recipe = dataclasses.replace(RECIPE, activation_checkpointing=activation_checkpointing)
    kernels = Device(prepare(recipe), recipe, compiled)
    feed, stream = Feed(kernels, recipe.batch_contexts), Texts()
    model = Transformer(settings)
    initialise(model, 0)
    install(model, kernels.execution)
    model.to(kernels.device)
    adamw = optimizer(model, recipe)
    return lambda step: gpu_step(model, adamw, feed, stream, step, step + 1, 1e-4, recipe)


def qwen_moe(settings: ModelSettings) -> Callable[[int], object]:
    """Without segments, which costs them less: contexts are rows of a batch."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=settings.vocabulary, hidden_size=settings.hidden_size, num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads, num_key_value_heads=settings.kv_heads, head_dim=settings.head_size,
        num_experts=settings.experts, num_experts_per_tok=settings.active_experts, norm_topk_prob=True,
        moe_intermediate_size=settings.expert_width, mlp_only_layers=[], tie_word_embeddings=True, use_cache=False,
        attn_implementation="sdpa", experts_implementation="grouped_mm",
    )  # fmt: skip
    model = Qwen3MoeForCausalLM(config).cuda().train()
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(1, settings.vocabulary, (RECIPE.batch_contexts, CONTEXT), device="cuda")

    def step(index: int) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE.gradient_clip)
        adamw.step()

    return step


FORMS: dict[str, tuple[ModelSettings, bool, Callable[[], Callable[[int], object]]]] = {
    "baseline": (BASE, True, lambda: ours(BASE, True, False)),
    "looped": (LOOPED, True, lambda: ours(LOOPED, True, False)),
    "baseline, any order of sums": (BASE, False, lambda: ours(BASE, True, False)),
    "baseline, not compiled": (BASE, True, lambda: ours(BASE, False, False)),
    "baseline, recomputed": (BASE, True, lambda: ours(BASE, True, True)),
    "looped, recomputed": (LOOPED, True, lambda: ours(LOOPED, True, True)),
    "Qwen3-MoE of transformers": (BASE, False, lambda: qwen_moe(BASE)),
}


def measure(make: Callable[[], Callable[[int], object]], warm: int, steps: int) -> tuple[float, float, float]:
    """Seconds a step (median), seconds of the first `warm` together, and the largest memory held in GiB."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step, seconds, start = make(), [], time.perf_counter()
    for index in range(warm + steps):
        if index == warm:
            warmed = time.perf_counter() - start
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(index)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[warm:])), warmed, torch.cuda.max_memory_allocated() / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak", type=float, default=989.0, help="dense bfloat16 TFLOP/s; 989 is an H100's or H200's")
    parser.add_argument("--warm", type=int, default=4, help="steps before those that count")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=270.0, help="start no form after so long")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: no CUDA device here")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    began = time.perf_counter()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {RECIPE.batch_contexts} x {CONTEXT} tokens a step"
    )
    print(f"{'form':<30}{'ms a step':>11}{'tokens/s':>11}{'MFU':>8}{'GiB':>8}{'warm-up s':>11}")
    for name, (settings, deterministic, make) in FORMS.items():
        if time.perf_counter() - began > arguments.seconds:
            print(f"{name:<30} left out: no time")
            continue
        torch.use_deterministic_algorithms(deterministic)
        try:
            seconds, warmed, memory = measure(make, arguments.warm, arguments.steps)
        except (ImportError, RuntimeError) as error:  # one form that fails must not hide the others
            print(f"{name:<30} failed: {str(error).splitlines()[0]}")
            continue
        rate = RECIPE.batch_contexts * CONTEXT / seconds
        counted = budget(settings, DOCUMENT / 2)
        share = rate * (counted.flops_per_token + counted.head_flops_per_token) / (arguments.peak * 1e12)
        print(f"{name:<30}{1000 * seconds:>11.1f}{rate:>11.0f}{share:>8.1%}{memory:>8.1f}{warmed:>11.1f}", flush=True)


if __name__ == "__main__":
    main()
