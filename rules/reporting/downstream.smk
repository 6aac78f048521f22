"""Reporting, of a study with downstream tasks.

In: results/evaluation/{task_scores,core,completion,mmlu,icl,sweep}.parquet, results/scaling/endpoints.parquet.
Out: results/tables/{task_scores,core,completion,mmlu,icl,sweep}.{csv,parquet} and
results/figures/{downstream,icl}.{pdf,svg,png}; icl and sweep where the final endpoints are scored.
"""


rule downstream_tables:
    """Scores by task, Core, Completion, MMLU and the in-context sweep as CSV, with the same rows as Parquet beside."""
    input:
        expand(f"{RESULTS}/evaluation/{{name}}.parquet", name=TASK_TABLES),
    output:
        csv=expand(f"{RESULTS}/tables/{{name}}.csv", name=TASK_TABLES),
        parquet=expand(f"{RESULTS}/tables/{{name}}.parquet", name=TASK_TABLES),
    log:
        f"{RESULTS}/logs/reporting/downstream_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/downstream_tables.tsv"
    params:
        code=fingerprint("smelt.reporting.tables"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.tables --artifacts {input:q} --csv {output.csv:q} > {log:q} 2>&1"


rule downstream_figure:
    """Core or its stand-in, Completion and MMLU against training FLOPs."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        core=f"{RESULTS}/evaluation/core.parquet",
        completion=f"{RESULTS}/evaluation/completion.parquet",
        mmlu=f"{RESULTS}/evaluation/mmlu.parquet",
    output:
        expand(f"{RESULTS}/figures/downstream.{{kind}}", kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/downstream_figure.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/downstream_figure.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.downstream"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.downstream --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --core {input.core:q} --completion {input.completion:q} --mmlu {input.mmlu:q} --out {output:q} > {log:q} 2>&1"


rule icl_figure:
    """Score against the number of demonstrations: on average, without Dyck, and by task."""
    input:
        sweep=f"{RESULTS}/evaluation/sweep.parquet",
        icl=f"{RESULTS}/evaluation/icl.parquet",
    output:
        expand(f"{RESULTS}/figures/icl.{{kind}}", kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/icl_figure.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/icl_figure.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.icl"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.icl --spec {params.spec:q} --sweep {input.sweep:q} --icl {input.icl:q}"
        " --out {output:q} > {log:q} 2>&1"
