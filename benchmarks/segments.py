"""Time a training step on short segments in long contexts against the same segments in short contexts.

The same documents are packed three times: into contexts of 4,096 tokens with segments of at most 128
(`corpus.segment_tokens`), into contexts of 128 tokens, and into contexts of 4,096 tokens with whole segments. A step
takes 4,096 places of each. The steps, reading included, take turns in one process with one thread, and the medians of
their CPU times count. Prints the tokens of a second, BOS included, and their ratio to the short contexts'.

    python benchmarks/segments.py
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from smelt.artifacts import write_table
from smelt.corpus.contexts.contexts import contexts_table, pieces_of
from smelt.corpus.contexts.packing import best_fit
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.step import optimizer, train_step

PLACES, SEGMENT = 4096, 128  # tokens of a step, and of the longest of the short segments
RECIPE = TrainingSettings(steps=1000, branch_steps=(1000,), decay_steps=1, learning_rate=1e-3)
MODEL = ModelSettings(
    1024, 4, hidden_size=32, heads=2, kv_heads=1, head_size=18, experts=44, expert_width=144, active_experts=2,
    tied_embeddings=False,
)  # fmt: skip
PACKINGS = {  # context and longest segment, in tokens
    "context 128": (SEGMENT, SEGMENT),
    "context 4,096, segments of 128": (PLACES, SEGMENT),
    "context 4,096": (PLACES, PLACES),
}


def packed(folder: Path, context: int, segment: int, steps: int) -> ContextStream:
    """A stream of one shard with the contexts of `steps` steps, from documents of the lengths of the desk's."""
    generator = np.random.default_rng(0)
    lengths = np.clip(np.exp(generator.normal(np.log(200), 1.5, 64 * steps)), 8, 60_000).astype(int)
    tokens = [generator.integers(1, MODEL.vocabulary, length).astype(np.uint16) for length in lengths]
    rows = [{"position": i, "id": f"{i:064x}", "source": "", "category": ""} for i in range(len(tokens))]
    pieces = list(pieces_of(rows, tokens, segment))
    contexts = [[pieces[i] for i in row] for row in best_fit([piece.length for piece in pieces], context)]
    contexts.sort(key=lambda row: row[0].key)  # as in a shard, so that length orders nothing
    path = folder / f"{context}-{segment}.parquet"
    write_table(contexts_table(contexts[: steps * PLACES // context], 0, context), path, {})
    return ContextStream([path], 0)


def stepping(stream: ContextStream, contexts: int) -> Callable[[int], int]:
    """A function that takes step `index` of a fresh network and gives the tokens that the step read."""
    model = Transformer(MODEL)
    initialise(model, 0)
    adamw = optimizer(model, RECIPE)

    def step(index: int) -> int:
        batch = stream.batch(index, contexts)
        train_step(model, adamw, batch, RECIPE.learning_rate, RECIPE)
        return len(batch.tokens)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        streams = {name: packed(Path(folder), *sizes, repeats + 1) for name, sizes in PACKINGS.items()}
        steps = {name: stepping(stream, PLACES // PACKINGS[name][0]) for name, stream in streams.items()}
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(repeats + 1):
            for name, step in steps.items():
                start = time.process_time()
                tokens = step(turn)
                if turn:  # the first round loads the shards
                    rates[name].append(tokens / (time.process_time() - start))
    peer = statistics.median(rates["context 128"])
    print(f"{PLACES} places a step, {repeats} steps each, 1 thread")
    for name, found in rates.items():
        print(f"{name:<32}{statistics.median(found):>8.0f} tokens/s{statistics.median(found) / peer:>8.3f}x")


if __name__ == "__main__":
    main()
