"""What each job of a study is told: the settings of its stage, filled from the study.

`smelt.workflow.job_specs` turns settings into a rule's canonical JSON. Settings hold what their job's outputs depend
on and nothing else, since Snakemake reruns a job when its spec changes.
"""

import dataclasses
from typing import TypedDict

from smelt.budgets import plan as plan_job
from smelt.budgets import table as budgets_table
from smelt.budgets.ledger import budget
from smelt.corpus import summary
from smelt.corpus.contexts import heldout as heldout_job
from smelt.corpus.contexts import shard as shard_job
from smelt.corpus.contexts import tokenizer as tokenizer_job
from smelt.corpus.documents.settings import Settings as DocumentSettings
from smelt.corpus.sources import fetch as fetch_job
from smelt.evaluation.metrics import settings as metrics
from smelt.evaluation.prompts.requests import Settings as RequestSettings
from smelt.evaluation.settings import EvaluationSettings, ScoringSettings
from smelt.evaluation.tasks.registry import presets
from smelt.reporting import tables as tables_job
from smelt.reporting.figures.command import AblationFigureSettings, FigureSettings
from smelt.study import tasks
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy
from smelt.study.grid import GridStudy, Run
from smelt.training import health
from smelt.training.cost_settings import CostSettings, MemberSettings
from smelt.training.settings import RunSettings


class Cell(TypedDict):
    """What an architecture in a cell is called in the tables."""

    architecture: str
    scale: str
    sparsity: str


class Named(Cell):
    """What a run is called in the tables."""

    run: str
    seed: int


def named(run: Run) -> Named:
    """What a run is called in the tables."""
    return {"run": run.id, "seed": run.seed, **_cell(run)}


def _cell(run: Run) -> Cell:
    return {"architecture": run.architecture, "scale": run.scale, "sparsity": run.sparsity}


@dataclasses.dataclass(frozen=True)
class Nothing:
    """The settings of a job that the study says nothing to."""


def nothing(study: Study) -> Nothing:
    """No settings: the job takes its defaults."""
    return Nothing()


# Corpus


def fetch(study: GridStudy) -> fetch_job.Settings:
    """The sources whose packages are fetched."""
    return study.settings(fetch_job.Settings, "corpus")


def documents(study: GridStudy) -> DocumentSettings:
    """The text that is read, and its split."""
    return study.settings(DocumentSettings, "corpus")


def tokenizer(study: GridStudy) -> tokenizer_job.Settings:
    """The vocabulary and the text that it is learnt from."""
    return study.settings(tokenizer_job.Settings, "corpus")


def shard(study: GridStudy) -> shard_job.Settings:
    """The contexts of a stream."""
    return study.settings(shard_job.Settings, "corpus")


def heldout(study: GridStudy) -> heldout_job.Settings:
    """The held-out sample; a study that sweeps learning rates has one that scores nothing else."""
    split = "tuning" if study.config["tuning"]["learning_rates"] else "evaluation"
    return study.settings(heldout_job.Settings, "corpus", split=split)


def corpus_summary(study: GridStudy) -> summary.Settings:
    """The sources read, and the keys that the study charges a query."""
    return study.settings(summary.Settings, "corpus", attention_keys=study.attention_keys)


# Budgets


def budgets(study: GridStudy) -> budgets_table.TableSettings:
    """Networks of the grid, once each, and their controls."""
    first = {(run.architecture, run.cell): run for run in reversed(study.runs.values())}
    runs = tuple(
        budgets_table.RunSettings(
            **_cell(run),
            model=run.model,
            control=study.own_control(run),
            reference_control=study.control(run.scale),
            note=study.note(run) or None,
        )
        for run in reversed(first.values())
    )
    return budgets_table.TableSettings(study.attention_keys, runs, study.reference)


def plan(study: GridStudy) -> plan_job.Settings:
    """Networks and recipes of the trained runs, once each, the size of the text and the machine."""
    same: dict[tuple[str, str], list[Run]] = {}
    for run in study.trained:
        same.setdefault((run.architecture, run.cell), []).append(run)
    # Text that is asked for, or all there is.
    sizes = [study.config["corpus"]["megabytes"], study.config["cost_estimate"]["text_megabytes"]]
    return study.settings(
        plan_job.Settings,
        "corpus",
        "cost_estimate",
        text_megabytes=min((size for size in sizes if size), default=0),
        attention_keys=study.attention_keys,
        runs=tuple(_planned(runs) for runs in same.values()),
        branch_jobs=study.branch_jobs,
    )


def _planned(runs: list[Run]) -> plan_job.Training:
    """A network, its recipe and its seeds, from the runs that train it."""
    recipe = runs[0].training
    return plan_job.Training(
        **_cell(runs[0]),
        model=runs[0].model,
        seeds=tuple((run.id, run.seed) for run in runs),
        batch_contexts=recipe.batch_contexts,
        steps=recipe.steps,
        branch_steps=recipe.branch_steps,
        decay_steps=recipe.decay_steps,
    )


# Training


def training(study: GridStudy, run: Run) -> RunSettings:
    """Network and recipe of one run, and the name that all of its artifacts carry."""
    return RunSettings(run.id, study.config["corpus"]["context"], run.model, run.training)


def stable(study: GridStudy, run: Run) -> RunSettings:
    """Network and recipe of a run's stable phase, which knows nothing of the decays but where they leave."""
    recipe = dataclasses.replace(run.training, decay_steps=1, final_lr_fraction=0.0)
    return dataclasses.replace(training(study, run), training=recipe)


def decay(study: GridStudy, run: Run, branch: int) -> RunSettings:
    """Network and recipe of one branch of a run, from 1: as of a run that ends where the branch leaves."""
    leaves = run.training.branch_steps[branch - 1]
    recipe = dataclasses.replace(run.training, steps=leaves, branch_steps=(leaves,))
    return dataclasses.replace(training(study, run), training=recipe, branch=branch)


def runs(study: GridStudy) -> health.Settings:
    """What the trained runs are, in the order of their logs."""
    told = tuple(
        health.RunSettings(
            **named(run),
            learning_rate=run.training.learning_rate,
            experts=run.model.experts,
            active_experts=run.model.active_experts,
            vocabulary=run.model.vocabulary,
        )
        for run in study.trained
    )
    return health.Settings(told)


def costs(study: GridStudy) -> CostSettings:
    """Networks of the trained cells, once each, and how they are trained."""
    first = {(run.architecture, run.cell): run for run in reversed(study.trained)}
    members = tuple(
        MemberSettings(
            **_cell(run),
            model=run.model,
            batch_contexts=run.training.batch_contexts,
            precision=run.training.precision,
        )
        for run in reversed(first.values())
    )
    return CostSettings(study.config["corpus"]["context"], members, study.reference)


def flops_per_token(study: GridStudy, run: Run) -> int:
    """FLOPs that a run's training takes of a token, LM head included."""
    cost = budget(run.model, study.attention_keys)
    return round(cost.flops_per_token + cost.head_flops_per_token)


# Evaluation


def evaluation(study: GridStudy) -> EvaluationSettings:
    """How the held-out loss is measured."""
    return study.settings(EvaluationSettings, "evaluation")


def scoring(study: GridStudy) -> ScoringSettings:
    """How the endpoints of a run are scored on tasks."""
    return study.settings(ScoringSettings, "evaluation", context=study.config["corpus"]["context"])


def requests(study: GridStudy, part: str) -> RequestSettings:
    """The requests of an evaluation set, whose job reads `tasks.files` in their order."""
    choice, corpus = tasks.choices(study)[part], study.config["corpus"]
    return RequestSettings(
        tasks=tuple(tasks.scored(study)),
        files=tuple(tasks.files(study)),
        preset_items=presets()[choice["preset"]],
        shots=tuple(choice["shots"]),
        seeds=tuple(choice["seeds"]),
        sampler=choice["sampler"],
        truncation=study.config["evaluation"]["truncation"],
        context=corpus["segment_tokens"] or corpus["context"],  # no model has learnt positions beyond
    )


def task_scores(study: GridStudy) -> metrics.Settings:
    """Tasks, choices of items and demonstrations, and what the runs are."""
    choices = tasks.choices(study)
    return metrics.Settings(
        tasks=tuple(tasks.wanted(study)),  # those without a file are counted as missing
        runs=tuple(metrics.Run(**named(run)) for run in study.trained),
        presets={part: choice["preset"] for part, choice in choices.items()},
        sampler={part: choice["sampler"] for part, choice in choices.items()},
        baselines=study.config["evaluation"]["baselines"],
        reference=study.reference,
        shots=tuple(choices["last_endpoint"]["shots"]) if "last_endpoint" in choices else (),
    )


# Reporting


def figure(study: Study) -> FigureSettings:
    """What a figure says of its study."""
    return FigureSettings(study.name, study.reference)


def ablation_figures(study: GridStudy) -> AblationFigureSettings:
    """What the figures of the ablations are drawn against."""
    axes = {name: ablation["axis"] for name, ablation in study.config["ablations"].items()}
    return AblationFigureSettings(study.name, study.reference, axes)


def tables(study: Study) -> tables_job.Settings:
    """What every table says of simulated endpoints; nothing where they were measured."""
    rows = study.given.rows if isinstance(study, EndpointStudy) else []
    return tables_job.Settings(", ".join(sorted({row["source"] for row in rows if _simulated(row["source"])})))


def _simulated(source: str) -> bool:
    return source.startswith("simulated")
