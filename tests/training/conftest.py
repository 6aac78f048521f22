"""Small packed streams and a small run, for tests of the training job."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt.training.train import main

CONTEXT = 128
SPEC = {
    "run": "smelt-H16-S85",
    "context": CONTEXT,
    "model": {
        "vocabulary": 64, "layers": 3, "hidden_size": 16, "heads": 2, "kv_heads": 1, "head_size": 8,
        "experts": 12, "expert_width": 8, "active_experts": 2, "loop_start": 1, "loop_length": 1, "visits": 2,
    },
    "training": {
        "steps": 12, "branch_steps": [3, 8, 12], "decay_steps": 3, "learning_rate": 0.01, "warmup_steps": 2,
    },
}  # fmt: skip


def write_shard(path: Path, contexts: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    segments = [[40, CONTEXT - 50, 6] for _ in range(contexts)]  # four tokens of padding
    tokens = rng.integers(1, 64, (contexts, CONTEXT)).astype(np.uint16)
    columns = {
        "context": pa.array(range(contexts), pa.int32()),
        "tokens": pa.FixedSizeListArray.from_arrays(pa.array(tokens.ravel()), CONTEXT),
        "segments": pa.array(segments, pa.list_(pa.int32())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    return {
        "stable": [write_shard(folder / f"stable/shard-{number:05d}.parquet", 8, number) for number in range(2)],
        "decay": [write_shard(folder / "decay/shard-00000.parquet", 4, 9)],
    }


class Job:
    """The training command in a folder of its own."""

    def __init__(self, folder: Path, shards: dict[str, list[str]], spec: dict) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.spec = spec
        models = [
            str(folder / f"branch-{branch + 1}.safetensors") for branch in range(len(spec["training"]["branch_steps"]))
        ]
        self.arguments = [
            "--spec", json.dumps(spec), "--stable", *shards["stable"], "--decay", *shards["decay"],
            "--state", str(self.state), "--save-interval", "2",
            "--models", *models, "--log", str(folder / "log.parquet"),
        ]  # fmt: skip

    def command(self) -> list[str]:
        return [sys.executable, "-m", "smelt.training.train", *self.arguments]

    def run(self) -> None:
        """In this process: torch has been imported already."""
        main(self.arguments)

    def stop_at(self, step: int, number: int = signal.SIGKILL) -> int:
        """Start, send a signal once the log tells of `step`, and return the exit status."""
        process = subprocess.Popen(self.command(), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            if f"step {step} of" in line:
                os.kill(process.pid, number)
                break
        process.communicate()
        return process.returncode

    def outputs(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}


@pytest.fixture(scope="session")
def whole(tmp_path_factory, shards):
    """An undisturbed run of SPEC."""
    finished = Job(tmp_path_factory.mktemp("whole"), shards, SPEC)
    finished.run()
    return finished


@pytest.fixture
def job(tmp_path, shards):
    def make(name: str, **training) -> Job:
        (tmp_path / name).mkdir()
        return Job(tmp_path / name, shards, {**SPEC, "training": {**SPEC["training"], **training}})

    return make
