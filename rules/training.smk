"""Training: one job a run, the stable phase and its decay branches.

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet.
On request, since it differs from run to run: results/tables/costs.{parquet,csv}, what training and decoding took.
A killed job resumes from results/state/RUN, which no rule declares, so that Snakemake leaves it alone.
"""


rule train:
    """Train one run from its first step to its last decay."""
    input:
        stable=run_shards("stable"),
        decay=run_shards("decay"),
    output:
        models=models(),
        log=f"{RESULTS}/training/{{run}}/log.parquet",
    log:
        f"{RESULTS}/logs/training/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/{{run}}.tsv"
    params:
        spec=run_spec,
        code=fingerprint("smelt.training.run"),
    threads: 1
    resources:
        mem_mb=training_memory,
        runtime=240,
        # Resources and no parameters: neither decides a bit of the run, so neither may train it again.
        state=lambda wildcards: f"{RESULTS}/state/{wildcards.run}",
        checkpoint_steps=lambda wildcards: RUNS[wildcards.run].checkpoint_steps,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.training.run --spec {params.spec:q} --stable {input.stable:q} --decay {input.decay:q}"
        " --state {resources.state:q} --checkpoint-steps {resources.checkpoint_steps:q} --models {output.models:q} --log {output.log:q} > {log:q} 2>&1"


rule costs:
    """Measure training and decoding of every trained cell, its architectures alternating: time and memory."""
    input:
        shard=shards("stable", 1),
    output:
        parquet=f"{RESULTS}/tables/costs.parquet",
        csv=f"{RESULTS}/tables/costs.csv",
    log:
        f"{RESULTS}/logs/training/costs.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/costs.tsv"
    params:
        spec=job(jobs.costs),
        code=fingerprint("smelt.training.costs"),
    threads: 1
    resources:
        mem_mb=costs_memory,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.training.costs --spec {params.spec:q} --shard {input.shard:q} --out {output.parquet:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"
