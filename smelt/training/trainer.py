"""A network in training with its log, and the two kinds of steps.

All that decides the bits of a run is here and in what this imports; smelt.training.{train,stable,decay} only say which
steps one job takes, and when it saves. Where several processes train together, each has a trainer, and all of them do
the same at the same time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.spec import canonical_json
from smelt.training.backends.single import Saved, SingleProcess
from smelt.training.processes import any_of
from smelt.training.settings import RunSettings, TrainingSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.schedule import decay_rate, stable_rate

if TYPE_CHECKING:
    from smelt.training.backends.distributed import Distributed


class Trainer:
    """A network (weights and moments) and its log; `done` stable steps are behind them."""

    def __init__(self, run: RunSettings) -> None:
        self.run = run.run  # its id, which every artifact carries
        self.settings = run.training
        self.step_tokens = self.settings.batch_contexts * run.context
        self.network = _network(run.model, self.settings)
        self.rows: list[dict[str, Any]] = []
        self.done = 0
        self.stop_requested = False  # by a signal to this process
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

    def stable_step(self, stream: ContextStream) -> None:
        """Take the next step of the stable phase."""
        self._update(stream, 0, self.done, self.done + 1, stable_rate(self.done, self.settings))
        self.done += 1

    def decay_step(self, stream: ContextStream, branch: int, index: int) -> None:
        """Take step `index` (from 0) of the decay that branches off here."""
        self._update(stream, branch, index, self.done + 1 + index, decay_rate(index, self.done, self.settings))

    def write_endpoint(self, path: Path, branch: int) -> None:
        """Write the weights as the endpoint of a branch that branches off after `done` steps."""
        about = {
            "run": self.run,
            "model": vars(self.network.model.settings),
            "branch": branch,
            "branch_step": self.done,
        }
        self.network.write_endpoint(path, ("endpoint", canonical_json(about)))

    def _update(self, stream: ContextStream, branch: int, index: int, step: int, rate: float) -> None:
        """Step on batch `index` of `stream` and log it. Raises UserError on a loss that is not finite."""
        steps = self.settings.decay_steps if branch else self.settings.steps
        try:
            record = self.network.step(stream, index, rate, steps)
        except UserError as error:
            raise UserError(f"step {step}{f' of branch {branch}' if branch else ''}: {error}") from None
        position = {"run": self.run, "branch": branch, "step": step, "tokens": step * self.step_tokens}
        self.rows.append(position | record)
        if self.tell is not None:
            self.tell(self.rows[-1])
        self.stopping = any_of(self.stop_requested)


def _network(model: ModelSettings, settings: TrainingSettings) -> "SingleProcess | Distributed":
    if not settings.distributed:
        return SingleProcess(model, settings)
    from smelt.training.backends.distributed import Distributed  # a second of imports that one process need not spend

    return Distributed(model, settings)
