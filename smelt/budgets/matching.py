"""The matched model: of all networks on a lattice, the looped one whose budgets differ least from its reference's.

The largest of the three mismatches |ratio - 1| (FLOPs per token, parameters, KV cache) is as small as the lattice
allows. Ties go to the head size nearest to that which would keep the cache at the same KV heads, then to fewer
experts, then to the smaller remaining mismatches. The tolerance only says which points count, so that a larger one
never makes the match worse. Whole numbers throughout: no rounding decides, and the answer is the same everywhere.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from smelt.budgets.lattice import Heads, Point, Search, exact, pareto, scaled, worst
from smelt.budgets.ledger import budget
from smelt.budgets.match import Match, Problem, Tolerance
from smelt.errors import UserError
from smelt.model.execution import plan
from smelt.model.settings import ModelSettings

FIRST = Fraction(1, 4096)  # width of the first window that is looked at; doubled until it holds a point
NAMES = {"flops": "FLOPs per token", "params": "parameters", "kv": "KV cache"}


@functools.cache
def closest(problem: Problem) -> Match:
    """The matched model that is closest to the reference on the problem's lattice.

    Raises UserError with the budget that is short and by how much, where no model meets the tolerance.
    """
    if _is_reference(problem):
        return _unchanged(problem)
    search = _search(problem)
    best = _best(search, *_limits(problem.tolerance))
    if best is None:
        raise UserError(_shortfall(search, problem.tolerance))
    return as_match(best, search, problem.attention_keys)


def coarsest(problem: Problem) -> Match:
    """The closest matched model on the coarsest lattice that has one: the multiple is halved until one is found.

    A coarser lattice is preferred to a smaller mismatch, so a larger tolerance gives a coarser model or one that is
    no worse. Raises the UserError of the finest lattice.
    """
    while True:
        try:
            return closest(problem)
        except UserError:
            lattice = problem.lattice
            if lattice.multiple == 1:
                raise
            problem = dataclasses.replace(problem, lattice=dataclasses.replace(lattice, multiple=lattice.multiple // 2))


def frontier(problem: Problem) -> list[Match]:
    """The Pareto set: models within the tolerance that no other beats on one budget without losing on another."""
    if _is_reference(problem):
        return [_unchanged(problem)]
    search = _search(problem)
    flops, params, kv = _limits(problem.tolerance)
    points = [point for group in search.heads(kv) for point in _points(search, group, flops, params)]
    points.sort(key=lambda point: _key(point, search))
    return [as_match(point, search, problem.attention_keys) for point in pareto(points)]


def fixed_geometry(problem: Problem, sizes: Mapping[str, int]) -> Match:
    """The model with the sizes that a study fixes; the lattice plays no part.

    Raises UserError with the budgets that are outside the tolerance.
    """
    values: dict[str, Any] = {"shared_width": 0, **sizes}
    model, tolerance = dataclasses.replace(problem.looped, **values), problem.tolerance
    match = _match(model, problem.reference, problem.attention_keys, 1)
    ratios = {"flops": match.flops_ratio, "params": match.params_ratio, "kv": match.kv_ratio}
    misses = [
        _miss(name, abs(ratio - 1), tolerance)
        for name, ratio in ratios.items()
        if abs(ratio - 1) > getattr(tolerance, name)
    ]
    if misses:
        raise UserError(
            f"its fixed geometry has its {' and its '.join(misses)}; take the entry out of grid.geometry, so that one "
            "is solved for, or raise grid.tolerance"
        )
    return match


def _is_reference(problem: Problem) -> bool:
    """Whether the model executes exactly the reference's layers, so that nothing is to be matched."""
    looped = problem.looped
    return len(plan(looped)) == looped.layers == problem.reference.layers


def _unchanged(problem: Problem) -> Match:
    return Match(problem.looped, 1.0, 1.0, 1.0, problem.lattice.multiple)


def _search(problem: Problem) -> Search:
    return Search(problem.reference, problem.looped, problem.attention_keys, problem.lattice)


def _limits(tolerance: Tolerance) -> tuple[Fraction, Fraction, Fraction]:
    return exact(tolerance.flops), exact(tolerance.params), exact(tolerance.kv)


def _points(search: Search, group: Iterable[Heads], flops: Fraction, params: Fraction) -> Iterator[Point]:
    for choice in group:
        yield from search.points(choice, flops, params)


def _best(search: Search, flops: Fraction, params: Fraction, kv: Fraction) -> Point | None:
    """The best point within the limits. Choices of heads are taken from the smallest mismatch of the cache on,
    until that alone is larger than the best point's worst; for each, windows around F and N widen until one holds
    a point, which then holds the best."""
    best: Point | None = None
    for group in search.heads(kv):
        mismatch = Fraction(group[0].kv, search.kv)
        most = max(flops, params)
        if best is not None:
            most = min(most, Fraction(worst(best, search), search.flops * search.params * search.kv))
            if mismatch > most:
                break
        window = min(max(mismatch, FIRST), most)
        while True:
            points = list(_points(search, group, min(flops, window), min(params, window)))
            if points or window >= most:
                break
            window = min(2 * window, most)
        best = min([*points, *([best] if best else [])], key=lambda point: _key(point, search), default=None)
    return best


def _key(point: Point, search: Search) -> tuple[Any, ...]:
    """Order of preference, the smallest first; never equal for two points."""
    r, choice = search.reference, point.choice
    distance = abs(choice.head_size * search.executed - r.head_size * r.layers)
    largest, *others = sorted(scaled(point, search), reverse=True)
    sizes = (point.hidden_size, point.expert_width, choice.heads, choice.kv_heads)
    return (largest, distance, point.experts, *others, *sizes)


def as_match(point: Point, search: Search, attention_keys: float) -> Match:
    """The network of a point and its ratios."""
    choice = point.choice
    model = dataclasses.replace(
        search.looped,
        hidden_size=point.hidden_size,
        heads=choice.heads,
        kv_heads=choice.kv_heads,
        head_size=choice.head_size,
        experts=point.experts,
        expert_width=point.expert_width,
        shared_width=search.shared_width(point.expert_width),
    )
    return _match(model, search.reference, attention_keys, search.lattice.multiple)


def _match(model: ModelSettings, reference: ModelSettings, attention_keys: float, multiple: int) -> Match:
    cost, target = budget(model, attention_keys), budget(reference, attention_keys)
    return Match(
        model,
        cost.flops_per_token / target.flops_per_token,
        cost.params / target.params,
        cost.kv_bytes_per_token / target.kv_bytes_per_token,
        multiple,
    )


def _shortfall(search: Search, tolerance: Tolerance) -> str:
    """Which budget no point meets, and by how much the closest one misses it."""
    flops, params, kv = _limits(tolerance)
    looped, lattice = search.looped, search.lattice
    span = f"{looped.layers} layers"
    if looped.visits > 1:
        end = looped.loop_start + looped.loop_length
        span = f"the span [{looped.loop_start}, {end}) of {span} visited {looped.visits} times"
    finer = "a finer multiple, " if lattice.multiple > 1 else ""
    where = f"on multiples of {lattice.multiple}, within a factor {lattice.shape:g} of the reference's shape"
    if not search.heads(kv):
        nearest = search.heads(Fraction(1))
        if not nearest:
            return f"no head size of at least 4 keeps the KV cache over {search.executed} layers; use larger heads"
        miss = _miss("kv", nearest[0][0].kv / search.kv, tolerance)
        return f"no head size and number of KV heads fits {span}: the closest has its {miss}; raise the tolerance"
    best = _best(search, Fraction(1), Fraction(1), kv)
    if best is None:
        return f"no network with {span} comes near the reference {where}; use {finer}a larger shape"
    limits = {"flops": (best.flops, search.flops, flops), "params": (best.params, search.params, params)}
    misses = [
        _miss(name, off / target, tolerance) for name, (off, target, limit) in limits.items() if off > limit * target
    ]
    return (
        f"no network with {span} meets the tolerance {where}; the closest (hidden_size {best.hidden_size}, "
        f"{best.choice.heads} heads of {best.choice.head_size}, {best.experts} experts of width {best.expert_width}) "
        f"has its {' and its '.join(misses)}; use {finer}a larger shape or a larger tolerance"
    )


def _miss(name: str, off: float, tolerance: Tolerance) -> str:
    return f"{NAMES[name]} {100 * off:.2g} % off (tolerance {name}: {getattr(tolerance, name):g})"
