"""Train one run: a stable phase and its decay branches, in one job.

Reads the run's spec and the packed contexts of the stable and the decay stream; writes one model for each
branch (fp32 safetensors that carry their model settings) and the log (Parquet). Branches are decayed in memory:
the stable weights and moments are copied, decayed on the decay stream from its start, and put back, so that the
stable phase is the same to the last bit as without branches. A killed job resumes from its state folder to the
same bytes.

The same run in several jobs: smelt.training.stable, smelt.training.decay and smelt.training.join.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import table, write_table
from smelt.errors import command
from smelt.job import Job, read_job
from smelt.training import launch
from smelt.training.processes import first
from smelt.training.saves import resume
from smelt.training.settings import RunSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.log import LOG, origin
from smelt.training.trainer import Trainer

MODULE = "smelt.training.train"


class Run:
    """A run in progress: its trainer, both streams, and the branches that are finished."""

    def __init__(self, trainer: Trainer, stable: Sequence[Path], decay: Sequence[Path], folder: Path) -> None:
        self.trainer, self.folder = trainer, folder
        self.stable, self.decay = (ContextStream(shards, trainer.settings.seed) for shards in (stable, decay))
        self.branches = 0
        saved = trainer.network.saved(folder)
        if saved is not None:
            trainer.restore(saved)
            self.branches = saved.place["branches"]

    def save(self) -> None:
        """Save what the rest of the run depends on."""
        self.trainer.save(self.folder, branches=self.branches)

    @property
    def branching(self) -> bool:
        """Whether an unfinished branch branches off here."""
        steps = self.trainer.settings.branch_steps
        return self.branches < len(steps) and steps[self.branches] == self.trainer.done

    def run_branch(self) -> None:
        """Decay a copy of the current weights and keep the endpoint; keep nothing when asked to end."""
        trainer, branch = self.trainer, self.branches + 1
        before = trainer.network.copy()
        logged = len(trainer.rows)
        for index in range(trainer.settings.decay_steps):
            if not trainer.stopping:
                trainer.decay_step(self.decay, branch, index)
        if trainer.stopping:
            del trainer.rows[logged:]
        else:
            trainer.write_endpoint(self.folder / f"branch-{branch}.safetensors", branch)
            self.branches = branch
        trainer.network.put_back(before)


def train(run: Run, name: str, save_interval: int) -> None:
    """Bring the run to its end, saving as it goes; raises SystemExit(STOPPED) when asked to end.

    `save_interval` is the number of stable steps between saves; it decides no bit of the run.
    """
    trainer = run.trainer
    while run.branching or trainer.done < trainer.settings.steps:
        branching = run.branching
        if branching:
            run.run_branch()
        else:
            trainer.stable_step(run.stable)
        if branching or trainer.stopping or trainer.done % save_interval == 0:
            run.save()
        if trainer.stopping:
            launch.leave(name, f"step {trainer.done}")


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, RunSettings, ["stable*", "decay*"], ["models*", "log"], launch.Options)
    options: launch.Options = job.options
    recipe, stable, decay = job.settings.training, job.paths("stable"), job.paths("decay")
    with (
        launch.settled(recipe),
        launch.state_folder(options.state, launch.identity(job, [*stable, *decay])) as folder,
    ):
        trainer = Trainer(job.settings)
        launch.stop_on_signals(trainer)
        run = Run(trainer, stable, decay, folder)
        launch.watch(trainer, options, recipe.steps + len(recipe.branch_steps) * recipe.decay_steps)
        train(run, options.name, options.save_interval)
        trainer.network.finish()
        first(functools.partial(_publish, run, job))


def _publish(run: Run, job: Job[RunSettings]) -> None:
    for branch, path in enumerate(job.paths("models"), start=1):
        launch.publish(run.folder / f"branch-{branch}.safetensors", path)
    inputs = [*job.paths("stable"), *job.paths("decay")]
    write_table(table(run.trainer.rows, LOG), job.path("log"), origin(job.spec, inputs))
    resume.clear(run.folder)


if __name__ == "__main__":
    command(main)
