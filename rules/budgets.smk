"""Budgets: what each model of the study costs per token.

In: the geometries that the study resolved, as values in the spec (the matching itself happens while Snakemake
reads the study, so that a run's geometry is part of its spec).
Out: results/tables/budgets.{parquet,csv}, one row for each architecture and cell, and
results/budgets/ledger.parquet, one row for each model and part; results/tables/plan.{csv,parquet}, what each run
takes before anything is trained or fetched.
"""


rule budget_tables:
    """Count FLOPs, parameters and KV cache of every model of the study."""
    output:
        parquet="<results>/tables/budgets.parquet",
        csv="<results>/tables/budgets.csv",
        ledger="<results>/budgets/ledger.parquet",
    log:
        "<logs>/budgets/budget_tables.log",
    benchmark:
        "<benchmarks>/budgets/budget_tables.tsv"
    params:
        spec=SPECS.of(specs.budgets),
        code=fingerprint("smelt.budgets.table"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.budgets.table --spec {params.spec:q} --out-parquet {output.parquet:q}"
        " --out-csv {output.csv:q} --ledger {output.ledger:q} > {log:q} 2>&1"


rule plan:
    """Work out the tokens, FLOPs, GPU-hours, memory and storage of every run, before anything is trained."""
    output:
        csv="<results>/tables/plan.csv",
        parquet="<results>/tables/plan.parquet",
    log:
        "<logs>/budgets/plan.log",
    benchmark:
        "<benchmarks>/budgets/plan.tsv"
    params:
        spec=SPECS.of(specs.plan),
        code=fingerprint("smelt.budgets.plan"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.budgets.plan --spec {params.spec:q} --csv {output.csv:q} --parquet {output.parquet:q}"
        " > {log:q} 2>&1"
