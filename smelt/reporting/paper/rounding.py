"""How far the rounding of the paper's printed coefficients moves what is computed from them.

Each coefficient of Eq. 2 is known to half a unit of its last printed digit. The change of a result under each one moved
that far, one at a time, added up, is the most (to first order) that rounding can make of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from smelt.reporting.paper.registry import PAIR, Entry
from smelt.surfaces import frontier
from smelt.surfaces.frontier import Slice

BASE, SMELT = PAIR


class Printed(NamedTuple):
    """Coefficients of Eq. 2 as the paper prints them."""

    E: float
    A: float
    K: float
    a: float
    b: float
    c: float

    def slice(self, active: float = 1.0) -> Slice:
        """The surface at one 1 - S, the share of experts that are active."""
        E, A, K, a, c = (np.asarray(value) for value in (self.E, self.A * active**self.b, self.K, self.a, self.c))
        return Slice(E, A, K, a, c)


Surfaces = Mapping[str, Printed]  # by architecture


def _gamma(surfaces: Surfaces, architecture: str) -> float:
    return float(frontier.gamma(surfaces[architecture].slice()))


def _gain(surfaces: Surfaces, entry: Entry) -> float:
    compute, active = _budget(entry)
    return float(frontier.gain(surfaces[SMELT].slice(active), surfaces[BASE].slice(active), compute))


def _tokens_per_parameter(surfaces: Surfaces, entry: Entry) -> float:
    compute, active = _budget(entry)
    surface = surfaces[_value(entry, "architecture")].slice(active)
    return float(frontier.tokens_per_parameter(surface, compute))


# What an entry's `propagates` names, in the unit of the table's column; its `rows` name architecture and budget.
PROPAGATES: dict[str, Callable[[Surfaces, Entry], float]] = {
    "gamma": lambda surfaces, entry: _gamma(surfaces, _value(entry, "architecture")),
    "gamma_ratio": lambda surfaces, entry: _gamma(surfaces, SMELT) / _gamma(surfaces, BASE),
    "E_gap": lambda surfaces, entry: surfaces[SMELT].E - surfaces[BASE].E,
    "data_crossover": lambda surfaces, entry: float(
        frontier.data_crossover(surfaces[SMELT].slice(), surfaces[BASE].slice())
    ),
    "gain": _gain,
    "tpp": _tokens_per_parameter,
}


def _value(entry: Entry, key: str) -> str:
    (value,) = entry.filters[key]
    return value


def _budget(entry: Entry) -> tuple[float, float]:
    """Training FLOPs and 1 - S; S is what the sparsity's label says."""
    return float(_value(entry, "budget_flops")), 1 - float(_value(entry, "sparsity")[1:]) / 100


def coefficients(registry: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """The printed coefficients: architecture -> name -> entry."""
    printed = {entry.id: entry for entry in registry}
    return {name: {key: printed[f"fit.{name}.{key}"] for key in Printed._fields} for name in PAIR}


def propagated(entry: Entry, registry: Iterable[Entry]) -> float:
    """How far the rounding of the coefficients may move the result of an entry, in the unit of its meaning.

    `registry` holds the entries of the printed coefficients, `fit.ARCHITECTURE.NAME`.
    """
    if not entry.propagates:
        return 0.0
    printed = coefficients(registry)
    surfaces = {
        name: Printed(**{key: coefficient.value for key, coefficient in row.items()}) for name, row in printed.items()
    }
    result = PROPAGATES[entry.propagates]
    centre, total = result(surfaces, entry), 0.0
    for name, row in printed.items():
        for key, coefficient in row.items():
            moved = (
                {**surfaces, name: surfaces[name]._replace(**{key: coefficient.value + step})}
                for step in (-coefficient.half_digit, coefficient.half_digit)
            )
            total += max(abs(result(each, entry) - centre) for each in moved)
    return abs(float(entry.scale or 1)) * total
