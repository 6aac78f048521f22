"""Evaluation: the held-out loss of the endpoints of a run, by document, and their scores on downstream tasks.

In: results/training/RUN/branch-N.safetensors, results/corpus/heldout.parquet, results/evaluation/requests_SET.parquet.
Out: results/evaluation/RUN/losses.parquet, one row for each endpoint and segment, and scores.parquet, one row for each
endpoint, request and choice. A killed job of scores resumes from results/state/evaluation/RUN, where scores stay for a
larger choice of items.
"""


rule heldout_loss:
    """Score all endpoints of one run on the held-out sample."""
    input:
        models=PATHS.models,
        heldout="<results>/corpus/heldout.parquet",
    output:
        "<results>/evaluation/{run}/losses.parquet",
    log:
        "<logs>/evaluation/{run}.log",
    benchmark:
        "<benchmarks>/evaluation/{run}.tsv"
    params:
        spec=SPECS.of(specs.evaluation),
        code=fingerprint("smelt.evaluation.scoring.heldout_loss"),
    threads: 1
    resources:
        mem_mb=1500,
        runtime=60,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.scoring.heldout_loss --spec {params.spec:q} --models {input.models:q}"
        " --heldout {input.heldout:q} --out {output:q} > {log:q} 2>&1"


rule score:
    """Score the endpoints of one run on the requests: all of them on every, the last one on final."""
    input:
        models=PATHS.models,
        all_endpoints=PATHS.requests("all_endpoints"),
        last_endpoint=PATHS.requests("last_endpoint"),
    output:
        "<results>/evaluation/{run}/scores.parquet",
    log:
        "<logs>/evaluation/{run}_scores.log",
    benchmark:
        "<benchmarks>/evaluation/{run}_scores.tsv"
    params:
        spec=SPECS.of(specs.scoring),
        code=fingerprint("smelt.evaluation.scoring.score"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
        # A resource and no parameter: where scores are kept decides none of them.
        state=REQUESTS.state("evaluation/{run}"),
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.scoring.score --spec {params.spec:q} --models {input.models:q}"
        " --all-endpoints {input.all_endpoints:q} --last-endpoint {input.last_endpoint:q} --state {resources.state:q} --out {output:q} > {log:q} 2>&1"
