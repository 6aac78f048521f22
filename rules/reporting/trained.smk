"""Reporting, of studies that train: figures of their runs, and where on the text a gain lies.

In: results/training/RUN/log.parquet, results/scaling/{endpoints,coefficients,subsets,length}.parquet; in a tuning study
results/scaling/learning_rate.parquet.
Out: results/tables/{subsets,length}.{csv,parquet} and
results/figures/{training_curves,subsets,quartiles,length_profile}.{pdf,svg,png}; in a tuning study only
figures/training_curves and learning_rate.{pdf,svg,png}, and of ablations training_curves and one figure a sweep.
"""


rule training_curves:
    """Training loss of the stable phase of every run."""
    input:
        logs=logs_of_training(),
    output:
        expand(f"{RESULTS}/figures/training_curves.{{kind}}", kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/training_curves.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/training_curves.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.training_curves"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.training_curves --spec {params.spec:q} --logs {input.logs:q}"
        " --out {output:q} > {log:q} 2>&1"


rule breakdown_tables:
    """Gains on parts of the text and by length as CSV, with the same rows as Parquet beside."""
    input:
        expand(f"{RESULTS}/scaling/{{name}}.parquet", name=["subsets", "length"]),
    output:
        csv=expand(f"{RESULTS}/tables/{{name}}.csv", name=["subsets", "length"]),
        parquet=expand(f"{RESULTS}/tables/{{name}}.parquet", name=["subsets", "length"]),
    log:
        f"{RESULTS}/logs/reporting/breakdown_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/breakdown_tables.tsv"
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


rule breakdown_figures:
    """Gains by category and source, by quartile of the reference's loss and by length of document."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        subsets=f"{RESULTS}/scaling/subsets.parquet",
        length=f"{RESULTS}/scaling/length.parquet",
    output:
        expand(
            f"{RESULTS}/figures/{{name}}.{{kind}}",
            name=["subsets", "quartiles", "length_profile"],
            kind=["pdf", "svg", "png"],
        ),
    log:
        f"{RESULTS}/logs/reporting/breakdown_figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/breakdown_figures.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.subsets.draw"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.subsets.draw --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --coefficients {input.coefficients:q}"
        " --subsets {input.subsets:q} --length {input.length:q}"
        " --out {output:q} > {log:q} 2>&1"


rule learning_rate:
    """Held-out loss against the learning rate (tuning studies)."""
    input:
        rates=f"{RESULTS}/scaling/learning_rate.parquet",
    output:
        expand(f"{RESULTS}/figures/learning_rate.{{kind}}", kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/learning_rate.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/learning_rate.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.learning_rate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.learning_rate --spec {params.spec:q} --rates {input.rates:q}"
        " --out {output:q} > {log:q} 2>&1"


rule sweep_figures:
    """Held-out loss and its difference to the reference along the axis of each ablation."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        sweeps=expand(f"{RESULTS}/scaling/{{name}}.parquet", name=SWEEPS),
    output:
        expand(f"{RESULTS}/figures/{{name}}.{{kind}}", name=SWEEPS, kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/sweep_figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/sweep_figures.tsv"
    params:
        spec=job(jobs.sweep_figures),
        code=fingerprint("smelt.reporting.figures.ablations"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.ablations --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --sweeps {input.sweeps:q} --out {output:q} > {log:q} 2>&1"
