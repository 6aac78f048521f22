"""How far the rounding of the paper's printed coefficients moves what is computed from them.

Each coefficient of Eq. 2 is known to half a unit of its last printed digit. The change of a result under each one moved
that far, one at a time, added up, is the most (to first order) that rounding can make of it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from smelt.reporting.paper.registry import PAIR, Entry

BASE, SMELT = PAIR


class Surface(NamedTuple):
    """Coefficients of Eq. 2."""

    E: float
    A: float
    K: float
    a: float
    b: float
    c: float


Surfaces = Mapping[str, Surface]  # by architecture


def gamma(surface: Surface) -> float:
    """Exponent of the frontier in compute (Eq. 4)."""
    return surface.a * surface.c / (surface.a + surface.c)


def optimum(surface: Surface, compute: float, active: float) -> tuple[float, float]:
    """F* (FLOPs per token) and D* (tokens) at a compute and at 1 - S (Eq. 3)."""
    _, A, K, a, b, c = surface
    flops = (a * A * active**b * compute**c / (c * K)) ** (1 / (a + c))
    return flops, compute / flops


def gain(surfaces: Surfaces, compute: float, active: float) -> float:
    """CE gain of SMELT over the Baseline as a fraction (Eq. 5)."""
    smelt, base = surfaces[SMELT], surfaces[BASE]
    wanted = smelt.E + _reducible(smelt, compute, active) - base.E
    # On the Baseline's frontier the reducible loss is a power of compute.
    return 1 - (wanted / _reducible(base, compute, active)) ** (1 / gamma(base))


def _reducible(surface: Surface, compute: float, active: float) -> float:
    """L* - E in nats."""
    flops, tokens = optimum(surface, compute, active)
    return surface.A * active**surface.b / flops**surface.a + surface.K / tokens**surface.c


def tokens_per_parameter(surface: Surface, compute: float, active: float) -> float:
    """TPP = D* / (F*/6)."""
    flops, tokens = optimum(surface, compute, active)
    return 6 * tokens / flops


def data_crossover(surfaces: Surfaces) -> float:
    """Tokens at which both data terms are equal."""
    smelt, base = surfaces[SMELT], surfaces[BASE]
    return math.exp(math.log(smelt.K / base.K) / (smelt.c - base.c))


# What an entry's `propagates` names, in the unit of the table's column; its `rows` say which architecture and place.
PROPAGATES: dict[str, Callable[[Surfaces, Entry], float]] = {
    "gamma": lambda surfaces, entry: gamma(surfaces[_one(entry, "architecture")]),
    "gamma_ratio": lambda surfaces, entry: gamma(surfaces[SMELT]) / gamma(surfaces[BASE]),
    "E_gap": lambda surfaces, entry: surfaces[SMELT].E - surfaces[BASE].E,
    "data_crossover": lambda surfaces, entry: data_crossover(surfaces),
    "gain": lambda surfaces, entry: gain(surfaces, *_place(entry)),
    "tpp": lambda surfaces, entry: tokens_per_parameter(surfaces[_one(entry, "architecture")], *_place(entry)),
}


def _one(entry: Entry, key: str) -> str:
    (value,) = entry.filters[key]
    return value


def _place(entry: Entry) -> tuple[float, float]:
    """Compute and 1 - S; S is what the label says."""
    return float(_one(entry, "budget_flops")), 1 - float(_one(entry, "sparsity")[1:]) / 100


def coefficients(registry: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """The printed coefficients: architecture -> name -> entry."""
    printed = {entry.id: entry for entry in registry}
    return {name: {key: printed[f"fit.{name}.{key}"] for key in Surface._fields} for name in PAIR}


def propagated(entry: Entry, registry: Iterable[Entry]) -> float:
    """How far the rounding of the coefficients may move the result of an entry, in the unit of its meaning."""
    if not entry.propagates:
        return 0.0
    printed = coefficients(registry)
    surfaces = {name: Surface(**{key: one.value for key, one in row.items()}) for name, row in printed.items()}
    result = PROPAGATES[entry.propagates]
    centre, total = result(surfaces, entry), 0.0
    for name, row in printed.items():
        for key, one in row.items():
            moved = (
                {**surfaces, name: surfaces[name]._replace(**{key: one.value + step})}
                for step in (-one.half_digit, one.half_digit)
            )
            total += max(abs(result(each, entry) - centre) for each in moved)
    return abs(float(entry.scale or 1)) * total
