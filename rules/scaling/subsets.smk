"""Scaling: gains on parts of the text, of studies that train.

In: results/scaling/{endpoints,coefficients,draws,surfaces_without,source_losses,length_losses}.parquet.
Out: results/scaling/subsets.parquet (by source, category and quartile) and length.parquet (by length of document).
"""


rule subsets:
    """Refit the levels of each surface on parts of the text and read their gains."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        coefficients="<results>/scaling/coefficients.parquet",
        draws="<results>/scaling/draws.parquet",
        without="<results>/scaling/surfaces_without.parquet",
        sources="<results>/scaling/source_losses.parquet",
    output:
        "<results>/scaling/subsets.parquet",
    log:
        "<logs>/scaling/subsets.log",
    benchmark:
        "<benchmarks>/scaling/subsets.tsv"
    params:
        spec=SPECS.of(scaling_specs.fits),
        code=fingerprint("smelt.scaling.subsets.subsets"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.subsets.subsets --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {input.coefficients:q} --draws {input.draws:q} --without {input.without:q}"
        " --sources {input.sources:q} --out {output:q} > {log:q} 2>&1"


rule length:
    """Compare the gains on short and on long documents for three kinds of pairs."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        lengths="<results>/scaling/length_losses.parquet",
    output:
        "<results>/scaling/length.parquet",
    log:
        "<logs>/scaling/length.log",
    benchmark:
        "<benchmarks>/scaling/length.tsv"
    params:
        spec=SPECS.of(scaling_specs.fits),
        code=fingerprint("smelt.scaling.subsets.length"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.subsets.length --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --lengths {input.lengths:q} --out {output:q} > {log:q} 2>&1"
