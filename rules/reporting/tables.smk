"""Reporting: the tables that a person reads, CSV with the same rows as Parquet beside.

In: artifacts of evaluation and scaling.
Out: results/tables/NAME.{csv,parquet}. Tables of the corpus, of budgets and of training are written by their own stages.
"""


localrules:
    tables,
    figures,


rule tables:
    """All tables of the study."""
    input:
        expand("<results>/tables/{name}.csv", name=targets.tables(STUDY)),


rule figures:
    """All figures of the study, as PDF, SVG and PNG."""
    input:
        targets.figure_files(targets.figures(STUDY)),


rule scaling_tables:
    """The scaling stage's artifacts as CSV, with the same rows as Parquet beside."""
    input:
        expand("<results>/scaling/{name}.parquet", name=targets.scaling_tables(STUDY)),
    output:
        csv=expand("<results>/tables/{name}.csv", name=targets.scaling_tables(STUDY)),
        parquet=expand("<results>/tables/{name}.parquet", name=targets.scaling_tables(STUDY)),
    log:
        "<logs>/reporting/scaling_tables.log",
    benchmark:
        "<benchmarks>/reporting/scaling_tables.tsv"
    params:
        spec=SPECS.of(specs.tables),
        code=fingerprint("smelt.reporting.tables"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.tables --spec {params.spec:q} --artifacts {input:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"


# On its own, since a gain need not wait for fits of other surfaces.
use rule scaling_tables as sensitivity_tables with:
    input:
        expand("<results>/scaling/{name}.parquet", name=["sensitivity"]),
    output:
        csv=expand("<results>/tables/{name}.csv", name=["sensitivity"]),
        parquet=expand("<results>/tables/{name}.parquet", name=["sensitivity"]),
    log:
        "<logs>/reporting/sensitivity_tables.log",
    benchmark:
        "<benchmarks>/reporting/sensitivity_tables.tsv"


use rule scaling_tables as subset_tables with:
    input:
        expand("<results>/scaling/{name}.parquet", name=targets.SUBSET_TABLES),
    output:
        csv=expand("<results>/tables/{name}.csv", name=targets.SUBSET_TABLES),
        parquet=expand("<results>/tables/{name}.parquet", name=targets.SUBSET_TABLES),
    log:
        "<logs>/reporting/subset_tables.log",
    benchmark:
        "<benchmarks>/reporting/subset_tables.tsv"


use rule scaling_tables as calibration_tables with:
    input:
        expand("<results>/scaling/{name}.parquet", name=targets.CALIBRATION_TABLES),
    output:
        csv=expand("<results>/tables/{name}.csv", name=targets.CALIBRATION_TABLES),
        parquet=expand("<results>/tables/{name}.parquet", name=targets.CALIBRATION_TABLES),
    log:
        "<logs>/reporting/calibration_tables.log",
    benchmark:
        "<benchmarks>/reporting/calibration_tables.tsv"


use rule scaling_tables as task_tables with:
    input:
        expand("<results>/evaluation/{name}.parquet", name=targets.task_tables(STUDY)),
    output:
        csv=expand("<results>/tables/{name}.csv", name=targets.task_tables(STUDY)),
        parquet=expand("<results>/tables/{name}.parquet", name=targets.task_tables(STUDY)),
    log:
        "<logs>/reporting/task_tables.log",
    benchmark:
        "<benchmarks>/reporting/task_tables.tsv"
