"""Reporting, of a study with downstream scores.

In: results/scaling/{endpoints,calibration,calibration_residuals,calibration_means,wins}.parquet.
Out: results/tables/{calibration,calibration_means,wins}.{csv,parquet} and results/figures/calibration.{pdf,svg,png}.
"""


rule calibration_tables:
    """Curves, mean residuals and wins as CSV, with the same rows as Parquet beside."""
    input:
        expand(f"{RESULTS}/scaling/{{name}}.parquet", name=["calibration", "calibration_means", "wins"]),
    output:
        csv=expand(f"{RESULTS}/tables/{{name}}.csv", name=["calibration", "calibration_means", "wins"]),
        parquet=expand(f"{RESULTS}/tables/{{name}}.parquet", name=["calibration", "calibration_means", "wins"]),
    log:
        f"{RESULTS}/logs/reporting/calibration_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/calibration_tables.tsv"
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


rule calibration_figure:
    """Scores against loss with the reference's curves, and mean residuals by scale."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        calibration=f"{RESULTS}/scaling/calibration.parquet",
        residuals=f"{RESULTS}/scaling/calibration_residuals.parquet",
        means=f"{RESULTS}/scaling/calibration_means.parquet",
    output:
        expand(f"{RESULTS}/figures/calibration.{{kind}}", kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/calibration_figure.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/calibration_figure.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.calibration"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.calibration --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --calibration {input.calibration:q}"
        " --residuals {input.residuals:q} --means {input.means:q}"
        " --out {output:q} > {log:q} 2>&1"
