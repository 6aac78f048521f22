"""Which items stand as demonstrations before an item, and in which order. Needs no torch.

The pool is the task's full file, of a partitioned task the item's category, whatever part of the items a preset
scores: so a prompt is the same under every preset and in every process.

dclm: as llm-foundry draws them (llmfoundry/eval/datasets/in_context_learning_evaluation.py, utils.py): one stream of
random numbers over all items in order, and the order of a Python set. It excludes the item by its row alone.
smelt: a generator of its own for each item; the seed decides selection and order.
nested: one order for each item, of which k demonstrations are the first k, so that the demonstrations of one number
of shots are among those of the next; what is added stands nearest to the item.
smelt and nested never show an item of the same query: a duplicate would give the answer away.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from smelt.evaluation.tasks.items import Item
from smelt.evaluation.tasks.registry import Task
from smelt.spec import canonical_json, digest

Shown = tuple[int, ...]  # rows of the demonstrations, in the order of the prompt


def demonstrations(
    task: Task, items: Sequence[Item], shots: int, seed: int, sampler: str, wanted: Sequence[Item] | None = None
) -> list[Shown]:
    """The demonstrations of each item in `wanted` (default: all): rows of `items`, the task's full file, oldest first.

    Where the pool is smaller than `shots` they are as many as there are. The rows of `items` are 0, 1, 2, ….
    """
    chosen = items if wanted is None else wanted
    if shots == 0:
        return [()] * len(chosen)
    return SAMPLERS[sampler](task, items, shots, seed, chosen)


def shown_before(item: Item, fixed: Sequence[Item], shots: int) -> Shown:
    """Rows of the first demonstrations of the item's category in a file of fixed ones."""
    same = (other.index for other in fixed if other.category == item.category and _question(other) != _question(item))
    return tuple(islice(same, shots))


def repeated(items: Sequence[Item], item: Item, shown: Sequence[int]) -> bool:
    """Whether a demonstration asks what the item asks."""
    return any(_question(items[row]) == _question(item) for row in shown)


def _question(item: Item) -> tuple[str, ...]:
    """What two items share if one gives the other's answer away: the query, of a schema the set of its contexts."""
    return (item.query,) if item.query else tuple(sorted(item.choices))


def _dclm(task: Task, items: Sequence[Item], shots: int, seed: int, chosen: Sequence[Item]) -> list[Shown]:
    drawn: dict[int, Shown] = {}
    for rows in _pools(task, items).values():
        stream = random.Random(seed)  # the reference holds each category as a dataset of its own
        drawn |= {row: tuple(rows[other] for other in _streamed(stream, len(rows), place, shots))
                  for place, row in enumerate(rows)}  # fmt: skip
    return [drawn[item.index] for item in chosen]


def _streamed(stream: random.Random, size: int, own: int, shots: int) -> list[int]:
    """The next draw of the stream; the set's own order is meant, and is that of its numbers and insertions alone."""
    found = set(stream.sample(range(size), min(size - 1, shots)))
    if own in found:
        found.remove(own)
        while (other := stream.choice(range(size))) in found or other == own:
            pass
        found.add(other)
    return list(found)


def _smelt(task: Task, items: Sequence[Item], shots: int, seed: int, chosen: Sequence[Item]) -> list[Shown]:
    def ordered(stream: random.Random, rows: list[int]) -> Shown:
        stream.shuffle(rows)  # or a number of shots would have the order of every other
        return tuple(rows)

    return _by_item(task, items, shots, seed, chosen, ordered)


def _nested(task: Task, items: Sequence[Item], shots: int, seed: int, chosen: Sequence[Item]) -> list[Shown]:
    return _by_item(task, items, shots, seed, chosen, lambda _, rows: tuple(rows))


def _by_item(
    task: Task,
    items: Sequence[Item],
    shots: int,
    seed: int,
    chosen: Sequence[Item],
    ordered: Callable[[random.Random, list[int]], Shown],
) -> list[Shown]:
    pools = _pools(task, items)
    alike: dict[tuple[str, tuple[str, ...]], int] = {}  # items of a pool with the same question
    for item in items:
        key = (_pool(task, item), _question(item))
        alike[key] = alike.get(key, 0) + 1
    found = []
    for item in chosen:
        pool = pools[_pool(task, item)]
        count = min(shots, len(pool) - alike[_pool(task, item), _question(item)])
        stream = random.Random(int(digest(canonical_json([task.name, seed, item.id])), 16))
        draws = _others(stream, items, pool, item)
        found.append(ordered(stream, list(islice(draws, count))))
    return found


def _others(stream: random.Random, items: Sequence[Item], pool: Sequence[int], item: Item) -> Iterator[int]:
    """Rows of the pool in random order, each once, without those of the item's question. It never ends by itself."""
    seen: set[int] = set()
    while True:
        row = pool[stream.randrange(len(pool))]
        if row not in seen:
            seen.add(row)
            if _question(items[row]) != _question(item):
                yield row


def _pool(task: Task, item: Item) -> str:
    return item.category if task.partition else ""


def _pools(task: Task, items: Sequence[Item]) -> dict[str, list[int]]:
    """Rows of each category; of a task that is not partitioned all rows under one name."""
    pools: dict[str, list[int]] = {}
    for item in items:
        pools.setdefault(_pool(task, item), []).append(item.index)
    return pools


SAMPLERS = {"dclm": _dclm, "smelt": _smelt, "nested": _nested}
