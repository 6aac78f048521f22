"""Train the stable phase of one run, where its decays are jobs of their own.

Reads the run's spec without its decays and the packed contexts of the stable stream; writes a full checkpoint (see
smelt.training.saves.checkpoint) at each branch step, and the log of the phase (Parquet).

The state folder keeps what was published, as links where the file system has them: a job that runs again for one more
branch step, or for a longer phase, trains from the nearest checkpoint before it, and nothing that stands. So neither
the branch steps nor the length are part of what names the state, and each checkpoint says which shards it has
read instead.
"""

import functools
import math
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import file_digest, read_provenance, read_table, table, write_table
from smelt.errors import command
from smelt.job import Job, read_job
from smelt.training import launch
from smelt.training.processes import first
from smelt.training.saves import checkpoint
from smelt.training.settings import RunSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.log import LOG, origin
from smelt.training.trainer import Trainer

MODULE = "smelt.training.stable"
LENGTHS = ("steps", "branch_steps")  # of a recipe: they decide how far it goes and no bit on the way


class Phase:
    """A stable phase on its way, and what its state folder keeps of it."""

    def __init__(self, trainer: Trainer, shards: Sequence[Path], folder: Path, name: str) -> None:
        self.trainer, self.folder, self.name = trainer, folder, name
        self.stream = ContextStream(shards, trainer.settings.seed)
        self.digests = first(lambda: [file_digest(shard) for shard in shards])

    def checkpoint(self, step: int) -> Path:
        """The checkpoint that is kept of a step."""
        return self.folder / f"step-{step:09d}.safetensors"

    def log(self, step: int) -> Path:
        """The log up to a step."""
        return self.folder / f"step-{step:09d}.parquet"

    def kept(self) -> list[int]:
        """Steps whose checkpoint and log are whole and have read the shards of this job."""
        return [step for step in self._found() if checkpoint.is_whole(self.checkpoint(step)) and self._fits(step)]

    def clean(self, steps: Sequence[int]) -> None:
        """Remove what is kept of other steps than these."""
        for step in set(self._found()) - set(steps):
            self.checkpoint(step).unlink()
            self.log(step).unlink(missing_ok=True)

    def reach(self, step: int, save_every: int) -> None:
        """Train up to a step and keep it; raises SystemExit(STOPPED), with the state saved, when asked to end."""
        trainer = self.trainer
        if step in (kept := first(self.kept)):
            return
        self._go_back(max((other for other in kept if other < step), default=0), step)
        while trainer.done < step:
            trainer.stable_step(self.stream)
            if trainer.stopping or (trainer.done % save_every == 0 and trainer.done < step):
                trainer.save(self.folder, shards=self._used())
            if trainer.stopping:
                launch.leave(self.name, f"step {trainer.done}")
        first(lambda: write_table(table(trainer.rows, LOG), self.log(step), {"shards": self._used()}))
        about = {"run": trainer.run, "model": vars(trainer.network.model.settings), "step": step}
        trainer.network.write_checkpoint(self.checkpoint(step), about)
        trainer.network.forget(self.folder)

    def _go_back(self, kept: int, step: int) -> None:
        """Take up the latest of: the checkpoint that is kept, the last save up to `step`, the state that is here."""
        trainer, saved = self.trainer, self.trainer.network.saved(self.folder)
        after = max(kept, trainer.done)
        if saved is not None and after < saved.place["done"] <= step and self._reads(saved.place["shards"]):
            trainer.restore(saved)
        elif trainer.done < kept:
            trainer.network.read_checkpoint(self.checkpoint(kept))
            trainer.rows, trainer.done = read_table(self.log(kept)).to_pylist(), kept

    def _used(self) -> list[str]:
        """Digests of the shards that the steps so far have read, whichever job took them."""
        contexts = self.trainer.done * self.trainer.settings.batch_contexts
        return self.digests[: math.ceil(contexts / self.stream.each)]

    def _reads(self, digests: Sequence[str]) -> bool:
        """Whether shards that were read are the first ones of this job."""
        return list(digests) == self.digests[: len(digests)]

    def _found(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("step-")) for path in self.folder.glob("step-*.safetensors"))

    def _fits(self, step: int) -> bool:
        return self.log(step).exists() and self._reads(read_provenance(self.log(step))["shards"])


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, RunSettings, ["stable*"], ["checkpoints*", "log"], launch.Options)
    options: launch.Options = job.options
    recipe = job.settings.training
    wanted = sorted({*recipe.branch_steps, recipe.steps})
    with (
        launch.settled(recipe),
        launch.state_folder(options.state, launch.identity(job, [], LENGTHS)) as folder,
    ):
        trainer = Trainer(job.settings)
        launch.stop_on_signals(trainer)
        phase = Phase(trainer, job.paths("stable"), folder, options.name)
        launch.watch(trainer, options, recipe.steps)
        for step in wanted:
            phase.reach(step, options.save_interval)
        first(functools.partial(_publish, phase, wanted, job))


def _publish(phase: Phase, wanted: Sequence[int], job: Job[RunSettings]) -> None:
    phase.clean(wanted)
    for step, path in zip(phase.trainer.settings.branch_steps, job.paths("checkpoints"), strict=True):
        launch.publish(phase.checkpoint(step), path)
    rows = read_table(phase.log(phase.trainer.settings.steps)).to_pylist()
    write_table(table(rows, LOG), job.path("log"), origin(job.spec, job.paths("stable")))


if __name__ == "__main__":
    command(main)
