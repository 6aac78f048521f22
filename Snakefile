"""From real text to a compute-equivalent gain: corpus -> budgets -> training -> evaluation -> scaling -> reporting.

snakemake --cores all results/tables/ce_gain.csv
snakemake --cores all --config study=smoke          # all tables and figures of another study

A study whose endpoints are given starts at scaling. A target stands before --config.
"""

from snakemake.utils import min_version

min_version("9.0")


include: "rules/common.smk"


if TRAINS:

    include: "rules/grid.smk"
    include: "rules/corpus.smk"
    include: "rules/budgets.smk"
    include: "rules/training.smk"
    include: "rules/evaluation.smk"
    include: "rules/evaluation/data.smk"
    include: "rules/reporting/trained.smk"


if TASKS:

    include: "rules/evaluation/downstream.smk"


include: f"rules/scaling/{STUDY.kind}.smk"
include: "rules/scaling.smk"


if STUDY.scores:

    include: "rules/scaling/scored.smk"
    include: "rules/reporting/scored.smk"


include: "rules/reporting.smk"


if TASKS:

    include: "rules/reporting/downstream.smk"


rule all:
    """All tables and figures of the study."""
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,


onstart:
    before_start(workflow.cores if workflow.local_exec else None)
