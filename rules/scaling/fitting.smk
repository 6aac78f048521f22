"""Scaling: endpoints to loss surfaces, the same for every kind of study.

In: results/scaling/endpoints.parquet.
Out: results/scaling/: coefficients.parquet (surfaces, intervals, certificates), draws.parquet (surfaces refitted on
resampled cells), surfaces_without.parquet (with each cell left out) and residuals.parquet.
"""


rule fit:
    """Fit each architecture's surface and refit all on the same resamples of the cells."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
    output:
        coefficients="<results>/scaling/coefficients.parquet",
        draws="<results>/scaling/draws.parquet",
        without="<results>/scaling/surfaces_without.parquet",
        residuals="<results>/scaling/residuals.parquet",
    log:
        "<logs>/scaling/fit.log",
    benchmark:
        "<benchmarks>/scaling/fit.tsv"
    params:
        spec=SPECS.of(scaling_specs.fits),
        code=fingerprint("smelt.scaling.fitting.fit"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.fitting.fit --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {output.coefficients:q} --draws {output.draws:q}"
        " --surfaces-without {output.without:q} --residuals {output.residuals:q} > {log:q} 2>&1"
