"""Settings of the jobs that average scores of tasks. Needs no scipy."""

import dataclasses
from collections.abc import Mapping

from smelt.errors import UserError
from smelt.evaluation.tasks.registry import Task

BASELINES = ("v1", "v2")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run whose endpoints are scored."""

    run: str  # its id
    architecture: str
    scale: str
    sparsity: str
    seed: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The values of RUN_KEYS."""
        return self.architecture, self.scale, self.sparsity, self.seed


@dataclasses.dataclass(frozen=True)
class Settings:
    """One spec for all jobs that average scores; `runs` stand in the order of the files."""

    tasks: tuple[Task, ...]  # of the study, also those that were not scored
    runs: tuple[Run, ...]
    presets: Mapping[str, str]  # by part
    sampler: Mapping[str, str]  # by part
    baselines: str  # set of chance levels
    reference: str  # architecture that the sweep compares with
    shots: tuple[int, ...]  # of the sweep, where they were scored; empty = all that were
    flips: int = 10_000  # random patterns of signs where there are too many to count
    seed: int = 0  # of these

    def __post_init__(self) -> None:
        if self.baselines not in BASELINES:
            raise UserError(f"baselines: {self.baselines!r}; known are {', '.join(BASELINES)}")

    @property
    def by_name(self) -> dict[str, Task]:
        """The tasks by name, in their order."""
        return {task.name: task for task in self.tasks}
