"""Watch a run: a line on the terminal, a JSON line a step, and events for TensorBoard where they are asked for.

None of it decides a bit, and none of it is the same twice: times and memory stand here and in no artifact.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import IO, Any, Protocol

from smelt.errors import UserError
from smelt.training.monitoring.progress import Progress

PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes


class Watched(Protocol):
    """What is watched: rows of a log, of which those that are there were taken before."""

    rows: list[dict[str, Any]]
    step_tokens: int


class Watch:
    """Tells of each step of a job. A step that is taken again after a kill has a second line, which holds."""

    def __init__(
        self, name: str, updates: int, run: Watched, perf: Path | None, flops_per_token: float, peak_flops: float
    ) -> None:
        self.progress = Progress(name, updates, len(run.rows))
        self.run = run
        self.step_flops, self.peak_flops = run.step_tokens * flops_per_token, peak_flops
        self.perf = perf
        self.lines: IO[str] | None = None
        self.events: Any = None
        self.last = time.perf_counter()

    def to_tensorboard(self, folder: str) -> None:
        """Write events to `folder` too; to none where it is empty. Raises UserError where TensorBoard is missing."""
        if not folder:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "monitoring.tensorboard: the package tensorboard is not installed; pip install -e '.[tensorboard]' or "
                "take the key out"
            ) from None
        self.events = SummaryWriter(folder)

    def step(self, row: dict[str, Any]) -> None:
        """Tell of a step's row of the log."""
        now = time.perf_counter()
        line = self._measured(row, now - self.last)
        self.last = now
        self.progress.skip_to(len(self.run.rows) - 1)
        self.progress.step(row["loss"], _short(line))
        line["seconds_left"] = self.progress.left()
        if self.perf is not None:
            self.lines = self.lines or self._opened(self.perf)
            self.lines.write(json.dumps(line) + "\n")
        if self.events is not None:
            part = f"branch-{row['branch']}" if row["branch"] else "stable"
            for name, value in line.items():
                if name not in ("branch", "step") and value is not None:
                    self.events.add_scalar(f"{part}/{name}", value, row["step"])
            self.events.flush()

    def _opened(self, perf: Path) -> IO[str]:
        """The file of lines, emptied by the first step of a run."""
        perf.parent.mkdir(parents=True, exist_ok=True)
        return open(perf, "a" if len(self.run.rows) > 1 else "w", encoding="utf-8", buffering=1)

    def _measured(self, row: dict[str, Any], seconds: float) -> dict[str, Any]:
        flops = self.step_flops / seconds
        return {
            "branch": row["branch"],
            "step": row["step"],
            "loss": row["loss"],
            "balance_loss": row["balance_loss"],
            "gradient_norm": row["gradient_norm"],
            "learning_rate": row["learning_rate"],
            "expert_load": max(row["expert_load"]),
            "idle_experts": max(row["idle_experts"]),
            "seconds": seconds,
            "tokens_per_second": self.run.step_tokens / seconds,
            "flops_per_second": flops or None,
            "peak_share": flops / self.peak_flops if flops and self.peak_flops else None,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT,
        }


def _short(line: dict[str, Any]) -> str:
    """What a terminal has room for."""
    said = (
        f"balance {line['balance_loss']:.2f}, norm {line['gradient_norm']:.2f}, load {line['expert_load']:.1f}, "
        f"{line['tokens_per_second']:.3g} tokens/s"
    )
    if line["flops_per_second"]:
        said += f", {line['flops_per_second'] / 1e9:.3g} GFLOP/s"
    if line["peak_share"]:
        said += f" ({line['peak_share']:.0%})"
    return said
