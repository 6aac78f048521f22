"""Scaling: differences in loss at equal training, of studies that sweep the learning rate or the architecture.

In: results/evaluation/RUN/losses.parquet or results/scaling/endpoints.parquet.
Out: results/scaling/learning_rate.parquet; one table for each ablation of the study, under its name.
"""


rule learning_rate:
    """Find each architecture's learning rate in a study that sweeps it."""
    input:
        losses=PATHS.of_runs("evaluation/{run}/losses.parquet"),
    output:
        "<results>/scaling/learning_rate.parquet",
    log:
        "<logs>/scaling/learning_rate.log",
    benchmark:
        "<benchmarks>/scaling/learning_rate.tsv"
    params:
        spec=SPECS.of(scaling_specs.rates),
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


rule ablations:
    """Compare the architectures of each ablation with its reference, seed by seed."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
    output:
        expand("<results>/scaling/{name}.parquet", name=targets.ablations(STUDY)),
    log:
        "<logs>/scaling/ablations.log",
    benchmark:
        "<benchmarks>/scaling/ablations.tsv"
    params:
        spec=SPECS.of(scaling_specs.sweeps),
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
