"""What all rules share: the study, its results root, and one spec for each job.

Reads config/schema.yaml and the study file named by `--config study=NAME|PATH`. Holds no rule. A spec is one
canonical JSON string of plain values: Snakemake compares it to decide what runs again.
"""

import os
import sys
from pathlib import Path

from smelt.study import load as studies, tasks as study_tasks
from smelt.workflow import preflight, resources as cluster, results_root, specs as jobs
from smelt.budgets import plan
from smelt.errors import UserError
from smelt.spec import canonical_json, fingerprint, load

studies.use_this_interpreter()

try:
    STUDY = studies.read(studies.find(studies.chosen(config), Path(workflow.basedir) / "config"))
    results_root.check_root(STUDY)
except UserError as error:
    sys.exit(f"error: {error}")

RESULTS = STUDY.root
STATE = cluster.state_root(STUDY)  # what killed jobs resume from
CONFIG = STUDY.config
TRAINS = STUDY.kind == "trained"  # otherwise its endpoints are given
TUNING = bool(CONFIG["tuning"]["learning_rates"])
SWEEPS = list(CONFIG["ablations"])  # tables of ablations in place of fits
TASKS = CONFIG["evaluation"]["tasks"] if TRAINS else []  # downstream tasks that its endpoints are scored on


def spec(section, keys=None):
    """Canonical JSON of a section of the study, or of some of its keys."""
    return canonical_json(STUDY.section(section, keys))


def job(settings):
    """Canonical JSON of what a job that serves the whole study is told (a function of smelt.workflow.specs)."""
    try:
        return canonical_json(settings(STUDY))
    except UserError as error:
        sys.exit(f"error: {STUDY.path}: {error}")


def before_start(cores):
    """Check the results root, and what is about to train: the machine, unless jobs run elsewhere (`cores` is None),
    and the size of the text, also where it is only planned."""
    waiting = list(workflow.dag.needrun_jobs())
    for line in study_tasks.missing(STUDY) if any(job.rule.name == "requests" for job in waiting) else []:
        print(f"warning: {line}", file=sys.stderr)
    training = {job.wildcards.run for job in waiting if job.rule.name in ("train", "stable", "decay")}
    training = [RUNS[run] for run in sorted(training)]
    new = [run for run in training if not os.path.exists(f"{RESULTS}/training/{run.id}/log.parquet")]
    try:
        if cores:
            preflight.check_machine(STUDY, new, cores)
        results_root.claim_root(STUDY)
    except (UserError, OSError) as error:
        sys.exit(f"error: {error}")
    if training or any(job.rule.name == "plan" for job in waiting):
        for line in plan.warnings(load(plan.Settings, jobs.plan(STUDY))):
            print(f"warning: {line}", file=sys.stderr)
