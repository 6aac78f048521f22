"""The whole study file: its sections, and whose settings each of them holds.

A setting that a stage reads is declared beside that stage's code; a section names its dataclass under `of`.
`smelt.study.schema` makes the schema of study files from all of them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from smelt.budgets import plan
from smelt.budgets.lattice import Lattice
from smelt.corpus.contexts import heldout, shard, tokenizer
from smelt.corpus.documents.settings import Settings as DocumentSettings
from smelt.evaluation.settings import EvaluationSettings
from smelt.scaling.endpoints import simulate
from smelt.scaling.settings import Settings as ScalingSettings
from smelt.setting import setting
from smelt.study.sections.evaluation import Evaluation
from smelt.study.sections.grid import Ablation, Grid
from smelt.study.sections.names import NAME, RUN, SEED
from smelt.study.sections.scaling import Comparison, Simulation
from smelt.study.sections.training import Cluster, Jobs, Monitoring, RunKeys, Tuning
from smelt.training.settings import TrainingSettings

# Folders of a results root, which no study may take for its own.
RESERVED = (
    *("tables", "figures", "corpus", "budgets", "training", "evaluation", "scaling", "probes", "reporting"),
    *("logs", "benchmarks", "state", "study"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """What the corpus is made from."""

    sources: str = setting(
        "Table of pinned source packages (TSV), a path from the repository's folder and not, as others, from the "
        "study file's."
    )


Section = Mapping[str, Any]
TRAINING = (TrainingSettings, RunKeys)  # what single cells and runs may say otherwise


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyFile:
    """One study, from its text to its tables. Chosen with --config study=NAME (a file of config/) or a path."""

    name: str = setting(
        "Name of the study and of its results root, results/NAME/ (results/ itself for desk): lower-case letters, "
        "digits and _, a letter first.",
        pattern=NAME,
        reserved=RESERVED,
    )
    seeds: tuple[int, ...] | dict[str, tuple[int, ...]] = setting(
        "Seeds of initialisation and of the choice and order of text, or lists by scale; both architectures of a cell "
        "share them.",
        (TrainingSettings.seed,),
        min_items=1,
        unique_items=True,
        each=SEED,
    )
    corpus: Section = setting(
        "The text, its split and its packing.",
        optional=True,
        of=(Corpus, DocumentSettings, tokenizer.Settings, shard.Settings, heldout.Settings),
    )
    grid: Section = setting(
        "The matched pairs. scale x sparsity = cell; architecture x cell x seed = run.",
        optional=True,
        of=(Grid, Lattice),
    )
    training: Section = setting("Warm-up, stable phase and decay branches.", optional=True, of=(*TRAINING, Jobs))
    cells: Mapping[str, Section] = setting(
        "Training settings of single cells, by SCALE-SPARSITY; both runs of the pair take them.",
        {},
        overrides=TRAINING,
    )
    runs: Mapping[str, Section] = setting(
        f"Training settings of single runs, by {RUN}; they win over cells.", {}, overrides=TRAINING
    )
    tuning: Section = setting(
        "A sweep of the learning rate; each run of the grid is trained once at each rate.", {}, of=(Tuning,)
    )
    cost_estimate: Section = setting(
        "What the cost estimate assumes of its machine and its text, in tables/plan.csv.", {}, of=(plan.Assumptions,)
    )
    monitoring: Section = setting(
        "What runs tell of themselves while they train; it decides no result (see docs/training.md).",
        {},
        of=(Monitoring,),
    )
    cluster: Section = setting(
        "What training jobs ask a cluster's scheduler for; it decides no result (see docs/cluster.md).",
        {},
        of=(Cluster,),
    )
    ablations: Mapping[str, Ablation] = setting(
        "Ablations: a table and a figure of each in place of the fits of the scaling stage; by name, as span_sweep or "
        "loop_count.",
        {},
        names=(
            "^[a-z][a-z0-9_]*_(sweep|count)$",
            "a name is lower-case letters, digits and _, a letter first, and ends in _sweep or _count",
        ),
    )
    evaluation: Section = setting(
        "Held-out loss, and scores on downstream tasks (see docs/downstream.md).",
        {},
        of=(EvaluationSettings, Evaluation),
    )
    endpoints: str | None = setting(
        "Endpoints of your own in place of corpus, grid and training: a .csv or .parquet file, a path from the study "
        "file's folder (see docs/endpoints.md).",
        None,
    )
    scores: str | None = setting(
        "Scores of the endpoints on downstream tasks, calibrated against their loss: a .csv or .parquet file, a path "
        "from the study file's folder (see docs/calibration.md).",
        None,
    )
    simulation: Section = setting(
        "Endpoints with losses from known surfaces, in place of corpus, grid and training.",
        optional=True,
        of=(Simulation, simulate.Settings),
    )
    scaling: Section = setting("Fits, frontier, gain and their intervals.", {}, of=(ScalingSettings, Comparison))
