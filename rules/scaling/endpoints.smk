"""Scaling: the table of endpoints, one row a decayed model, from trained runs, a user's file or known surfaces.

In: results/evaluation/RUN/losses.parquet of every run; or the table that the study names under `endpoints`; or the table
of F, S and D that it names under `simulation`.
Out: results/scaling/endpoints.parquet, from whichever of the three the study has; of trained runs also
source_losses.parquet and length_losses.parquet, the loss by source and by length of document.
"""


rule collect:
    """Collect the losses of all runs as one row for each endpoint."""
    input:
        losses=PATHS.of_runs("evaluation/{run}/losses.parquet"),
    output:
        "<collect>/endpoints.parquet",
    log:
        "<logs>/scaling/collect.log",
    benchmark:
        "<benchmarks>/scaling/collect.tsv"
    params:
        spec=SPECS.of(scaling_specs.endpoints),
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


rule user_table:
    """Check the endpoints that the study gives and bring them to the form of measured ones."""
    input:
        PATHS.table,
    output:
        "<user_table>/endpoints.parquet",
    log:
        "<logs>/scaling/user_table.log",
    benchmark:
        "<benchmarks>/scaling/user_table.tsv"
    params:
        spec=SPECS.of(scaling_specs.own_endpoints),
        code=fingerprint("smelt.scaling.endpoints.user_table"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.user_table --spec {params.spec:q} --table {input:q} --out {output:q} > {log:q} 2>&1"


rule simulate:
    """Put losses from known surfaces on the endpoints of a table."""
    input:
        PATHS.table,
    output:
        "<simulate>/endpoints.parquet",
    log:
        "<logs>/scaling/simulate.log",
    benchmark:
        "<benchmarks>/scaling/simulate.tsv"
    params:
        spec=SPECS.of(scaling_specs.simulated_endpoints),
        code=fingerprint("smelt.scaling.endpoints.simulate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.endpoints.simulate --spec {params.spec:q} --table {input:q} --out {output:q} > {log:q} 2>&1"


rule breakdown:
    """Collect the losses of all runs by source and by length of document."""
    input:
        losses=PATHS.of_runs("evaluation/{run}/losses.parquet"),
    output:
        sources="<results>/scaling/source_losses.parquet",
        lengths="<results>/scaling/length_losses.parquet",
    log:
        "<logs>/scaling/breakdown.log",
    benchmark:
        "<benchmarks>/scaling/breakdown.tsv"
    params:
        spec=SPECS.of(scaling_specs.endpoints),
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
