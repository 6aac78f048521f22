"""Reporting: every number that the paper prints, beside the study's own.

In: config/published/results.csv, the paper's numbers; tables of the study, where its endpoints can be compared.
Out: results/tables/paper_comparison.{csv,parquet}.
"""


rule paper_comparison:
    """Every number that the paper prints, beside the study's own."""
    input:
        registry=paper.registry(),
        tables=expand("<results>/{name}", name=targets.compared_tables(STUDY)),
    output:
        csv="<results>/tables/paper_comparison.csv",
        parquet="<results>/tables/paper_comparison.parquet",
    log:
        "<logs>/reporting/paper_comparison.log",
    benchmark:
        "<benchmarks>/reporting/paper_comparison.tsv"
    params:
        spec=SPECS.of(paper.comparison),
        code=fingerprint("smelt.reporting.paper.comparison"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.paper.comparison --spec {params.spec:q} --registry {input.registry:q}"
        " --tables {input.tables:q} --csv {output.csv:q} > {log:q} 2>&1"
