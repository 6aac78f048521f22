"""A run with one job per branch (training.jobs: branch), in a folder of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.training import decay, join, stable
from smelt.training.trainer import Trainer


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@contextmanager
def at_step(count: int, act: Callable[[Trainer], None]) -> Iterator[list[int]]:
    """Call `act` at the `count`-th step that any trainer takes from now on (never for 0); the list counts the steps."""
    steps, plain = [0], Trainer._update

    def update(self: Trainer, *arguments: Any) -> None:
        steps[0] += 1
        now = steps[0] == count
        if now and act is request_stop:
            act(self)
        plain(self, *arguments)
        if now and act is not request_stop:
            act(self)

    Trainer._update = update  # type: ignore[assignment, method-assign]
    try:
        yield steps
    finally:
        Trainer._update = plain  # type: ignore[method-assign]


def kill(trainer: Trainer) -> None:
    raise Killed


def request_stop(trainer: Trainer) -> None:
    """As the handler of SIGTERM does, in the middle of a step."""
    trainer.stop_requested = True


class BranchJobs:
    """The jobs of one run, as the workflow calls them."""

    def __init__(self, folder: Path, shards: dict[str, list[str]], spec: dict[str, Any]) -> None:
        self.folder, self.shards, self.spec = folder, shards, spec
        folder.mkdir(exist_ok=True)

    @property
    def branches(self) -> list[int]:
        return self.spec["training"]["branch_steps"]

    def stable_arguments(self) -> list[str]:
        numbers = range(1, len(self.branches) + 1)
        checkpoints = [str(self.folder / f"stable-{number}.safetensors") for number in numbers]
        spec = {**self.spec, "training": {**self.spec["training"], "decay_steps": 1}}
        return [
            "--spec", json.dumps(spec), "--stable", *self.shards["stable"],
            "--state", str(self.folder / "state/stable"), "--save-interval", "2",
            "--checkpoints", *checkpoints, "--log", str(self.folder / "stable.parquet"),
        ]  # fmt: skip

    def decay_arguments(self, branch: int) -> list[str]:
        branch_step = self.branches[branch - 1]
        spec = {**self.spec, "training": {**self.spec["training"], "steps": branch_step, "branch_steps": [branch_step]}}
        return [
            "--spec", json.dumps({**spec, "branch": branch}),
            "--checkpoint", str(self.folder / f"stable-{branch}.safetensors"), "--decay", *self.shards["decay"],
            "--state", str(self.folder / f"state/branch-{branch}"), "--save-interval", "2",
            "--model", str(self.folder / f"branch-{branch}.safetensors"),
            "--log", str(self.folder / f"decay-{branch}.parquet"),
        ]  # fmt: skip

    def stable(self) -> None:
        stable.main(self.stable_arguments())

    def decay(self, branch: int) -> None:
        decay.main(self.decay_arguments(branch))

    def join(self) -> None:
        parts = [str(self.folder / f"decay-{branch}.parquet") for branch in range(1, len(self.branches) + 1)]
        join.main([
            "--spec", json.dumps(self.spec), "--stable", str(self.folder / "stable.parquet"), "--decays", *parts,
            "--out", str(self.folder / "log.parquet"),
        ])  # fmt: skip

    def run(self) -> None:
        """All jobs, one after the other."""
        self.stable()
        for branch in range(1, len(self.branches) + 1):
            self.decay(branch)
        self.join()

    def command(self, module: str, arguments: list[str], limit: int = 0) -> subprocess.CompletedProcess[str]:
        """A job as a process, which may write no file above `limit` KiB."""
        command = [sys.executable, "-m", f"smelt.training.{module}", *arguments]
        if limit:
            command = ["bash", "-c", f'ulimit -f {limit}; trap "" XFSZ; exec "$@"', "bash", *command]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def delete_outputs(self) -> None:
        """As Snakemake does before a job runs again."""
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()

    def outputs(self) -> dict[str, bytes]:
        """What both forms have in common."""
        names = [f"branch-{branch}.safetensors" for branch in range(1, len(self.branches) + 1)]
        return {name: (self.folder / name).read_bytes() for name in [*names, "log.parquet"]}
