"""What the commands of all figures share: the study's settings, the tables that a figure reads, the files of each."""

import dataclasses
from collections.abc import Mapping, Sequence

import pandas as pd

from smelt import tables
from smelt.job import Job, read_job


@dataclasses.dataclass(frozen=True)
class FigureSettings:
    """What a figure says of its study."""

    study: str
    reference: str  # architecture that the others are compared with


@dataclasses.dataclass(frozen=True)
class AblationFigureSettings(FigureSettings):
    """What the figures of the ablations say, too."""

    axes: Mapping[str, str]  # of each ablation, the column that its points differ in


def read_figure_job(
    module: str, description: str | None, argv: Sequence[str], names: Sequence[str]
) -> Job[FigureSettings]:
    """The job of a command that reads one file for each of `names` and writes figures to the files of --out."""
    return read_job(module, description, argv, FigureSettings, names, ["out*"])


def read_frames(job: Job[FigureSettings]) -> dict[str, pd.DataFrame]:
    """Each input of a job as a table, under its option's name."""
    return {name: tables.read(job.path(name)) for name in job.inputs}
