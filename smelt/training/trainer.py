"""A network in training: its weights, its optimizer and its log, and the two kinds of steps.

All that decides the bits of a run is here and in what this imports; smelt.training.{run,stable,decay} only say which
steps one job takes, and when it saves.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.spec import canonical_json, load
from smelt.training.data import Stream
from smelt.training.schedule import decay_rate, stable_rate
from smelt.training.settings import TrainingSettings
from smelt.training.step import optimizer, train_step


class Trainer:
    """Weights, moments and log; `done` stable steps are behind them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.settings = load(TrainingSettings, spec["training"])
        self.step_tokens = self.settings.batch_contexts * spec["context"]
        self.model = Transformer(load(ModelSettings, spec["model"]), getattr(torch, self.settings.precision))
        initialise(self.model, self.settings.seed)
        self.feed: Any = None  # of a GPU
        if self.settings.device != "cpu":
            from smelt.training.device import Feed, prepare  # the compiler: a second that a core need not spend

            self.feed = Feed(prepare(self.settings, self.model.settings), self.settings)
            self.model.to(self.feed.device)
        self.adamw = optimizer(self.model, self.settings)
        self.rows: list[dict[str, Any]] = []
        self.done = 0
        self.stopping = False  # asked to end
        self.tell: Callable[[dict[str, Any]], None] | None = None  # what watches the run, of each row

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.adamw.state_dict(),
            "rows": json.dumps(self.rows),
            "done": self.done,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a state that `state` gave."""
        self.model.load_state_dict(saved["model"])
        self.adamw.load_state_dict(saved["optimizer"])
        self.rows, self.done = json.loads(saved["rows"]), saved["done"]

    def stable_step(self, stream: Stream) -> None:
        """Take the next step of the stable phase."""
        self._update(stream, 0, self.done, self.done + 1, stable_rate(self.done, self.settings))
        self.done += 1

    def decay_step(self, stream: Stream, branch: int, index: int) -> None:
        """Take step `index` (from 0) of the decay that leaves here."""
        self._update(stream, branch, index, self.done + 1 + index, decay_rate(index, self.done, self.settings))

    def write_endpoint(self, path: Path, branch: int) -> None:
        """Write the weights as the endpoint of a branch that left after `done` steps."""
        about = {"model": vars(self.model.settings), "branch": branch, "branch_step": self.done}
        with replacing(path) as temporary:
            # One key alone: safetensors writes several in the order of a randomly seeded hash.
            temporary.write_bytes(save(self.model.state_dict(), {"endpoint": canonical_json(about)}))

    def _update(self, stream: Stream, branch: int, index: int, step: int, rate: float) -> None:
        """Step on batch `index` of `stream` and log it. Raises UserError on a loss that is not finite."""
        try:
            record = self._step(stream, index, rate, self.settings.decay_steps if branch else self.settings.steps)
        except UserError as error:
            raise UserError(f"step {step}{f' of branch {branch}' if branch else ''}: {error}") from None
        self.rows.append({"branch": branch, "step": step, "tokens": step * self.step_tokens, **record})
        if self.tell is not None:
            self.tell(self.rows[-1])

    def _step(self, stream: Stream, index: int, rate: float, steps: int) -> dict[str, Any]:
        """A step on batch `index` of the stream, which gives `steps` in all."""
        if self.feed is None:
            batch = stream.batch(index, self.settings.batch_contexts)
            return train_step(self.model, self.adamw, batch, rate, self.settings)
        from smelt.training.device import gpu_step

        following = index + 1 if index + 1 < steps else None
        return gpu_step(self.model, self.adamw, self.feed, stream, index, following, rate, self.settings)
