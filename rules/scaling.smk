"""Scaling: held-out losses to surfaces, frontiers and compute-equivalent gains.

In: results/evaluation/RUN/losses.parquet, the held-out losses of the endpoints of every run.
Out: results/scaling/: endpoints.parquet (one row a decayed model), coefficients.parquet (surfaces, intervals,
certificates), draws.parquet (surfaces refitted on resampled cells), residuals.parquet, ce_gain.parquet,
allocation.parquet and frontier.parquet; in a tuning study learning_rate.parquet.
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
        code=fingerprint("smelt.scaling.endpoints"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints --spec {params.spec:q} --losses {input.losses:q}"
        " --out {output:q} > {log:q} 2>&1"


rule fit:
    """Fit each architecture's surface and refit all on the same resamples of the cells."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
    output:
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        draws=f"{RESULTS}/scaling/draws.parquet",
        residuals=f"{RESULTS}/scaling/residuals.parquet",
    log:
        f"{RESULTS}/logs/scaling/fit.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/fit.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.fit"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.fit --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {output.coefficients:q} --draws {output.draws:q}"
        " --residuals {output.residuals:q} > {log:q} 2>&1"


rule gain:
    """Read gains, allocations and frontiers off the surfaces and their draws."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        draws=f"{RESULTS}/scaling/draws.parquet",
    output:
        ce_gain=f"{RESULTS}/scaling/ce_gain.parquet",
        allocation=f"{RESULTS}/scaling/allocation.parquet",
        frontier=f"{RESULTS}/scaling/frontier.parquet",
    log:
        f"{RESULTS}/logs/scaling/gain.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/gain.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.gain"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gain --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {input.coefficients:q} --draws {input.draws:q}"
        " --ce-gain {output.ce_gain:q} --allocation {output.allocation:q}"
        " --frontier {output.frontier:q} > {log:q} 2>&1"


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
        code=fingerprint("smelt.scaling.rates"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.rates --spec {params.spec:q} --losses {input.losses:q}"
        " --out {output:q} > {log:q} 2>&1"
