"""Decay one branch of a run from the checkpoint that its stable phase left (smelt.training.stable).

Reads the run's spec with this branch alone, the checkpoint and the packed contexts of the decay stream; writes the
branch's model (fp32 safetensors that carry their model settings) and its part of the log (Parquet). What is finished
stays in the state folder, as links where the file system has them, under the digest of all that it came from: a job
that runs again on the same bytes trains nothing.
"""

import argparse
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smelt.artifacts import read_table, table, write_table
from smelt.errors import UserError, command
from smelt.labels import check_run
from smelt.training import launch
from smelt.training.processes import first
from smelt.training.saves import checkpoint
from smelt.training.steps.data import Stream
from smelt.training.steps.log import LOG, origin
from smelt.training.trainer import Trainer

MODULE = "smelt.training.decay"
MODEL, LOGGED = "branch.safetensors", "log.parquet"  # in the state folder


def decay(trainer: Trainer, stream: Stream, start: Path, branch: int, folder: Path, name: str, save_every: int) -> None:
    """Take the branch from the checkpoint `start`, or its last save, to its end.

    Raises SystemExit(STOPPED), with the state saved, when asked to end, and UserError where `start` is not the
    checkpoint of the branch step.
    """
    (branch_step,) = trainer.settings.branch_steps
    saved = trainer.network.saved(folder)
    if saved is not None:
        trainer.restore(saved)
    else:
        about = trainer.network.read_checkpoint(start)
        check_run(start, [about["run"]], trainer.run)
        trainer.done = about["step"]
    if trainer.done != branch_step:
        raise UserError(
            f"{start}: the checkpoint of step {trainer.done}, and branch {branch} leaves at {branch_step}; "
            "delete it and run again"
        )
    while len(trainer.rows) < trainer.settings.decay_steps:
        trainer.decay_step(stream, branch, len(trainer.rows))
        if trainer.stopping or len(trainer.rows) % save_every == 0:
            trainer.save(folder)
        if trainer.stopping:
            launch.leave(name, f"step {len(trainer.rows)} of the decay")
    first(lambda: write_table(table(trainer.rows, LOG), folder / LOGGED, {}))
    trainer.write_endpoint(folder / MODEL, branch)
    trainer.network.forget(folder)


def main(argv: Sequence[str]) -> None:
    parser = launch.parser(MODULE, __doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="of the stable phase at the branch step")
    parser.add_argument("--decay", nargs="+", required=True, help="shards of the decay stream, in order")
    parser.add_argument("--model", type=Path, required=True, help="the branch's model")
    parser.add_argument("--log", type=Path, required=True, help="the log of the decay (Parquet)")
    told = parser.parse_args(argv)

    spec = json.loads(told.spec)
    inputs = [told.checkpoint, *told.decay]
    with launch.settled(spec), launch.state_folder(told.state, launch.identity(spec, MODULE, inputs)) as folder:
        if not first(lambda: checkpoint.is_whole(folder / MODEL) and (folder / LOGGED).exists()):
            trainer = Trainer(spec)
            launch.stop_on_signals(trainer)
            stream = Stream(told.decay, trainer.settings.seed)
            launch.watch(trainer, told, trainer.settings.decay_steps)
            decay(trainer, stream, told.checkpoint, spec["branch"], folder, told.state.name, told.save_interval)
        first(functools.partial(_publish, folder, told, spec, inputs))


def _publish(folder: Path, told: argparse.Namespace, spec: dict[str, Any], inputs: Sequence[str | Path]) -> None:
    launch.publish(folder / MODEL, told.model)
    rows = read_table(folder / LOGGED).to_pylist()
    write_table(table(rows, LOG), told.log, origin(spec, inputs))


if __name__ == "__main__":
    command(main)
