"""The lattice of hardware-friendly sizes, and its points whose three budgets come near a reference's.

All arithmetic is in whole numbers, so that the same points come out, in the same order, on every machine.
The points of a lattice are all networks with the matched model's layers, span and visits, the reference's active
experts and

* KV heads and heads from half to twice the reference's, heads a multiple of KV heads;
* an even head size of at least 4;
* hidden size (up to the reference's; that x L / L' where the model executes L' < L steps) and expert width multiples of
  `multiple`;
* an expert's shape, width / hidden size, and the width of attention, heads x head size / hidden size, each
  within a factor `shape` of the reference's;
* any number of experts from the active ones on; an always-on width in the reference's proportion to an expert's.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings
from smelt.setting import setting

LEAST_HEAD = 4  # smaller heads are degenerate
LARGEST = 2**62  # of a count; beyond it 64-bit integers would overflow


@dataclasses.dataclass(frozen=True)
class Lattice:
    """Which sizes are looked at."""

    multiple: int = setting(
        "Hidden size and expert width are multiples of it; halved where the tolerance needs it.", 8, minimum=1
    )
    shape: float = setting(
        "Largest factor by which an expert's width and that of attention, over the hidden size, may differ from the "
        "reference's.",
        1.5,
        minimum=1,
    )

    def __post_init__(self) -> None:
        if type(self.multiple) is not int or self.multiple < 1:
            raise UserError(f"multiple is {self.multiple!r}; it must be a whole number of at least 1")
        if not self.shape >= 1:
            raise UserError(f"shape is {self.shape!r}; it must be at least 1")


@dataclasses.dataclass(frozen=True)
class Heads:
    """One choice of heads; `kv` is its mismatch of the cache in units of 1 / (the reference's cache)."""

    heads: int
    kv_heads: int
    head_size: int
    kv: int


@dataclasses.dataclass(frozen=True)
class Point:
    """One network of the lattice. Mismatches are whole numbers, in units of 1 / the reference's budget."""

    choice: Heads
    hidden_size: int
    expert_width: int
    experts: int
    flops: int
    params: int


def exact(value: float) -> Fraction:
    """The fraction that a decimal number means: 0.04 is 1/25 and not the binary number next to it."""
    return Fraction(str(value))


class Search:
    """The budgets of a reference as whole numbers, and the lattice around its looped model."""

    def __init__(self, reference: ModelSettings, looped: ModelSettings, keys: float, lattice: Lattice) -> None:
        self.reference, self.looped, self.lattice = reference, looped, lattice
        self.executed = len(plan(looped))
        self.layers = looped.layers
        self.keys = exact(keys)
        r = reference
        self.flops = self.forward(
            r.layers,
            r.heads * r.head_size,
            self._attention(r.heads, r.kv_heads, r.head_size) * r.hidden_size
            + r.hidden_size * (r.experts + 3 * (r.active_experts * r.expert_width + r.shared_width)),
        )
        self.params = self._without_experts(
            r.layers, r.hidden_size, self._attention(r.heads, r.kv_heads, r.head_size), r.shared_width
        ) + r.layers * r.experts * r.hidden_size * (1 + 3 * r.expert_width)
        self.kv = r.layers * r.kv_heads * r.head_size  # keys of one token; as many values
        if max(self.flops, self.params) >= LARGEST:
            raise UserError("the reference is too large: its budgets do not fit 62 bits")

    def forward(self, executed: int, inner: int, products: int) -> int:
        """Forward FLOPs of a token x the denominator of the keys; `products` are the weights it meets in a step."""
        return executed * (2 * products * self.keys.denominator + 4 * inner * self.keys.numerator)

    def _attention(self, heads: int, kv_heads: int, head_size: int) -> int:
        """Weights of the four projections over the hidden size."""
        return 2 * (heads + kv_heads) * head_size

    @staticmethod
    def _without_experts(layers: int, hidden: Any, attention: int, shared: Any) -> Any:
        """Parameters but for experts and routers; hidden size and always-on width one number each, or arrays."""
        return layers * hidden * (attention + 3 * shared + 2) + hidden

    def shared_width(self, expert_width: Any) -> Any:
        """The always-on width, in the reference's proportion to an expert's, rounded; of one width or an array."""
        r = self.reference
        return (2 * expert_width * r.shared_width + r.expert_width) // (2 * r.expert_width)

    def heads(self, limit: Fraction) -> list[list[Heads]]:
        """Choices of heads whose cache is off by at most `limit`: those of equal mismatch in one list, best first."""
        r = self.reference
        choices = [
            Heads(heads, kv_heads, size, abs(self.executed * kv_heads * size - self.kv))
            for kv_heads in range(max(1, r.kv_heads // 2), 2 * r.kv_heads + 1)
            for size in self._head_sizes(kv_heads, limit)
            for heads in range(kv_heads, 2 * r.heads + 1, kv_heads)
            if 2 * heads >= r.heads
        ]
        choices.sort(key=lambda choice: (choice.kv, choice.kv_heads, choice.head_size, choice.heads))
        return [list(group) for _, group in itertools.groupby(choices, key=lambda choice: choice.kv)]

    def _head_sizes(self, kv_heads: int, limit: Fraction) -> Iterator[int]:
        """Even sizes within the limit, from the smallest."""
        step = 2 * kv_heads * self.executed
        low, high = _window(self.kv, limit)
        for half in range(max(LEAST_HEAD // 2, -(-low // step)), high // step + 1):
            yield 2 * half

    def points(self, choice: Heads, flops_limit: Fraction, params_limit: Fraction) -> Iterator[Point]:
        """All points with these heads whose FLOPs and parameters are off by at most the limits."""
        r, layers = self.reference, self.layers
        attention = self._attention(choice.heads, choice.kv_heads, choice.head_size)
        inner = choice.heads * choice.head_size
        low_flops, high_flops = _window(self.flops, flops_limit)
        low, high = (
            self._products(low_flops + self.forward(self.executed, 0, 1) - 1, inner),
            self._products(high_flops, inner),
        )
        least, most = _window(self.params, params_limit)
        hidden, width = self._grid(inner)
        shared = self.shared_width(width)
        fixed = 3 * (r.active_experts * width + shared)
        rest = self._without_experts(layers, hidden, attention, shared)
        each = layers * hidden * (1 + 3 * width)
        first = np.maximum(-((rest - least) // each), -((hidden * attention - low) // hidden) - fixed)
        first = np.maximum(first, r.active_experts)
        last = np.minimum((most - rest) // each, (high - hidden * attention) // hidden - fixed)
        for index in np.nonzero(first <= last)[0]:
            size, expert = int(hidden[index]), int(width[index])
            for experts in range(int(first[index]), int(last[index]) + 1):
                products = size * (attention + experts + int(fixed[index]))
                flops = abs(self.forward(self.executed, inner, products) - self.flops)
                params = abs(int(rest[index]) + int(each[index]) * experts - self.params)
                yield Point(choice, size, expert, experts, flops, params)

    def _products(self, flops: int, inner: int) -> int:
        """The most weights that a token may meet in a step within this many (scaled) FLOPs."""
        return (flops - self.forward(self.executed, inner, 0)) // self.forward(self.executed, 0, 1)

    def _widest(self) -> int:
        """The largest hidden size: fewer steps than the reference's make a wider network."""
        r = self.reference
        return r.hidden_size * r.layers // min(self.executed, r.layers)

    def _grid(self, inner: int) -> tuple[np.ndarray, np.ndarray]:
        """Hidden sizes and expert widths in proportion, one pair an entry."""
        r, multiple = self.reference, self.lattice.multiple
        most = exact(self.lattice.shape)
        sizes = [
            size
            for size in range(multiple, self._widest() + 1, multiple)
            if _within(inner * r.hidden_size, r.heads * r.head_size * size, most)
        ]
        pairs: list[tuple[int, int]] = []
        for size in sizes:
            low, high = (size * r.expert_width * factor / r.hidden_size for factor in (1 / most, most))
            first = max(1, -(-low // multiple))
            pairs += [(size, multiple * step) for step in range(int(first), int(high // multiple) + 1)]
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return array[:, 0], array[:, 1]


def _window(target: int, limit: Fraction) -> tuple[int, int]:
    """The whole numbers within a fraction `limit` of `target`."""
    spread = limit * target
    return -(-(target - spread) // 1), (target + spread) // 1


def _within(one: int, other: int, factor: Fraction) -> bool:
    """Whether two numbers differ by a factor of at most `factor`."""
    return one <= factor * other and other <= factor * one


def worst(point: Point, search: Search) -> int:
    """The largest of a point's three mismatches, in units of 1 / (product of the reference's budgets)."""
    return max(scaled(point, search))


def scaled(point: Point, search: Search) -> tuple[int, int, int]:
    """Mismatches of FLOPs, parameters and cache, all in units of 1 / (product of the reference's budgets)."""
    f, n, k = search.flops, search.params, search.kv
    return point.flops * n * k, point.params * f * k, point.choice.kv * f * n


def pareto(points: Sequence[Point]) -> list[Point]:
    """Of points in order of preference, those that no other point beats on one budget without losing on another."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.choice.kv, p.flops, p.params)):
        if not any(other.flops <= point.flops and other.params <= point.params for other in kept):
            kept.append(point)
    return kept
