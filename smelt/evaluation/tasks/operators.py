"""Generated items about operators: a definition in words and an expression to compute.

The prompt has the form of BIG-bench's operators; definitions and expressions are ours. A definition is written once,
as its words and its function; an expression is a tree that is written out and computed from the same nodes.
"""

import dataclasses
import math
import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

PROMPT = "Given the definition of the op operator, compute the result.\n{}\n{} ="
LARGEST = 999_999  # result, and digits, that an item asks for


@dataclasses.dataclass(frozen=True)
class Definition:
    words: str  # what it says after "is"
    function: Callable[..., int]
    low: int = -60  # arguments are drawn from low to high …
    high: int = 99
    least: int | None = None  # … and a nested result below this is no argument


class Node(NamedTuple):
    """An operator applied to numbers and other nodes."""

    name: str  # op, op1 or op2
    arguments: tuple["int | Node", ...]


FORMS = {"one": "{} i is {}", "two": "i {} j is {}", "many": "{} n1 n2 ... nn is {}"}


def _prime_after(number: int) -> int:
    number = max(number, 1) + 1
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


DEFINITIONS: Mapping[str, tuple[Definition, ...]] = {
    "one": (
        Definition("i times itself", lambda i: i * i),
        Definition("i times itself, and once more times i", lambda i: i**3, -20, 20),
        Definition("i plus seven", lambda i: i + 7),
        Definition("i with the other sign", lambda i: -i),
        Definition("the sum of the digits of i", lambda i: sum(map(int, str(i))), 10, 99_999, 0),
        Definition("the number of digits of i", lambda i: len(str(i)), 1, 999_999, 0),
        Definition("the last digit of i", lambda i: i % 10, 10, 99_999, 0),
        Definition("the digits of i written backwards", lambda i: int(str(i)[::-1]), 12, 99_999, 1),
        Definition("half of an even i, and three times an odd i", lambda i: 3 * i if i % 2 else i // 2),
        Definition("the sum of the whole numbers from 1 up to i", lambda i: i * (i + 1) // 2, 1, 60, 1),
        Definition("the first prime number above i", _prime_after, 1, 90, 1),
    ),
    "two": (
        Definition("the total of i and j", lambda i, j: i + j),
        Definition("i times j", lambda i, j: i * j),
        Definition("i minus j", lambda i, j: i - j),
        Definition("j minus i", lambda i, j: j - i),
        Definition("the larger one of i and j", max),
        Definition("the smaller one of i and j", min),
        Definition("how far i and j lie apart", lambda i, j: abs(i - j)),
        Definition("two times i, plus j", lambda i, j: 2 * i + j),
        Definition("one more than i times j", lambda i, j: i * j + 1),
        Definition("i times i plus j times j", lambda i, j: i * i + j * j, -20, 30),
        Definition("what is left when i is divided by j", lambda i, j: i % j, 1, 99, 1),
        Definition("how many times j fits into i", lambda i, j: i // j, 1, 99, 1),
        Definition("the largest number that divides both i and j", math.gcd, 1, 99, 1),
        Definition("i followed by j, read as one number", lambda i, j: int(f"{i}{j}"), 1, 99, 1),
        Definition("how many whole numbers lie between i and j", lambda i, j: max(0, abs(i - j) - 1)),
    ),
    "many": (
        Definition("the total of all numbers in the list", lambda *n: sum(n)),
        Definition("the product of all numbers in the list", lambda *n: math.prod(n), -6, 9),
        Definition("the largest number in the list", max),
        Definition("the smallest number in the list", min),
        Definition("how many numbers the list has", lambda *n: len(n)),
        Definition("how many numbers in the list are even", lambda *n: sum(k % 2 == 0 for k in n)),
        Definition("the second number in the list", lambda *n: n[1]),
        Definition("the last number in the list minus the first", lambda *n: n[-1] - n[0]),
        Definition("the total of the numbers in the list that are above zero", lambda *n: sum(k for k in n if k > 0)),
    ),
}
ARGUMENTS = {"one": (1, 1), "two": (2, 2), "many": (3, 6)}


def operators(rng: random.Random, index: int) -> tuple[str, str]:
    """One definition, applied once or nested, or two definitions applied to each other's result."""
    while True:
        form = rng.choice(list(FORMS))
        outer = inner = rng.choice(DEFINITIONS[form])
        names = ("op", "op")
        if form == "two" and rng.random() < 0.4:
            inner, names = rng.choice([other for other in DEFINITIONS[form] if other is not outer]), ("op2", "op1")
        nested = names[0] != names[1] or rng.random() < 0.3
        meanings = {names[1]: inner, names[0]: outer}
        tree = _tree(rng, form, meanings, names, nested)
        result = compute(tree, meanings)
        if result is not None:
            definition = "; ".join(FORMS[form].format(name, meanings[name].words) for name in sorted(meanings))
            return PROMPT.format(f"{definition}.", written(tree, form)), str(result)


def _tree(
    rng: random.Random, form: str, meanings: Mapping[str, Definition], names: tuple[str, str], nested: bool
) -> Node:
    def numbers(meaning: Definition) -> list[int]:
        return [rng.randint(meaning.low, meaning.high) for _ in range(rng.randint(*ARGUMENTS[form]))]

    arguments: list[int | Node] = [*numbers(meanings[names[0]])]
    if nested:
        place = rng.randrange(len(arguments))
        arguments[place] = Node(names[1], tuple(numbers(meanings[names[1]])))
    return Node(names[0], tuple(arguments))


def compute(tree: "int | Node", meanings: Mapping[str, Definition]) -> int | None:
    """The value of an expression; None where a definition does not apply to a nested result, or it grows too large."""
    if isinstance(tree, int):
        return tree
    meaning = meanings[tree.name]
    values = [compute(argument, meanings) for argument in tree.arguments]
    known = [value for value in values if value is not None and (meaning.least is None or value >= meaning.least)]
    if len(known) < len(values):
        return None
    result = meaning.function(*known)
    return result if abs(result) <= LARGEST else None


def written(tree: "int | Node", form: str) -> str:
    """The expression as it stands in the prompt, a nested one in parentheses."""
    if isinstance(tree, int):
        return str(tree)
    parts = [f"({written(a, form)})" if isinstance(a, Node) else str(a) for a in tree.arguments]
    return f" {tree.name} ".join(parts) if form == "two" else " ".join([tree.name, *parts])
