"""Scaling, of studies that train: what is read off the losses of their runs.

In: results/evaluation/RUN/losses.parquet, the held-out losses of the endpoints of every run.
Out: results/scaling/: endpoints.parquet, one row a decayed model; source_losses.parquet and length_losses.parquet, its
loss by source and by length of document; subsets.parquet (gains on parts of the text) and length.parquet (gains by
length); in a tuning study learning_rate.parquet; in a study of ablations one table a sweep.
"""


rule endpoints:
    """Collect the losses of all runs as one row for each endpoint."""
    input:
        losses=evaluated(),
    output:
        f"{RESULTS}/scaling/endpoints.parquet",
    log:
        f"{RESULTS}/logs/scaling/endpoints.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/endpoints.tsv"
    params:
        spec=job(jobs.endpoints),
        code=fingerprint("smelt.scaling.endpoints.collect"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.collect --spec {params.spec:q} --losses {input.losses:q}"
        " --out {output:q} > {log:q} 2>&1"


rule breakdown:
    """Collect the losses of all runs by source and by length of document."""
    input:
        losses=evaluated(),
    output:
        sources=f"{RESULTS}/scaling/source_losses.parquet",
        lengths=f"{RESULTS}/scaling/length_losses.parquet",
    log:
        f"{RESULTS}/logs/scaling/breakdown.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/breakdown.tsv"
    params:
        spec=job(jobs.endpoints),
        code=fingerprint("smelt.scaling.endpoints.breakdown"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.breakdown --spec {params.spec:q} --losses {input.losses:q}"
        " --sources {output.sources:q} --lengths {output.lengths:q} > {log:q} 2>&1"


rule subsets:
    """Refit the levels of each surface on parts of the text and read their gains."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        draws=f"{RESULTS}/scaling/draws.parquet",
        without=f"{RESULTS}/scaling/surfaces_without.parquet",
        sources=f"{RESULTS}/scaling/source_losses.parquet",
    output:
        f"{RESULTS}/scaling/subsets.parquet",
    log:
        f"{RESULTS}/logs/scaling/subsets.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/subsets.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.subsets.subsets"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.subsets.subsets --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {input.coefficients:q} --draws {input.draws:q} --without {input.without:q}"
        " --sources {input.sources:q} --out {output:q} > {log:q} 2>&1"


rule length:
    """Compare the gains on short and on long documents for three kinds of pairs."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        lengths=f"{RESULTS}/scaling/length_losses.parquet",
    output:
        f"{RESULTS}/scaling/length.parquet",
    log:
        f"{RESULTS}/logs/scaling/length.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/length.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.subsets.length"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.subsets.length --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --lengths {input.lengths:q} --out {output:q} > {log:q} 2>&1"


rule rates:
    """Find each architecture's learning rate in a study that sweeps it."""
    input:
        losses=evaluated(),
    output:
        f"{RESULTS}/scaling/learning_rate.parquet",
    log:
        f"{RESULTS}/logs/scaling/rates.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/rates.tsv"
    params:
        spec=job(jobs.rates),
        code=fingerprint("smelt.scaling.ablations.learning_rate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.ablations.learning_rate --spec {params.spec:q} --losses {input.losses:q}"
        " --out {output:q} > {log:q} 2>&1"


rule sweeps:
    """Compare the architectures of each ablation with its reference, seed by seed."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
    output:
        expand(f"{RESULTS}/scaling/{{name}}.parquet", name=SWEEPS),
    log:
        f"{RESULTS}/logs/scaling/sweeps.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/sweeps.tsv"
    params:
        spec=job(jobs.sweeps),
        code=fingerprint("smelt.scaling.ablations.ablations"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.ablations.ablations --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --out {output:q} > {log:q} 2>&1"
