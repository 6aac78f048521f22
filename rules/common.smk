"""What all rules share: the study, where its files lie, what its jobs are told and what they ask for.

Reads the study file named by `--config study=NAME|PATH`. Holds no rule. `<results>`, `<logs>` and
`<benchmarks>` stand for the study's folders in every path below.
"""

import os
import sys
from pathlib import Path

from smelt.errors import UserError
from smelt.spec import fingerprint
from smelt.study import load as studies
from smelt.workflow import paper, results_root, scaling_specs, specs, start, targets
from smelt.workflow.paths import GENERATED, Paths
from smelt.workflow.resources import Requests
from smelt.workflow.job_specs import Specs

studies.use_this_interpreter()

try:
    STUDY = studies.read(studies.find(studies.chosen(config), Path(workflow.basedir) / "config"))
    results_root.check_root(STUDY)
    PATHS = Paths(STUDY, Path(workflow.basedir), os.environ.get("SMELT_CACHE", "cache"))
    PATHS.check()
except UserError as error:
    sys.exit(f"error: {error}")

SPECS = Specs(STUDY)
REQUESTS = Requests(STUDY, PATHS)


pathvars:
    **PATHS.pathvars,


wildcard_constraints:
    part="all_endpoints|last_endpoint",
    run=PATHS.run_pattern,
    stream=r"(stable|decay)(-seed[1-9]\d*)?",
    shard=r"\d{5}",
    branch=r"\d+",
