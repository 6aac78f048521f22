"""Generated items about sequences: brackets to close or to judge, and longest common subsequences.

The prompts have the form of BIG-bench's dyck_languages and cs_algorithms, the sequences are drawn here. `random` is
seeded by the caller, one generator an item.
"""

import random
from collections.abc import Sequence

PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
CLOSERS = {closer: opener for opener, closer in PAIRS.items()}
DYCK = (
    "Complete the rest of the sequence, making sure that the parentheses are closed properly. "
    "\n\nInput: {}\nOutput:"
)  # fmt: skip
MATCHED = "Determine whether the given sequence of parentheses is properly matched.\n\nSequence: {}\nValid/Invalid?"
COMMON = (
    "Given two strings, determine the length of the longest common subsequence."
    "\n\nStrings: {} {}\nLength of longest common subsequence:"
)
DYCK_LENGTHS = (4, 100)  # tokens of a word before it is cut
MATCHED_LENGTHS = {2: 24, 4: 125, 10: 360, 20: 491}  # tokens: how often
STRING_LENGTHS = (4, 31)  # letters
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_COMMON = 9  # longest common subsequence that is asked for
VALID = (54, 125)  # share of sequences that are matched
SUBSEQUENCE = (8, 33)  # share of the items that ask for a common subsequence


def unclosed(tokens: Sequence[str]) -> list[str] | None:
    """The openers that are still open after `tokens`, outermost first; None where a closer matches none."""
    stack: list[str] = []
    for token in tokens:
        if token in PAIRS:
            stack.append(token)
        elif not stack or stack.pop() != CLOSERS[token]:
            return None
    return stack


def dyck(rng: random.Random, index: int) -> tuple[str, str]:
    """A word of the grammar S → opener S closer (1/2) | S S (1/4) | nothing (1/4), cut where one to three are open."""
    while True:
        word = _word(rng)
        count = rng.randint(1, 3)
        depths = [len(unclosed(word[:end]) or ()) for end in range(len(word) + 1)]
        if DYCK_LENGTHS[0] <= len(word) and count in depths:
            kept = word[: len(depths) - depths[::-1].index(count) - 1]  # the longest part of this depth
            if len(kept) > 1:
                closers = [PAIRS[opener] for opener in reversed(unclosed(kept) or ())]
                return DYCK.format(" ".join(kept)), " ".join(closers)


def _word(rng: random.Random) -> list[str]:
    """A word of the grammar; an empty one where it would be too long."""
    word: list[str] = []
    waiting = ["S"]
    while waiting and len(word) <= DYCK_LENGTHS[1]:
        symbol = waiting.pop()
        if symbol != "S":
            word.append(symbol)
        elif (draw := rng.random()) < 0.5:
            opener = rng.choice(list(PAIRS))
            word.append(opener)
            waiting += [PAIRS[opener], "S"]
        elif draw < 0.75:
            waiting += ["S", "S"]
    return [] if len(word) > DYCK_LENGTHS[1] else word


def cs_algorithms(rng: random.Random, index: int) -> tuple[str, str]:
    """By turns of the item's index, so that every share is exact: matched or not, or a common subsequence of 0 to 9."""
    asked = _before(index, SUBSEQUENCE)
    if _before(index + 1, SUBSEQUENCE) > asked:
        first, second = _strings(rng, asked % (MOST_COMMON + 1))
        return COMMON.format(first, second), str(asked % (MOST_COMMON + 1))
    judged = index - asked
    valid = _before(judged + 1, VALID) > _before(judged, VALID)
    return MATCHED.format(" ".join(_sequence(rng, valid))), "Valid" if valid else "Invalid"


def _before(index: int, share: tuple[int, int]) -> int:
    """How many of the first `index` items are of a kind that has this share."""
    return index * share[0] // share[1]


def _sequence(rng: random.Random, valid: bool) -> list[str]:
    length = rng.choices(list(MATCHED_LENGTHS), list(MATCHED_LENGTHS.values()))[0]
    kinds = list(PAIRS)[:3]
    while True:
        tokens = _matched(rng, length, kinds)
        if not valid:
            # Half are a matched sequence with a few tokens changed, half are anything: near misses and plain ones.
            places = rng.sample(range(length), min(length, rng.randint(1, 3)) if rng.random() < 0.5 else length)
            for place in places:
                tokens[place] = rng.choice([*kinds, *(PAIRS[kind] for kind in kinds)])
        if (unclosed(tokens) == []) == valid:
            return tokens


def _matched(rng: random.Random, length: int, kinds: Sequence[str]) -> list[str]:
    tokens: list[str] = []
    stack: list[str] = []
    while len(tokens) < length:
        if not stack or (len(stack) < length - len(tokens) and rng.random() < 0.5):
            stack.append(rng.choice(kinds))
            tokens.append(stack[-1])
        else:
            tokens.append(PAIRS[stack.pop()])
    return tokens


def _strings(rng: random.Random, answer: int) -> tuple[str, str]:
    """Two strings of random letters whose longest common subsequence has `answer` letters."""
    while True:
        first, second = ("".join(rng.choices(LETTERS, k=rng.randint(*STRING_LENGTHS))) for _ in range(2))
        if common_subsequence(first, second) == answer:
            return first, second


def common_subsequence(first: str, second: str) -> int:
    """Length of the longest common subsequence, a row of the usual table held as the bits of one number.

    Hyyrö, "Bit-parallel LCS-length computation revisited" (2004).
    """
    places = {letter: sum(1 << place for place, other in enumerate(first) if other == letter) for letter in first}
    mask = (1 << len(first)) - 1
    row = mask
    for letter in second:
        hits = row & places.get(letter, 0)
        row = ((row + hits) | (row - hits)) & mask
    return len(first) - row.bit_count()
