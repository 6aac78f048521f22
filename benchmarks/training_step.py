"""Time one training step of ours against Hugging Face transformers' Qwen3-MoE on the CPU.

Same sizes, same packed context of 4096 tokens and 20 documents, the same optimizer; forward, loss, backward,
clipping and fused AdamW, one thread. The two alternate within one process and the smallest CPU time of each
counts, so that a busy machine disturbs the ratio little. transformers keeps documents apart when position ids
restart; this is checked before anything is timed.

  pip install -e ".[benchmarks]"
  python benchmarks/training_step.py
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Batch
from smelt.training.steps.step import optimizer, train_step

CONTEXT, DOCUMENTS, VOCABULARY = 4096, 20, 512
RECIPE = TrainingSettings(steps=1000, branch_steps=(1000,), decay_steps=1, learning_rate=1e-3)
SIZES = [
    ModelSettings(VOCABULARY, 4, hidden_size=32, heads=2, kv_heads=1, head_size=24, experts=64, expert_width=32),
    ModelSettings(VOCABULARY, 4, hidden_size=64, heads=2, kv_heads=1, head_size=24, experts=96, expert_width=32),
    ModelSettings(VOCABULARY, 4, hidden_size=64, heads=2, kv_heads=1, head_size=24, experts=288, expert_width=32),
]


def packed_context(seed: int) -> Batch:
    """Random tokens in documents of uneven length that fill one context."""
    generator = np.random.default_rng(seed)
    shares = generator.lognormal(0.0, 1.0, DOCUMENTS)
    ends = np.round(np.cumsum(shares) / shares.sum() * (CONTEXT - 2 * DOCUMENTS)).astype(int)
    lengths = np.diff(ends, prepend=0) + 2
    return Batch(torch.from_numpy(generator.integers(1, VOCABULARY, CONTEXT)), lengths.tolist())


def ours(settings: ModelSettings, precision: torch.dtype, batch: Batch) -> Callable[[], None]:
    model = Transformer(settings, precision)
    initialise(model, 0)
    adamw = optimizer(model, RECIPE)

    def step() -> None:
        train_step(model, adamw, batch, RECIPE.learning_rate, RECIPE)

    return step


def qwen_moe(settings: ModelSettings, batch: Batch) -> Callable[[], None]:
    """A step of Qwen3-MoE with grouped products, no attention across segments."""
    try:
        from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    except ImportError as error:
        sys.exit(f'error: {error}; install what the benchmarks compare with: pip install -e ".[benchmarks]"')
    torch.manual_seed(0)
    model = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=settings.vocabulary,
            hidden_size=settings.hidden_size,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.kv_heads,
            head_dim=settings.head_size,
            num_experts=settings.experts,
            num_experts_per_tok=settings.active_experts,
            moe_intermediate_size=settings.expert_width,
            norm_topk_prob=True,
            mlp_only_layers=[],
            tie_word_embeddings=True,
            output_router_logits=True,
            router_aux_loss_coef=RECIPE.balance_loss,
            use_cache=False,
            attn_implementation="sdpa",
            experts_implementation="grouped_mm",
        )
    )
    model.train()
    positions = torch.cat([torch.arange(length) for length in batch.lengths])
    starts = torch.tensor([0, *batch.lengths[:-1]]).cumsum(0)
    labels = batch.tokens.clone()
    labels[starts] = -100  # BOS is no target
    check_segments(lambda tokens: model(tokens[None], position_ids=positions[None]).logits[0], batch)
    adamw = torch.optim.AdamW(model.parameters(), lr=RECIPE.learning_rate, fused=True)

    def step() -> None:
        output = model(batch.tokens[None], position_ids=positions[None], labels=labels[None])
        adamw.zero_grad()
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE.gradient_clip)
        adamw.step()

    return step


def check_segments(logits: Callable[[Tensor], Tensor], batch: Batch) -> None:
    """Stop where a changed token of the first document reaches another document."""
    changed = batch.tokens.clone()
    changed[1] = changed[1] % (VOCABULARY - 1) + 1
    first = batch.lengths[0]
    with torch.no_grad():
        difference = (logits(batch.tokens) - logits(changed)).abs()
    if difference[first:].max() > 1e-5 or difference[:first].max() == 0:
        sys.exit("error: this version of transformers does not keep the documents of a context apart")


def fastest(steps: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Smallest CPU time in seconds of each step; they take turns, and a first round is not counted."""
    best = dict.fromkeys(steps, float("inf"))
    for turn in range(repeats + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if turn:
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    batch = packed_context(0)
    print(f"{CONTEXT} tokens, documents of {min(batch.lengths)} to {max(batch.lengths)} tokens, 1 thread")
    print(f"{'size':<16}{'ours bf16':>12}{'ours fp32':>12}{'Qwen3-MoE':>12}{'ratio':>8}")
    for settings in SIZES:
        times = fastest(
            {
                "bf16": ours(settings, torch.bfloat16, batch),
                "fp32": ours(settings, torch.float32, batch),
                "transformers": qwen_moe(settings, batch),
            },
            repeats,
        )
        name = f"H{settings.hidden_size} E{settings.experts} W{settings.expert_width}"
        cells = "".join(f"{1000 * seconds:>9.0f} ms" for seconds in times.values())
        print(f"{name:<16}{cells}{times['transformers'] / min(times['bf16'], times['fp32']):>7.1f}x")


if __name__ == "__main__":
    main()
