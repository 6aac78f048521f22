"""Scaling, of a study that simulates its endpoints.

In: the table of F, S and D that the study names under `simulation`.
Out: results/scaling/endpoints.parquet, one row an endpoint, whose source says that it is simulated.
"""


rule simulated_endpoints:
    """Put losses from known surfaces on the endpoints of a table."""
    input:
        STUDY.table,
    output:
        f"{RESULTS}/scaling/endpoints.parquet",
    log:
        f"{RESULTS}/logs/scaling/simulated_endpoints.log",
    benchmark:
        f"{RESULTS}/benchmarks/scaling/simulated_endpoints.tsv"
    params:
        spec=job(jobs.simulated_endpoints),
        code=fingerprint("smelt.scaling.endpoints.simulate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.simulate --spec {params.spec:q} --table {input:q} --out {output:q} > {log:q} 2>&1"
