"""Decay one branch of a run from the checkpoint that its stable phase left (smelt.training.stable).

Reads the run's spec with this branch alone, the checkpoint and the packed contexts of the decay stream; writes the
branch's model (fp32 safetensors that carry their model settings) and its part of the log (Parquet). What is finished
stays in the state folder, as links where the file system has them, under the digest of all that it came from: a job
that runs again on the same bytes trains nothing.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import file_digest, read_table, table, write_table
from smelt.errors import UserError, command
from smelt.spec import canonical_json, digest, fingerprint
from smelt.training import checkpoint, job, state
from smelt.training.data import Stream
from smelt.training.log import LOG, origin
from smelt.training.trainer import Trainer

MODULE = "smelt.training.decay"
MODEL, LOGGED = "branch.safetensors", "log.parquet"  # in the state folder


def decay(trainer: Trainer, stream: Stream, start: Path, branch: int, folder: Path, name: str, save_every: int) -> None:
    """Take the branch from the checkpoint `start`, or its last save, to its end.

    Raises SystemExit(STOPPED), with the state saved, when asked to end, and UserError where `start` is not the
    checkpoint of the branch step.
    """
    (branch_step,) = trainer.settings.branch_steps
    saved = state.load(folder)
    if saved is not None:
        trainer.restore(saved)
    else:
        trainer.done = checkpoint.read(start, trainer.model, trainer.adamw)["step"]
    if trainer.done != branch_step:
        raise UserError(
            f"{start}: the checkpoint of step {trainer.done}, and branch {branch} leaves at {branch_step}; "
            "delete it and run again"
        )
    while len(trainer.rows) < trainer.settings.decay_steps:
        trainer.decay_step(stream, branch, len(trainer.rows))
        if trainer.stopping or len(trainer.rows) % save_every == 0:
            state.save(folder, trainer.state())
        if trainer.stopping:
            job.leave(name, f"step {len(trainer.rows)} of the decay")
    write_table(table(trainer.rows, LOG), folder / LOGGED, {})
    trainer.write_endpoint(folder / MODEL, branch)
    state.forget(folder)


def main(argv: Sequence[str]) -> None:
    parser = job.parser(MODULE, __doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="of the stable phase at the branch step")
    parser.add_argument("--decay", nargs="+", required=True, help="shards of the decay stream, in order")
    parser.add_argument("--model", type=Path, required=True, help="the branch's model")
    parser.add_argument("--log", type=Path, required=True, help="the log of the decay (Parquet)")
    told = parser.parse_args(argv)

    spec = json.loads(told.spec)
    inputs = [told.checkpoint, *told.decay]
    identity = digest(canonical_json([spec, fingerprint(MODULE), [file_digest(path) for path in inputs]]))[:16]
    with state.locked(told.state, identity) as folder:
        if not (checkpoint.is_whole(folder / MODEL) and (folder / LOGGED).exists()):
            trainer = Trainer(spec)
            job.prepare(trainer)
            stream = Stream(told.decay, trainer.settings.seed)
            job.watch(trainer, told, trainer.settings.decay_steps)
            decay(trainer, stream, told.checkpoint, spec["branch"], folder, told.state.name, told.checkpoint_steps)
        job.publish(folder / MODEL, told.model)
        rows = read_table(folder / LOGGED).to_pylist()
        write_table(table(rows, LOG), told.log, origin(spec, inputs))


if __name__ == "__main__":
    command(main)
