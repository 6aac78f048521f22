"""Decay one branch of a run from a checkpoint of its stable phase (smelt.training.stable).

Reads the run's spec with this branch alone, the checkpoint and the packed contexts of the decay stream; writes the
branch's model (fp32 safetensors that carry their model settings) and its part of the log (Parquet). What is finished
stays in the state folder, as links where the file system has them, under the digest of all that it came from: a job
that runs again on the same bytes trains nothing.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import read_table, table, write_table
from smelt.errors import UserError, command
from smelt.job import Job, read_job
from smelt.labels import check_run
from smelt.training import launch
from smelt.training.processes import first
from smelt.training.saves import checkpoint
from smelt.training.settings import RunSettings
from smelt.training.steps.data import ContextStream
from smelt.training.steps.log import LOG, origin
from smelt.training.trainer import Trainer

MODULE = "smelt.training.decay"
MODEL, LOGGED = "branch.safetensors", "log.parquet"  # in the state folder


def decay(
    trainer: Trainer, stream: ContextStream, start: Path, branch: int, folder: Path, options: launch.Options
) -> None:
    """Take the branch from the checkpoint `start`, or its last save, to its end.

    Raises SystemExit(STOPPED), with the state saved, when asked to end, and UserError where `start` is a checkpoint
    of another run or of another step than the branch step.
    """
    (branch_step,) = trainer.settings.branch_steps
    saved = trainer.network.saved(folder)
    if saved is not None:
        trainer.restore(saved)
    else:
        about = trainer.network.read_checkpoint(start)
        check_run(start, [about.get("run", "unknown")], trainer.run)
        trainer.done = about["step"]
    if trainer.done != branch_step:
        raise UserError(
            f"{start}: the checkpoint of step {trainer.done}, and branch {branch} branches off at {branch_step}; "
            "delete it and run again"
        )
    while len(trainer.rows) < trainer.settings.decay_steps:
        trainer.decay_step(stream, branch, len(trainer.rows))
        if trainer.stopping or len(trainer.rows) % options.save_interval == 0:
            trainer.save(folder)
        if trainer.stopping:
            launch.leave(options.name, f"step {len(trainer.rows)} of the decay")
    first(lambda: write_table(table(trainer.rows, LOG), folder / LOGGED, {}))
    trainer.write_endpoint(folder / MODEL, branch)
    trainer.network.forget(folder)


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, RunSettings, ["checkpoint", "decay*"], ["model", "log"], launch.Options)
    options: launch.Options = job.options
    start, shards, recipe = job.path("checkpoint"), job.paths("decay"), job.settings.training
    with (
        launch.settled(recipe),
        launch.state_folder(options.state, launch.identity(job, [start, *shards])) as folder,
    ):
        if not first(lambda: checkpoint.is_whole(folder / MODEL) and (folder / LOGGED).exists()):
            trainer = Trainer(job.settings)
            launch.stop_on_signals(trainer)
            launch.watch(trainer, options, recipe.decay_steps)
            stream = ContextStream(shards, recipe.seed)
            decay(trainer, stream, start, job.settings.branch, folder, options)
        first(functools.partial(_publish, folder, job))


def _publish(folder: Path, job: Job[RunSettings]) -> None:
    launch.publish(folder / MODEL, job.path("model"))
    rows = read_table(folder / LOGGED).to_pylist()
    inputs = [job.path("checkpoint"), *job.paths("decay")]
    write_table(table(rows, LOG), job.path("log"), origin(job.spec, inputs))


if __name__ == "__main__":
    command(main)
