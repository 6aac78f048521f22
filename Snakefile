"""From real text to a compute efficiency gain: corpus -> budgets -> training -> evaluation -> scaling -> reporting.

snakemake --cores all results/tables/ce_gain.csv results/tables/iso_loss_gain.csv
snakemake --cores all --config study=smoke          # all tables and figures of another study

All rules are there for every study; its targets decide which of them run. A target stands before --config.
"""

from snakemake.utils import min_version

min_version("9.0")


include: "rules/common.smk"
include: "rules/corpus.smk"
include: "rules/budgets.smk"
include: "rules/training.smk"
include: "rules/evaluation/scoring.smk"
include: "rules/evaluation/tasks.smk"
include: "rules/evaluation/metrics.smk"
include: "rules/scaling/endpoints.smk"
include: "rules/scaling/fitting.smk"
include: "rules/scaling/gains.smk"
include: "rules/scaling/subsets.smk"
include: "rules/scaling/calibration.smk"
include: "rules/scaling/ablations.smk"
include: "rules/reporting/tables.smk"
include: "rules/reporting/figures.smk"
include: "rules/reporting/paper.smk"


rule all:
    """All tables and figures of the study."""
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,


onstart:
    waiting = [start.Waiting(job.rule.name, dict(job.wildcards_dict)) for job in workflow.dag.needrun_jobs()]
    start.before(STUDY, PATHS, waiting, workflow.cores if workflow.local_exec else None)
