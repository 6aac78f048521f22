"""Generated tasks in DCLM's format: Dyck languages, CS algorithms, operators and repeat-copy.

Any number of items, without a licence and without contamination. Item n of a task follows from the seed and n, so that
a larger file begins with the smaller one. They are the desk study's suite and never a part of Core.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence

from smelt.errors import UserError, command
from smelt.evaluation.tasks.brackets import cs_algorithms, dyck
from smelt.evaluation.tasks.items import write_jsonl
from smelt.evaluation.tasks.operators import operators
from smelt.evaluation.tasks.repeat_copy import repeat_copy
from smelt.job import read_job

MODULE = "smelt.evaluation.tasks.generate"


@dataclasses.dataclass(frozen=True)
class Settings:
    items: int = 1000  # of each task
    seed: int = 0

    def __post_init__(self) -> None:
        if self.items < 1:
            raise UserError(f"items is {self.items}, expected at least 1")


Maker = Callable[[random.Random, int], tuple[str, str]]
MAKERS: dict[str, Maker] = {
    "dyck_languages": dyck,
    "cs_algorithms": cs_algorithms,
    "operators": operators,
    "repeat_copy": repeat_copy,
}
TRIES = 10_000  # for an item that differs from all before it


def generated(name: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` pairs of context and answer of the task `name`, no context twice. Raises UserError where it has fewer."""
    seen: set[str] = set()
    for index in range(count):
        rng = random.Random(f"{seed} {name} {index}")
        drawn = (MAKERS[name](rng, index) for _ in range(TRIES))
        new = next((pair for pair in drawn if pair[0] not in seen), None)
        if new is None:
            raise UserError(f"{name}: no more than {index} different items found; ask for fewer")
        seen.add(new[0])
        yield new


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, [], ["out*"])
    paths = job.paths("out")
    if len(paths) != len(MAKERS):
        raise UserError(f"{len(paths)} files of items; give one for each of {', '.join(MAKERS)}, in this order")
    for name, path in zip(MAKERS, paths, strict=True):
        pairs = generated(name, job.settings.items, job.settings.seed)
        write_jsonl(({"context": context, "continuation": answer} for context, answer in pairs), path)


if __name__ == "__main__":
    command(main)
