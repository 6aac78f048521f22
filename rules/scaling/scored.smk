"""Scaling, of a study with downstream scores: what the scores say beyond the loss.

In: results/scaling/endpoints.parquet; the table that the study names under `scores`.
Out: results/scaling/: calibration.parquet (the reference's curves from loss to score), calibration_residuals.parquet,
calibration_means.parquet (by scale and by category) and wins.parquet.
"""


rule calibration:
    """Calibrate the reference's scores against its loss, and compare the others with the curves."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        scores=STUDY.scores,
    output:
        calibration=f"{RESULTS}/scaling/calibration.parquet",
        residuals=f"{RESULTS}/scaling/calibration_residuals.parquet",
        means=f"{RESULTS}/scaling/calibration_means.parquet",
        wins=f"{RESULTS}/scaling/wins.parquet",
    log:
        f"{RESULTS}/logs/scaling/calibration.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/calibration.tsv"
    params:
        spec=job(jobs.calibration),
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
