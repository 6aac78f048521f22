"""Training: one job a run, the stable phase and its decay branches.

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet.
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
