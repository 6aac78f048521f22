"""Log-likelihoods and greedy continuations of plain texts by one network: what any other harness asks of a model.

A text is BOS and its tokens. A context that is too long loses its oldest tokens, never BOS, and all continuations of
one context see the same cut of it. Equal contexts are computed once (trees).
"""

import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from smelt.errors import UserError
from smelt.evaluation.prompts.encoder import Encoder, Tokens, encode, encode_once, separable
from smelt.evaluation.scoring.log_likelihood import Scored, score_trees
from smelt.evaluation.scoring.trees import Tree
from smelt.model.decode import Cache, greedy
from smelt.model.transformer import Transformer


def split(encoder: Encoder, context: str, continuation: str) -> tuple[Tokens, Tokens]:
    """Tokens of a context and of what follows it, without BOS. Raises UserError where nothing follows.

    Blanks at the context's end go to the continuation, and both are tokenised as one text. Where a token would span
    the two, they are tokenised apart: no continuation loses its first token to the context.
    """
    stem = context.rstrip()
    continuation = context[len(stem) :] + continuation
    before = encode(encoder, stem)
    if separable(encoder, stem, continuation):
        after = encode(encoder, continuation)
    else:
        joined = encode_once(encoder, stem + continuation)
        fits = len(joined) > len(before) and np.array_equal(joined[: len(before)], before)
        after = joined[len(before) :] if fits else encode(encoder, continuation)
    if not len(after):
        raise UserError(f"the tokenizer has no token for the continuation {continuation!r} of {_short(context)}")
    return before, after


def log_likelihoods(
    model: Transformer, encoder: Encoder, pairs: Sequence[tuple[str, str]], length: int
) -> list[Scored]:
    """The score of each continuation after its context, with at most `length` tokens fed for one.

    Raises UserError where a continuation does not fit and where a score is not finite.
    """
    asked: dict[bytes, dict[bytes, list[int]]] = {}  # context, continuation, places in `pairs`
    for number, pair in enumerate(pairs):
        before, after = split(encoder, *pair)
        asked.setdefault(before.tobytes(), {}).setdefault(after.tobytes(), []).append(number)
    trees, cut = [], 0
    for data, afters in asked.items():
        context, continuations = _tokens(data), [_tokens(after) for after in afters]
        window = last(context, length - max(map(len, continuations)))
        if window is None:
            answer = _short(pairs[next(iter(afters.values()))[0]][1])
            raise UserError(f"a continuation does not fit into {length} tokens ({answer}); give a longer context")
        cut += len(window) < len(context)
        trees.append(Tree(np.concatenate([[encoder.bos], window]), continuations))
    if cut:
        print(f"{cut} of {len(trees)} contexts were too long for {length} tokens and lost their start", file=sys.stderr)
    by_number: dict[int, Scored] = {}
    for afters, scores in zip(asked.values(), score_trees(model, trees, length), strict=True):
        for numbers, scored in zip(afters.values(), scores, strict=True):
            _check(scored, pairs[numbers[0]][1])
            by_number |= dict.fromkeys(numbers, scored)
    return [by_number[number] for number in range(len(pairs))]


def last(tokens: Tokens, room: int) -> Tokens | None:
    """The last `room` tokens, or all where they are fewer; None where there is less than no room."""
    return tokens[max(0, len(tokens) - room) :] if room >= 0 else None


def rolling(model: Transformer, encoder: Encoder, texts: Sequence[str], length: int) -> list[float]:
    """The log-likelihood (nats) of each text after BOS, every token of it once, with as much before it as fits."""
    if length < 2:
        raise UserError(f"context is {length}; a token and the one before it need at least 2")
    parts = [list(windows(encode_once(encoder, text), length)) for text in texts]
    bos = [encoder.bos]
    scores = score_trees(model, (Tree(np.concatenate([bos, a]), [b]) for text in parts for a, b in text), length)
    totals = []
    for text, pieces in zip(texts, parts, strict=True):
        values = [next(scores)[0] for _ in pieces]
        for scored in values:
            _check(scored, text)
        totals.append(math.fsum(scored.log_probability for scored in values))
    return totals


def windows(tokens: Tokens, length: int) -> Iterator[tuple[Tokens, Tokens]]:
    """A text in pieces, each with the tokens that it sees before it.

    BOS, they and the piece but its last token are what is fed, at most `length`. The first piece takes all of it, later
    ones leave room for one token before them, and before the last stands as much as fits.
    """
    start = 0
    while start < len(tokens):
        end = min(len(tokens), start + length - (start > 0))
        yield tokens[max(0, end - length) : start], tokens[start:end]
        start = end


def continued(model: Transformer, encoder: Encoder, context: str, stops: Sequence[str], count: int, length: int) -> str:
    """What greedy decoding writes after `context`: up to `count` tokens, up to the first of `stops` or a BOS.

    Raises UserError where so many tokens leave no room for the context.
    """
    window = last(encode_once(encoder, context), length - count)
    if window is None or count < 1:
        raise UserError(f"{count} new tokens do not fit into {length}; ask for fewer or give a longer context")
    cache = Cache(model.settings, len(window) + count, dtype=torch.float32)  # BOS fills what the last token leaves
    tokens = torch.from_numpy(np.concatenate([[encoder.bos], window]))[None]
    written: list[int] = []
    text = ""
    while len(written) < count:
        tokens = greedy(model, tokens, 1, cache)
        if tokens.item() == encoder.bos:  # the network knows no other end of a text
            break
        written.append(int(tokens.item()))
        text = encoder.tokenizer.decode(written, skip_special_tokens=False)
        if ends := [end for stop in stops if stop and (end := text.find(stop)) >= 0]:
            return text[: min(ends)]
    return text


def _tokens(data: bytes) -> Tokens:
    return np.frombuffer(data, dtype=np.int32)


def _check(scored: Scored, text: str) -> None:
    if not math.isfinite(scored.log_probability):
        raise UserError(f"the log-likelihood of {_short(text)} is {scored.log_probability}; the weights are broken")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
