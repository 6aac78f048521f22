"""Generated items about saying words several times, with something added, left out or replaced.

The prompt has the form of BIG-bench's repeat_copy_logic; the instructions and words are ours. An instruction is a
row of `TEMPLATES`: its words, and what is said as the list of its parts.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

PROMPT = "repeat with logic:\n\nQ: {}\nA:"
WORDS = (
    "amber anchor basket beacon bottle bridge candle canyon carpet cedar clover copper cotton dragon falcon feather "
    "forest garden glacier hammer harbor island jacket kettle ladder lantern lemon marble meadow mirror needle ocean "
    "orchard paper pepper pillow planet pocket puzzle rabbit ribbon river rocket saddle shadow silver spider sunset "
    "teapot thunder ticket tiger tunnel valley velvet violin walnut window winter yellow"
).split()
COUNTS = "two three four five six seven eight nine".split()
ORDINALS = {2: "second", 3: "third", 4: "fourth"}


class Parts(NamedTuple):
    """What an instruction is about."""

    phrase: list[str]  # one to three words
    other: list[str]  # one or two words, none of them in the phrase
    times: int  # 2 to 9
    more: int  # 2 to 4, no more than times
    place: int  # of a word in the phrase


Instruction = tuple[str, Callable[[Parts], list[list[str]]]]


def _each(parts: Parts, odd: list[str], even: list[str]) -> list[list[str]]:
    """`odd` the first, third … time, `even` the others."""
    return [even if time % 2 else odd for time in range(parts.times)]


def _without(parts: Parts) -> list[str]:
    return parts.phrase[: parts.place] + parts.phrase[parts.place + 1 :]


def _replaced(parts: Parts) -> list[str]:
    return parts.phrase[: parts.place] + parts.other + parts.phrase[parts.place + 1 :]


def _every(parts: Parts) -> list[list[str]]:
    return [parts.phrase + (parts.other if time % parts.more == 0 else []) for time in range(1, parts.times + 1)]


# Words in braces are filled in: the phrase, the other words, the counts, an ordinal and one word of the phrase.
TEMPLATES: tuple[Instruction, ...] = (
    ("say {phrase} {times} times", lambda p: [p.phrase] * p.times),
    ("{times} times, please say {phrase}", lambda p: [p.phrase] * p.times),
    ("say {phrase} {times} times and then {other} {more} times", lambda p: [p.phrase] * p.times + [p.other] * p.more),
    ("say {phrase} and {other}, and do so {times} times", lambda p: [p.phrase + p.other] * p.times),
    ("say {phrase} {times} times, with {other} before the first time", lambda p: [p.other] + [p.phrase] * p.times),
    ("say {phrase} {times} times, with {other} after the last time", lambda p: [p.phrase] * p.times + [p.other]),
    ("say {phrase} {times} times, with {other} after each time", lambda p: [p.phrase + p.other] * p.times),
    ("say {phrase} {times} times, with {other} in between", lambda p: [p.phrase, p.other] * (p.times - 1) + [p.phrase]),
    ("say {phrase} {times} times, adding {other} on odd times", lambda p: _each(p, p.phrase + p.other, p.phrase)),
    ("say {phrase} {times} times, adding {other} on even times", lambda p: _each(p, p.phrase, p.phrase + p.other)),
    ("say {phrase} {times} times, and {other} after every {ordinal} time", _every),
    ("say {phrase} {times} times, leaving out {word} on odd times", lambda p: _each(p, _without(p), p.phrase)),
    ("say {phrase} {times} times, leaving out {word} on even times", lambda p: _each(p, p.phrase, _without(p))),
    ("say {phrase} {times} times, saying {other} for {word} on odd times", lambda p: _each(p, _replaced(p), p.phrase)),
    ("say {phrase} {times} times, saying {other} for {word} on even times", lambda p: _each(p, p.phrase, _replaced(p))),
)  # fmt: skip


def repeat_copy(rng: random.Random, index: int) -> tuple[str, str]:
    """One instruction with words and counts of its own."""
    instruction, said = rng.choice(TEMPLATES)
    size = rng.randint(2, 3) if "{word}" in instruction else rng.randint(1, 3)
    words = rng.sample(WORDS, size + rng.randint(1, 2))
    times = rng.randint(2, 9)
    parts = Parts(words[:size], words[size:], times, rng.randint(2, min(4, times)), rng.randrange(size))
    sentence = instruction.format(
        phrase=" ".join(parts.phrase),
        other=" ".join(parts.other),
        times=COUNTS[parts.times - 2],
        more=COUNTS[parts.more - 2],
        ordinal=ORDINALS[parts.more],
        word=parts.phrase[parts.place],
    )
    return PROMPT.format(sentence), " ".join(word for part in said(parts) for word in part)
