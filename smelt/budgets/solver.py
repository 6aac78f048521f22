"""The matching solver: the looped network that costs what its reference costs.

A span visited r times runs L' = L + (r - 1) m layers. Three budgets stay equal to the reference's, and
three things give way:

* the KV cache: head_size falls by about L / L', at the same heads and KV heads where that is close enough;
* FLOPs per token: hidden_size and expert_width fall, each by about sqrt(L / L');
* parameters: the number of experts rises.

F and N leave one freedom, the shape of an expert (width / hidden size). It stays near the reference's, so
that all cells of a study are narrowed alike. Within these limits the smallest mismatch wins, in units of the
tolerances. A search over whole numbers without torch: milliseconds a cell, the same answer on every machine.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

from smelt.budgets.ledger import TRAINING, budget
from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

# Factors by which expert_width / hidden_size may leave the reference's: first these on every lattice, then those.
SHAPES = (1.1, 1.25), (1.5,)
OTHER_HEADS = 4  # alternatives tried; keeps a search without a result short
LEAST_HEAD, LEAST_HIDDEN = 4, 8  # below these a network is degenerate


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Largest mismatch accepted on each budget, as a fraction of the reference's."""

    flops: float = 0.04
    params: float = 0.04
    kv: float = 0.04

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise UserError(f"tolerance: {name} is {value!r}; it must be greater than 0")


@dataclasses.dataclass(frozen=True)
class Match:
    """A looped network, its budgets as ratios to the reference's, and the lattice that it lies on."""

    model: ModelSettings
    flops_ratio: float
    params_ratio: float
    kv_ratio: float
    multiple: int


@dataclasses.dataclass(frozen=True)
class _Heads:
    heads: int
    kv_heads: int
    head_size: int


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """One point of the search; ordered by `key`, the smallest first."""

    heads: _Heads
    hidden_size: int
    expert_width: int
    experts: int
    flops: float  # ratios to the reference
    params: float
    kv: float
    key: tuple[float, ...]  # mismatches in units of their tolerance, the largest first; then ties


@functools.cache
def match(
    reference: ModelSettings,
    loop_start: int,
    loop_length: int,
    visits: int,
    attention_keys: float,
    tolerance: Tolerance = Tolerance(),
    multiple: int = 8,
) -> Match:
    """The looped twin of `reference`, or UserError with the budget that is short and by how much.

    hidden_size and expert_width are multiples of `multiple`, which is halved until a twin exists: the
    coarsest lattice that meets the tolerance is taken, first with the reference's heads, then with others.
    """
    if multiple < 1:
        raise UserError(f"multiple is {multiple}; it must be at least 1")
    if reference.loop_length and reference.visits > 1:
        raise UserError("the reference architecture must not be looped; give it visits 1")
    looped = dataclasses.replace(reference, loop_start=loop_start, loop_length=loop_length, visits=visits)
    if len(plan(looped)) == reference.layers:
        return Match(looped, 1.0, 1.0, 1.0, multiple)
    search = _Search(reference, looped, attention_keys, tolerance)
    closest: _Candidate | None = None
    for heads, shapes, lattice in itertools.product(search.heads(), SHAPES, _halvings(multiple)):
        found = sorted(search.candidates(heads, lattice, shapes[-1]), key=lambda candidate: candidate.key)
        for shape in shapes:
            best = next((candidate for candidate in found if search.distortion(candidate) <= shape), None)
            if best is not None and best.key[0] <= 1:
                return search.answer(best, lattice)
        closest = min([*found[:1], *filter(None, [closest])], key=lambda candidate: candidate.key, default=None)
    raise UserError(_shortfall(closest, tolerance, looped))


def _halvings(multiple: int) -> list[int]:
    steps = [multiple]
    while steps[-1] > 1:
        steps.append(steps[-1] // 2)
    return steps


class _Search:
    """The targets of one reference, and the lattice points that come near them."""

    def __init__(
        self, reference: ModelSettings, looped: ModelSettings, attention_keys: float, tolerance: Tolerance
    ) -> None:
        self.reference, self.looped, self.keys, self.tolerance = reference, looped, attention_keys, tolerance
        self.executed = len(plan(looped))
        self.target = budget(reference, attention_keys)
        self.kv_values = reference.kv_heads * reference.head_size * reference.layers  # of keys; as many of values
        self.shared_ratio = reference.shared_width / reference.expert_width
        self.shape = reference.expert_width / reference.hidden_size

    def heads(self) -> list[list[_Heads]]:
        """Choices of heads with which the cache fits: the reference's, then from half to twice as many, the nearest
        first; each with the head sizes on both sides of the one that would match the cache exactly."""
        r = self.reference
        choices = [
            [choice for choice in self._head_sizes(count, kv_heads) if self._kv_fits(choice)]
            for kv_heads in range(max(1, r.kv_heads // 2), 2 * r.kv_heads + 1)
            for count in range(max(1, r.heads // 2), 2 * r.heads + 1)
            if count % kv_heads == 0
        ]
        choices = sorted(filter(None, choices), key=lambda group: self._distance(group[0]))
        if not choices:
            raise UserError(self._kv_shortfall())
        return choices[: 1 + OTHER_HEADS]

    def _distance(self, choice: _Heads) -> float:
        r = self.reference
        return abs(math.log(choice.heads / r.heads)) + abs(math.log(choice.kv_heads / r.kv_heads))

    def _head_sizes(self, heads: int, kv_heads: int) -> list[_Heads]:
        below = self.kv_values // (kv_heads * self.executed) // 2 * 2
        return [_Heads(heads, kv_heads, size) for size in (below, below + 2) if size >= LEAST_HEAD]

    def _kv_fits(self, choice: _Heads) -> bool:
        return abs(self._kv_ratio(choice) - 1) <= self.tolerance.kv

    def _kv_ratio(self, choice: _Heads) -> float:
        return choice.kv_heads * choice.head_size * self.executed / self.kv_values

    def _kv_shortfall(self) -> str:
        r = self.reference
        sizes = self._head_sizes(r.heads, r.kv_heads) or [_Heads(r.heads, r.kv_heads, LEAST_HEAD)]
        nearest = min(sizes, key=lambda choice: abs(self._kv_ratio(choice) - 1))
        return (
            f"no head size and number of KV heads meets the tolerance over {self.executed} executed layers; the "
            f"closest with {r.kv_heads} KV heads (head_size {nearest.head_size}) has "
            + _mismatch("KV cache", "kv", self._kv_ratio(nearest), self.tolerance.kv)
            + "; raise the tolerance or use larger heads"
        )

    def candidates(self, heads: list[_Heads], lattice: int, shape: float) -> Iterator[_Candidate]:
        for choice in heads:
            for hidden_size in range(lattice, self.reference.hidden_size + 1, lattice):
                if hidden_size < LEAST_HIDDEN:
                    continue
                width = self._exact_width(choice, hidden_size)
                if width is None or self._shape_factor(hidden_size, width) > shape * (1 + lattice / width):
                    continue
                first = math.floor(width / lattice) - 1
                for expert_width in range(max(1, first) * lattice, (first + 4) * lattice, lattice):
                    if self._shape_factor(hidden_size, expert_width) <= shape:
                        yield from self._with_experts(choice, hidden_size, expert_width)

    def _shape_factor(self, hidden_size: int, expert_width: float) -> float:
        """How far the shape of an expert is from the reference's: a factor of at least 1."""
        ratio = expert_width / hidden_size / self.shape
        return max(ratio, 1 / ratio)

    def distortion(self, candidate: _Candidate) -> float:
        return self._shape_factor(candidate.hidden_size, candidate.expert_width)

    def _exact_width(self, choice: _Heads, hidden_size: int) -> float | None:
        """The expert width, not rounded, at which F and N both match; None where there is none.

        Per layer and hidden unit, with A of attention, k active of E experts, s = shared / expert width
        and x = 1 + 3 W:   F: A + E + (k + s)(x - 1) = f   and   N: A + 2 + E x + s (x - 1) = n.
        """
        r = self.reference
        inner = choice.heads * choice.head_size
        attention = 2 * (inner + choice.kv_heads * choice.head_size)
        forward = self.target.flops_per_token / TRAINING / self.executed - 4 * inner * self.keys
        f = forward / (2 * hidden_size) - attention
        n = (self.target.params - hidden_size) / (r.layers * hidden_size) - attention - 2
        a, s = r.active_experts + self.shared_ratio, self.shared_ratio
        # a x^2 - (a + s + f) x + (n + s) = 0; the larger root has the wider and fewer experts
        b = a + s + f
        discriminant = b * b - 4 * a * (n + s)
        if b <= 0 or discriminant < 0:
            return None
        width = ((b + math.sqrt(discriminant)) / (2 * a) - 1) / 3
        return width if width > 0 else None

    def _with_experts(self, choice: _Heads, hidden_size: int, expert_width: int) -> Iterator[_Candidate]:
        """The point with the number of experts that solves N, rounded down and up."""
        r = self.reference
        shared = self.shared_width(expert_width)
        inner = choice.heads * choice.head_size
        attention = 2 * hidden_size * (inner + choice.kv_heads * choice.head_size)
        each = hidden_size * (1 + 3 * expert_width)  # an expert and its column of the router
        rest = r.layers * (attention + 3 * hidden_size * shared + 2 * hidden_size) + hidden_size
        below = (self.target.params - rest) // (r.layers * each)
        for experts in (below, below + 1):
            if experts < r.active_experts:
                continue
            products = attention + hidden_size * (experts + 3 * (r.active_experts * expert_width + shared))
            forward = self.executed * (2 * products + 4 * inner * self.keys)
            flops = TRAINING * forward / self.target.flops_per_token
            params = (rest + r.layers * each * experts) / self.target.params
            kv = self._kv_ratio(choice)
            mismatches = (
                abs(flops - 1) / self.tolerance.flops,
                abs(params - 1) / self.tolerance.params,
                abs(kv - 1) / self.tolerance.kv,
            )
            distance = abs(choice.head_size - r.head_size * r.layers / self.executed)
            ties = (distance, experts, hidden_size, choice.heads, choice.kv_heads)
            key = (*sorted(mismatches, reverse=True), *ties)
            yield _Candidate(choice, hidden_size, expert_width, experts, flops, params, kv, key)

    def shared_width(self, expert_width: int) -> int:
        """The always-on width, in the reference's proportion to an expert's."""
        return round(expert_width * self.shared_ratio)

    def answer(self, best: _Candidate, lattice: int) -> Match:
        model = dataclasses.replace(
            self.looped,
            **dataclasses.asdict(best.heads),
            hidden_size=best.hidden_size,
            expert_width=best.expert_width,
            experts=best.experts,
            shared_width=self.shared_width(best.expert_width),
        )
        found = budget(model, self.keys)
        return Match(
            model,
            found.flops_per_token / self.target.flops_per_token,
            found.params / self.target.params,
            found.kv_bytes_per_token / self.target.kv_bytes_per_token,
            lattice,
        )


def _shortfall(closest: _Candidate | None, tolerance: Tolerance, looped: ModelSettings) -> str:
    span = f"[{looped.loop_start}, {looped.loop_start + looped.loop_length}) visited {looped.visits} times"
    if closest is None:
        return (
            f"no network with the span {span} costs what the reference does: at every hidden size its "
            "attention and router alone use up the FLOPs; use wider experts, fewer of them or a shorter span"
        )
    words = [
        _mismatch(name, key, getattr(closest, key), getattr(tolerance, key))
        for key, name in {"flops": "FLOPs per token", "params": "parameters"}.items()
        if abs(getattr(closest, key) - 1) > getattr(tolerance, key)
    ]
    return (
        f"no network with the span {span} meets the tolerance; the closest (hidden_size {closest.hidden_size}, "
        f"{closest.heads.heads} heads of {closest.heads.head_size}, {closest.experts} experts of width "
        f"{closest.expert_width}) has {' and '.join(words)}; raise the tolerance or use a larger reference"
    )


def _mismatch(name: str, key: str, ratio: float, allowed: float) -> str:
    side = "above" if ratio > 1 else "below"
    return f"{name} {100 * abs(ratio - 1):.2g} % {side} the reference (tolerance {key}: {allowed:g})"
