"""Scaling: what downstream scores say beyond the loss, of studies that have some.

In: results/scaling/endpoints.parquet; the table that the study names under `scores`, or its own evaluation's.
Out: results/scaling/: calibration.parquet (the reference's curves from loss to score), calibration_residuals.parquet,
calibration_means.parquet (by scale and by category) and wins.parquet.
"""


rule calibration:
    """Calibrate the reference's scores against its loss, and compare the others with the curves."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        scores=PATHS.scores,
    output:
        calibration="<results>/scaling/calibration.parquet",
        residuals="<results>/scaling/calibration_residuals.parquet",
        means="<results>/scaling/calibration_means.parquet",
        wins="<results>/scaling/wins.parquet",
    log:
        "<logs>/scaling/calibration.log",
    benchmark:
        "<benchmarks>/scaling/calibration.tsv"
    params:
        spec=SPECS.of(scaling_specs.calibration),
        code=fingerprint("smelt.scaling.calibration.calibration"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=20,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.calibration.calibration --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --scores {input.scores:q} --calibration {output.calibration:q} --residuals {output.residuals:q}"
        " --means {output.means:q} --wins {output.wins:q} > {log:q} 2>&1"
