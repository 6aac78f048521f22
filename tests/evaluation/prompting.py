"""Small tokenizers of several families, tasks and items, for the tests of prompts."""

import dataclasses
from pathlib import Path

from hypothesis import settings
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from smelt.evaluation.prompts.encoder import BOS, Encoder, encoder_of
from smelt.evaluation.tasks.items import Item
from smelt.evaluation.tasks.registry import Task, read_tasks
from smelt.spec import digest

settings.register_profile("shared_machine", deadline=None)  # a busy machine is no failure
settings.load_profile("shared_machine")
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "evals"
TASKS = read_tasks()
TEXTS = [
    "Question: Which of the two is the larger one? Answer: the sun, as the stone is small.",
    "The trophy does not fit into the suitcase because the trophy is too large. Answer: A",
    "Question: What is near? Choices: A. one B. two Answer: B or the river stone under the old bridge",
    "for a:\n    one\n\n    two\n\n\n        three  \n  \n    four\n\n",  # runs of blanks become tokens too
] * 4


def task(kind="multiple_choice", **changes) -> Task:
    basis = Task(
        name="mine", suite="desk", kind=kind, file="desk/mine.jsonl", items=0, shots=2, sweep_shots=8,
        category="x", chance_v1=0.0, chance_v2=0.0, source="here",
    )  # fmt: skip
    return dataclasses.replace(basis, **changes)


def choice(index: int, query: str, choices=("one", "two"), gold=0, category="") -> Item:
    return Item(index, digest(f"{query}{choices}{gold}{category}")[:16], query, tuple(choices), "", gold, category)


def answer(index: int, context: str, continuation: str, category="") -> Item:
    return choice(index, context, (continuation,), 0, category)


def schema(index: int, contexts, continuation: str, gold=0) -> Item:
    return Item(index, digest(f"{contexts}{continuation}")[:16], "", tuple(contexts), continuation, gold, "")


def numbered(count: int, category="") -> list[Item]:
    return [choice(row, f"Question: number {row}?", (f"a{row}", f"b{row}"), row % 2, category) for row in range(count)]


def trained(cut, size: int, normalizer=None, alphabet=()) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if cut is not None:
        tokenizer.pre_tokenizer = cut
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[BOS], initial_alphabet=list(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def byte_level(size: int = 400) -> Tokenizer:
    """As the corpus stage trains it."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = trained(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), size, alphabet=alphabet)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece() -> Tokenizer:
    """One that puts a space before each text by itself."""
    return trained(pre_tokenizers.Metaspace(prepend_scheme="always"), 200)


def llama() -> Tokenizer:
    """The older form of the same: spaces by normalisation, no cut into words."""
    rules = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    return trained(None, 200, normalizers.Sequence(rules), alphabet="\n")


def spanning() -> Tokenizer:
    """One whose tokens run over words and spaces, so that ': A' can be a single one."""
    return trained(None, 300, alphabet="\n")


ENCODERS: dict[str, Encoder] = {
    "byte level": encoder_of(byte_level()),
    "sentencepiece": encoder_of(sentencepiece()),
    "llama": encoder_of(llama()),
    "spanning": encoder_of(spanning()),
}
