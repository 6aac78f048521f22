"""Evaluation: the held-out loss of the endpoints of a run, by document.

In: results/training/RUN/branch-N.safetensors, results/corpus/heldout.parquet.
Out: results/evaluation/RUN/losses.parquet, one row for each endpoint and segment.
"""


rule evaluate:
    """Score all endpoints of one run on the held-out sample."""
    input:
        models=models(),
        heldout=f"{RESULTS}/corpus/heldout.parquet",
    output:
        f"{RESULTS}/evaluation/{{run}}/losses.parquet",
    log:
        f"{RESULTS}/logs/evaluation/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/{{run}}.tsv"
    params:
        spec=spec("evaluation", ["precision"]),
        code=fingerprint("smelt.evaluation.scoring.heldout_loss"),
    threads: 1
    resources:
        mem_mb=1500,
        runtime=60,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.scoring.heldout_loss --spec {params.spec:q} --models {input.models:q}"
        " --heldout {input.heldout:q} --out {output:q} > {log:q} 2>&1"
