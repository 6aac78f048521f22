"""Train the byte-level BPE tokenizer, on training text alone, and use it.

Reads documents.parquet (stable and decay streams, an equal share of each source in the streams' order);
writes tokenizer.json in the format of the `tokenizers` library. Its one special token, BOS, has id 0 and
comes from the packing alone: a document that spells `<|bos|>` is encoded like any other text.
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a job takes the threads that its rule says

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from smelt.artifacts import read_table, replacing
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.setting import setting

BOS = "<|bos|>"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The tokenizer and the text that it learns from."""

    vocabulary: int = setting("Size of the byte-level BPE vocabulary, the BOS token included.", minimum=257)
    tokenizer_megabytes: float = setting(
        "Training text that the tokenizer learns from, in MB, shared equally by the sources.",
        4,
        unit="MB",
        exclusive_minimum=0,
    )


def sample(documents: Path, megabytes: float) -> Iterator[str]:
    """Training text: of each source the first documents of its streams, up to an equal share of the bytes."""
    table = read_table(documents, ["source", "stream", "bytes", "text"])
    sources = table["source"].to_pylist()
    share = megabytes * 1e6 / len(set(sources))
    used = dict.fromkeys(sources, 0)
    for source, stream, size, text in zip(
        sources, table["stream"].to_pylist(), table["bytes"].to_pylist(), table["text"], strict=True
    ):
        if stream != "heldout" and used[source] < share:
            used[source] += size
            yield text.as_py()


def train(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    """A tokenizer of exactly `vocabulary` tokens. Raises UserError where the text has too few pairs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise UserError(
            f"corpus.vocabulary: the text yields {tokenizer.get_vocab_size()} tokens, not {vocabulary};"
            " lower corpus.vocabulary or raise corpus.tokenizer_megabytes"
        )
    return tokenizer


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer at `path`, set to treat the special token as text."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises the bare class
        raise UserError(f"{path}: not a readable tokenizer ({error}); delete it and run again") from None
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Tokens of each text, without BOS."""
    kind = token_type(tokenizer.get_vocab_size())
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [np.array(encoding.ids, dtype=kind) for encoding in encodings]


def token_type(vocabulary: int) -> np.dtype:
    """The smallest unsigned type that holds every token."""
    return np.min_scalar_type(vocabulary - 1)


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.corpus.contexts.tokenizer", __doc__, argv, Settings, ["documents"], ["out"])
    tokenizer = train(sample(job.path("documents"), job.settings.tokenizer_megabytes), job.settings.vocabulary)
    with replacing(job.path("out")) as temporary:
        temporary.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


if __name__ == "__main__":
    command(main)
