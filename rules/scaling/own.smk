"""Scaling, of a study with endpoints of its own.

In: the table that the study names under `endpoints`.
Out: results/scaling/endpoints.parquet, one row an endpoint.
"""


rule own_endpoints:
    """Check the endpoints that the study gives and bring them to the form of measured ones."""
    input:
        STUDY.table,
    output:
        f"{RESULTS}/scaling/endpoints.parquet",
    log:
        f"{RESULTS}/logs/scaling/own_endpoints.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/own_endpoints.tsv"
    params:
        spec=job(jobs.own_endpoints),
        code=fingerprint("smelt.scaling.endpoints.user_table"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.user_table --spec {params.spec:q} --table {input:q} --out {output:q} > {log:q} 2>&1"
