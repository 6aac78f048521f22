"""Reporting: what a person reads.

In: results/scaling/*.parquet, results/training/RUN/log.parquet.
Out: results/tables/{ce_gain,coefficients,allocation,endpoints}.{csv,parquet} and
results/figures/{loss_by_compute,reducible_loss,frontiers,training_curves}.{pdf,png}; in a tuning study
tables/learning_rate.{csv,parquet} and figures/learning_rate.{pdf,png} in place of the others.
"""

# A tuning study answers another question than a grid: its endpoints differ in rate, and no surface fits them.
TABLES = ["learning_rate"] if TUNING else ["ce_gain", "coefficients", "allocation", "endpoints"]
FIGURES = ["learning_rate"] if TUNING else ["loss_by_compute", "reducible_loss", "frontiers"]


localrules:
    tables,
    figures,


rule tables:
    """All tables of the study."""
    input:
        expand(f"{RESULTS}/tables/{{name}}.csv", name=[*TABLES, "budgets", "corpus", "streams"]),


rule figures:
    """All figures, as PDF and PNG."""
    input:
        expand(f"{RESULTS}/figures/{{name}}.{{kind}}", name=[*FIGURES, "training_curves"], kind=["pdf", "png"]),


rule scaling_tables:
    """The scaling stage's artifacts as CSV, with the same rows as Parquet beside."""
    input:
        expand(f"{RESULTS}/scaling/{{name}}.parquet", name=TABLES),
    output:
        csv=expand(f"{RESULTS}/tables/{{name}}.csv", name=TABLES),
        parquet=expand(f"{RESULTS}/tables/{{name}}.parquet", name=TABLES),
    log:
        f"{RESULTS}/logs/reporting/scaling_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/scaling_tables.tsv"
    params:
        code=fingerprint("smelt.reporting.tables"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.tables --artifacts {input:q} --csv {output.csv:q} > {log:q} 2>&1"


rule scaling_figures:
    """Loss by compute, reducible loss and frontiers."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        residuals=f"{RESULTS}/scaling/residuals.parquet",
        frontier=f"{RESULTS}/scaling/frontier.parquet",
    output:
        loss_by_compute=expand(f"{RESULTS}/figures/loss_by_compute.{{kind}}", kind=["pdf", "png"]),
        reducible_loss=expand(f"{RESULTS}/figures/reducible_loss.{{kind}}", kind=["pdf", "png"]),
        frontiers=expand(f"{RESULTS}/figures/frontiers.{{kind}}", kind=["pdf", "png"]),
    log:
        f"{RESULTS}/logs/reporting/scaling_figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/scaling_figures.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.scaling_figures"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.scaling_figures --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --coefficients {input.coefficients:q}"
        " --residuals {input.residuals:q} --frontier {input.frontier:q}"
        " --loss-by-compute {output.loss_by_compute:q} --reducible-loss {output.reducible_loss:q}"
        " --frontiers {output.frontiers:q} > {log:q} 2>&1"


rule training_curves:
    """Training loss of the stable phase of every run."""
    input:
        logs=logs_of_training(),
    output:
        expand(f"{RESULTS}/figures/training_curves.{{kind}}", kind=["pdf", "png"]),
    log:
        f"{RESULTS}/logs/reporting/training_curves.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/training_curves.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.training_curves"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.training_curves --spec {params.spec:q} --logs {input.logs:q}"
        " --out {output:q} > {log:q} 2>&1"


rule learning_rate:
    """Held-out loss against the learning rate (tuning studies)."""
    input:
        rates=f"{RESULTS}/scaling/learning_rate.parquet",
    output:
        expand(f"{RESULTS}/figures/learning_rate.{{kind}}", kind=["pdf", "png"]),
    log:
        f"{RESULTS}/logs/reporting/learning_rate.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/learning_rate.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.learning_rate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.learning_rate --spec {params.spec:q} --rates {input.rates:q}"
        " --out {output:q} > {log:q} 2>&1"
