"""Clones of the workflow in folders of their own, one of them with a finished smoke study."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.dry_runs import dry_run

ROOT = Path(__file__).parents[2]
WORKFLOW = ("Snakefile", "rules", "smelt", "config", "profiles", "envs")
JOB = re.compile(r"^(?:local)?rule (\w+):$\n((?:^ .*$\n?)*)", re.MULTILINE)
WILDCARDS = re.compile(r"^    wildcards: (.*)$", re.MULTILINE)
DONE = "Nothing to be done"


class Workspace:
    """A clone of the workflow, and one study run in it as a person would: from its folder, without options."""

    def __init__(self, folder: Path, study: str = "smoke") -> None:
        self.folder = folder
        self.name = study
        self.study = folder / (study if "/" in study else f"config/{study}.yaml")
        self.results = folder / "results" / self.study.stem

    @classmethod
    def cloned(cls, folder: Path, study: str = "smoke") -> "Workspace":
        """A clone of the repository's workflow, without results."""
        folder.mkdir()
        for name in WORKFLOW:
            source = ROOT / name
            if source.is_file():
                shutil.copy2(source, folder)
            else:
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        return cls(folder, study)

    def copy(self, target: Path, *, linked: bool = True, results: bool = True) -> "Workspace":
        """A second clone; time stamps are kept. Files are linked where none is written to in place."""
        ignore = shutil.ignore_patterns("__pycache__", "locks", *(() if results else ("results", ".snakemake")))
        shutil.copytree(self.folder, target, ignore=ignore, copy_function=os.link if linked else shutil.copy2)
        return Workspace(target, self.name)

    def command(self, *arguments: str, study: str = "") -> list[str]:
        return [sys.executable, "-m", "snakemake", *arguments, "--config", f"study={study or self.name}"]

    def environment(self) -> dict[str, str]:
        """Jobs import this clone's package, and the cache is that of the repository."""
        cache = os.environ.get("SMELT_CACHE", str(ROOT / "cache"))
        return os.environ | {"PYTHONPATH": str(self.folder), "SMELT_CACHE": cache}

    def run(self, *arguments: str, study: str = "", check: bool = True) -> str:
        """Run Snakemake; return what it says (`check`: it must succeed)."""
        result = self.call(*arguments, study=study)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr

    def call(self, *arguments: str, study: str = "") -> subprocess.CompletedProcess[str]:
        command, environment = self.command(*arguments, study=study), self.environment()
        if "--dry-run" in arguments:
            return dry_run(command[command.index("snakemake") + 1 :], self.folder, environment)
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def finish(self, cores: int = 2) -> str:
        return self.run("--cores", str(cores))

    def waiting(self, *arguments: str) -> list[str]:
        """The jobs of a dry run but the target: rule and wildcards, as `train smelt-H16-S85`."""
        said = self.run("--dry-run", *arguments)
        jobs = sorted(" ".join([rule, *self._wildcards(block)]) for rule, block in JOB.findall(said) if rule != "all")
        assert bool(jobs) != (DONE in said), said
        return jobs

    @staticmethod
    def _wildcards(block: str) -> list[str]:
        found = WILDCARDS.search(block)
        return [pair.split("=", 1)[1] for pair in found[1].split(", ")] if found else []

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands in a file of the clone once; the file is a new one, with a new time stamp."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        self.write(path, text.replace(old, new))

    def change(self, **sections: Any) -> None:
        """Set keys of the study file: `change(runs={"smelt-H16-S85": {"steps": 9}})`."""
        if not sections:
            return
        config = yaml.safe_load(self.study.read_text(encoding="utf-8"))
        for section, value in sections.items():
            config[section] = config.get(section, {}) | value if isinstance(value, dict) else value
        self.write(self.study, yaml.safe_dump(config, sort_keys=False))

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.unlink()  # it may be a link
        path.write_text(text, encoding="utf-8")

    def artifacts(self) -> dict[str, bytes]:
        """All results that are byte-identical between runs: all but logs, benchmarks and what is measured."""
        return {
            path.relative_to(self.results).as_posix(): path.read_bytes()
            for path in sorted(self.results.rglob("*"))
            if path.is_file()
            and path.relative_to(self.results).parts[0] not in ("logs", "benchmarks", "state")
            and not path.name.endswith(".perf.jsonl")
            and path.relative_to(self.results).as_posix() not in ("tables/costs.parquet", "tables/costs.csv")
        }

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Snakemake in a session of its own; whatever is left of the session at the end is killed."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill_session(process.pid)
            process.wait()


def kill_session(session: int) -> None:
    """SIGKILL to every process of a session: to its group, and to those that left it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The sixth field, counted behind the command's name, which may hold anything.
            if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this test session, the same for all its workers."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def finished_once(factory: pytest.TempPathFactory, name: str, study: str = "smoke", **changes: Any) -> Workspace:
    """A clone with a finished study, made once for all workers. Only read it, and copy it."""
    folder = shared_folder(factory) / name
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        workspace = Workspace(folder, study) if folder.exists() else Workspace.cloned(folder, study)
        if not (folder / "finished").exists():
            workspace.change(**changes)
            workspace.finish()
            (folder / "finished").touch()
    return workspace


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Workspace:
    """The finished smoke study."""
    return finished_once(tmp_path_factory, "smoke")


@pytest.fixture
def workspace(finished, tmp_path) -> Workspace:
    """A copy of the finished clone at another place, for dry runs after a change."""
    return finished.copy(tmp_path / "clone")


def expected(*jobs: str | Sequence[str]) -> list[str]:
    """Sorted names of jobs; a list gives several."""
    return sorted(name for job in jobs for name in ([job] if isinstance(job, str) else job))
