"""Prompts of an item: their text as DCLM's harness builds it, their tokens, and what is cut where they are too long.

A context is BOS, the preamble (header and demonstrations) and the query, tokenised apart as the reference does; a
continuation follows each. What is fed to the network is the context and the continuation but its last token, and that
has to fit. The reference, and every other harness known to us, cuts the BOS first and each choice of an item
differently; here BOS stays, all choices see the same context, and what was cut is counted. Needs no torch.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from smelt.errors import UserError
from smelt.evaluation.prompts.encoder import Encoder, Tokens, encode, encode_once, separable
from smelt.evaluation.tasks.items import Item, short
from smelt.evaluation.tasks.registry import Task

TRUNCATIONS = ("bos_left", "whole_demos")


class Tree(NamedTuple):
    """One context and the continuations that are scored after it."""

    option: int  # of a schema, which context this is; else 0
    context: Tokens  # with BOS
    continuations: list[Tokens]
    truncated: int  # tokens cut behind BOS
    dropped: int  # oldest demonstrations left out whole
    whole: int  # newest demonstrations of which nothing was cut
    differing: bool  # whether a query and its continuation have other tokens when tokenised as one text


def preamble(task: Task, item: Item, shown: Sequence[Item]) -> list[str]:
    """What stands before the query, in pieces: one for each demonstration, the header with the first of them."""
    header = task.header.replace("{category}", item.category.replace("_", " "))
    if not shown:
        return [header] if header else []
    first, *others = (_answered(task, other) for other in shown)
    return [header + first, *(task.example_delimiter + other for other in others)]


def queries(task: Task, item: Item, shown: Sequence[Item]) -> list[str]:
    """The text between preamble and continuation: one, of a schema one for each of its contexts."""
    before = task.example_delimiter if shown else ""  # a header ends as it wants to
    if task.kind == "schema":
        return [before + context + task.continuation_delimiter.rstrip() for context in item.choices]
    return [(before + item.query + task.continuation_delimiter).rstrip()]


def continuations(item: Item, prefix_space: bool) -> list[str]:
    """The texts that are scored after each query, with one space in front, or none if the tokenizer puts it there."""
    texts = [bare(text) for text in _scored(item)]
    return [f" {text}" for text in texts] if prefix_space else texts


def bare(text: str) -> str:
    """A continuation without the space that separates it from its context."""
    return text.removeprefix(" ")


def trees(
    encoder: Encoder, task: Task, item: Item, shown: Sequence[Item], length: int, truncation: str = "bos_left"
) -> list[Tree]:
    """The item's contexts and continuations in tokens, each with one continuation fed in at most `length` of them.

    `shown` are its demonstrations, oldest first. Raises UserError, naming row and task, where a continuation has no
    token or does not fit; the caller knows the file.
    """
    texts = continuations(item, encoder.prefix_space)
    answers = [encode(encoder, text) for text in texts]
    room = length - _longest(task, item, texts, answers, length)
    dropped, contexts = 0, _contexts(encoder, task, item, shown)
    if truncation == "whole_demos":
        while max(map(len, contexts)) > room and dropped < len(shown):
            dropped += 1
            contexts = _contexts(encoder, task, item, shown[dropped:])
    cut = max(0, max(map(len, contexts)) - room)
    left = shown[dropped:]
    bos = np.array([encoder.bos], dtype=np.int32)
    found = []
    for option, (context, query) in enumerate(zip(contexts, queries(task, item, left), strict=True)):
        own = min(cut, max(len(context) - 1, 0))  # of options of very unequal length none loses all
        differing = any(_differs(encoder, query, text) for text in texts)
        whole = _whole(encoder, task, item, left, own)
        found.append(Tree(option, np.concatenate([bos, context[own:]]), answers, own, dropped, whole, differing))
    return found


def _answered(task: Task, item: Item) -> str:
    """An item as a demonstration: its context and right answer."""
    if task.kind == "schema":
        return item.choices[item.gold] + task.continuation_delimiter + item.continuation
    return item.query + task.continuation_delimiter + item.choices[item.gold]


def _scored(item: Item) -> tuple[str, ...]:
    return (item.continuation,) if item.continuation else item.choices


def _longest(task: Task, item: Item, texts: Sequence[str], answers: Sequence[Tokens], length: int) -> int:
    """Tokens of the longest continuation. Raises UserError where one has none, or leaves no room for a context."""
    for text, tokens in zip(texts, answers, strict=True):
        if not len(tokens):
            raise UserError(
                f"row {item.index + 1} ({task.name}): the tokenizer has no token for {short(text)}; take the row or"
                " the task out"
            )
        if len(tokens) >= length:
            raise UserError(
                f"row {item.index + 1} ({task.name}): a continuation of {len(tokens)} tokens does not fit beside its"
                f" context into {length}; score the task with a longer context or leave it out"
            )
    return max(map(len, answers))


def _contexts(encoder: Encoder, task: Task, item: Item, shown: Sequence[Item]) -> list[Tokens]:
    """Tokens of preamble and query, one for each query, without BOS and uncut."""
    pieces = preamble(task, item, shown)
    before = [encode(encoder, piece) for piece in pieces] if _apart(encoder, pieces) else [_joined(encoder, pieces)]
    return [np.concatenate([*before, encode(encoder, query)]) for query in queries(task, item, shown)]


def _apart(encoder: Encoder, pieces: Sequence[str]) -> bool:
    """Whether pieces of a preamble have the tokens of their text when each is tokenised alone."""
    return all(separable(encoder, left, right) for left, right in pairwise(pieces))


def _joined(encoder: Encoder, pieces: Sequence[str]) -> Tokens:
    return encode_once(encoder, "".join(pieces))


def _whole(encoder: Encoder, task: Task, item: Item, shown: Sequence[Item], cut: int) -> int:
    """Of the demonstrations those that begin behind the first `cut` tokens of the context.

    Where a token may span two of them, one begins where the text before it would end if it stood alone.
    """
    if not cut or not shown:
        return len(shown)
    pieces = preamble(task, item, shown)
    if _apart(encoder, pieces):
        ends = [*accumulate(len(encode(encoder, piece)) for piece in pieces)]
    else:
        ends = [len(_joined(encoder, pieces[:count])) for count in range(1, len(pieces) + 1)]
    return sum(start >= cut for start in [0, *ends[:-1]])


def _differs(encoder: Encoder, query: str, text: str) -> bool:
    joined = " " + bare(text)
    if separable(encoder, query, joined):
        return False
    apart = [*encode(encoder, query).tolist(), *encode(encoder, text).tolist()]
    return apart != encode(encoder, query + joined).tolist()
