"""A network in training with its log, and the two kinds of steps.

All that decides the bits of a run is here and in what this imports; smelt.training.{run,stable,decay} only say which
steps one job takes, and when it saves. Where several processes train together, each has a trainer, and all of them do
the same at the same time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.spec import canonical_json, load
from smelt.training.backends.single import Saved, SingleProcess
from smelt.training.processes import any_of
from smelt.training.settings import TrainingSettings
from smelt.training.steps.data import Stream
from smelt.training.steps.schedule import decay_rate, stable_rate

if TYPE_CHECKING:
    from smelt.training.backends.distributed import Distributed


class Trainer:
    """A network (weights and moments) and its log; `done` stable steps are behind them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.run: str = spec["run"]  # its name, which every artifact carries
        self.settings = load(TrainingSettings, spec["training"])
        self.step_tokens = self.settings.batch_contexts * spec["context"]
        self.network = _network(load(ModelSettings, spec["model"]), self.settings)
        self.rows: list[dict[str, Any]] = []
        self.done = 0
        self.asked = False  # to end, by a signal to this process
        self.stopping = False  # as of the last step, whether any process was
        self.tell: Callable[[dict[str, Any]], None] | None = None  # what watches the run, of each row

    def save(self, folder: Path, **more: Any) -> None:
        """Save everything that the rest of the run depends on; on the way to the end, wait until it is on the disk."""
        self.network.save(folder, {"rows": self.rows, "done": self.done, **more})
        if self.stopping:
            self.network.finish()

    def restore(self, saved: Saved) -> None:
        """Go back to a save."""
        self.network.restore(saved)
        self.rows, self.done = saved.place["rows"], saved.place["done"]

    def stable_step(self, stream: Stream) -> None:
        """Take the next step of the stable phase."""
        self._update(stream, 0, self.done, self.done + 1, stable_rate(self.done, self.settings))
        self.done += 1

    def decay_step(self, stream: Stream, branch: int, index: int) -> None:
        """Take step `index` (from 0) of the decay that leaves here."""
        self._update(stream, branch, index, self.done + 1 + index, decay_rate(index, self.done, self.settings))

    def write_endpoint(self, path: Path, branch: int) -> None:
        """Write the weights as the endpoint of a branch that left after `done` steps."""
        about = {
            "run": self.run,
            "model": vars(self.network.model.settings),
            "branch": branch,
            "branch_step": self.done,
        }
        self.network.write_endpoint(path, ("endpoint", canonical_json(about)))

    def _update(self, stream: Stream, branch: int, index: int, step: int, rate: float) -> None:
        """Step on batch `index` of `stream` and log it. Raises UserError on a loss that is not finite."""
        steps = self.settings.decay_steps if branch else self.settings.steps
        try:
            record = self.network.step(stream, index, rate, steps)
        except UserError as error:
            raise UserError(f"step {step}{f' of branch {branch}' if branch else ''}: {error}") from None
        place = {"run": self.run, "branch": branch, "step": step, "tokens": step * self.step_tokens}
        self.rows.append(place | record)
        if self.tell is not None:
            self.tell(self.rows[-1])
        self.stopping = any_of(self.asked)


def _network(model: ModelSettings, settings: TrainingSettings) -> "SingleProcess | Distributed":
    if not settings.spread:
        return SingleProcess(model, settings)
    from smelt.training.backends.distributed import Distributed  # a second of imports that one process need not spend

    return Distributed(model, settings)
