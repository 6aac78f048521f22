"""What happens when Snakemake is about to run jobs: checks of the machine and the results root, and warnings."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from smelt.budgets import plan
from smelt.errors import UserError
from smelt.study import tasks
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy
from smelt.study.grid import GridStudy
from smelt.workflow import preflight, results_root, specs
from smelt.workflow.paths import Paths

# Rules by what is checked before any of their jobs runs; a test holds that there are such rules.
TRAINING = ("train", "stable", "decay")
PLAN = "plan"
REQUESTS = "requests"
OWN = "user_table"


class Waiting(NamedTuple):
    """A job that is about to run: its rule and its wildcards."""

    rule: str
    wildcards: Mapping[str, str]


def before(study: Study, paths: Paths, waiting: Iterable[Waiting], cores: int | None) -> None:
    """Check the results root and, where `cores` of this machine are used, its disk and memory; print warnings.

    Ends the process with one line where something is wrong.
    """
    jobs = list(waiting)
    names = {job.rule for job in jobs}
    for line in tasks.missing(study) if REQUESTS in names else []:
        print(f"warning: {line}", file=sys.stderr)
    for line in study.given.warnings if isinstance(study, EndpointStudy) and OWN in names else ():
        print(f"warning: {line}", file=sys.stderr)
    runs = {job.wildcards["run"] for job in jobs if job.rule in TRAINING}
    new = [paths.runs[run] for run in sorted(runs) if not os.path.exists(f"{paths.results}/training/{run}/log.parquet")]
    try:
        if cores:
            preflight.check_machine(study, new, cores)
        results_root.claim_root(study)
    except (UserError, OSError) as error:
        sys.exit(f"error: {error}")
    if isinstance(study, GridStudy) and (runs or PLAN in names):
        for line in plan.warnings(specs.plan(study)):
            print(f"warning: {line}", file=sys.stderr)
