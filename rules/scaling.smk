"""Scaling: endpoints to surfaces, frontiers and compute-equivalent gains, the same for every kind of study.

In: results/scaling/endpoints.parquet (one row an endpoint), from scaling/trained.smk, where the rules stand that read
the losses of trained runs, scaling/own.smk or scaling/simulated.smk.
Out: results/scaling/: coefficients.parquet (surfaces, intervals, certificates), draws.parquet (surfaces refitted on
resampled cells), surfaces_without.parquet (with each cell left out), residuals.parquet, ce_gain.parquet,
allocation.parquet, frontier.parquet, gain_curve.parquet, leave_one_out.parquet, surface_pairs.parquet and
sensitivity.parquet.
"""


rule fit:
    """Fit each architecture's surface and refit all on the same resamples of the cells."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
    output:
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        draws=f"{RESULTS}/scaling/draws.parquet",
        without=f"{RESULTS}/scaling/surfaces_without.parquet",
        residuals=f"{RESULTS}/scaling/residuals.parquet",
    log:
        f"{RESULTS}/logs/scaling/fit.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/fit.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.fitting.fit"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.fitting.fit --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {output.coefficients:q} --draws {output.draws:q}"
        " --surfaces-without {output.without:q} --residuals {output.residuals:q} > {log:q} 2>&1"


rule gain:
    """Read gains, allocations, frontiers and pairs of surfaces off the surfaces and their draws."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        draws=f"{RESULTS}/scaling/draws.parquet",
        without=f"{RESULTS}/scaling/surfaces_without.parquet",
    output:
        ce_gain=f"{RESULTS}/scaling/ce_gain.parquet",
        allocation=f"{RESULTS}/scaling/allocation.parquet",
        frontier=f"{RESULTS}/scaling/frontier.parquet",
        gain_curve=f"{RESULTS}/scaling/gain_curve.parquet",
        leave_one_out=f"{RESULTS}/scaling/leave_one_out.parquet",
        surface_pairs=f"{RESULTS}/scaling/surface_pairs.parquet",
    log:
        f"{RESULTS}/logs/scaling/gain.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/gain.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.gains.gain"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gains.gain --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {input.coefficients:q} --draws {input.draws:q} --without {input.without:q}"
        " --ce-gain {output.ce_gain:q} --allocation {output.allocation:q}"
        " --frontier {output.frontier:q} --gain-curve {output.gain_curve:q}"
        " --leave-one-out {output.leave_one_out:q} --surface-pairs {output.surface_pairs:q} > {log:q} 2>&1"


rule sensitivity:
    """Refit the surfaces under other conventions of S, forms of the surface and Huber deltas."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
    output:
        f"{RESULTS}/scaling/sensitivity.parquet",
    log:
        f"{RESULTS}/logs/scaling/sensitivity.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/sensitivity.tsv"
    params:
        spec=job(jobs.scaling),
        code=fingerprint("smelt.scaling.gains.sensitivity"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gains.sensitivity --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --out {output:q} > {log:q} 2>&1"
