"""Training, one job a decay: the stable phase writes a checkpoint where each branch leaves.

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet, the same bytes as of one job;
stable-N.safetensors, the full checkpoints between them, which may be deleted, and the log's parts.
"""


rule stable:
    """Train the stable phase of one run."""
    input:
        stable=run_shards("stable"),
    output:
        checkpoints=expand(f"{RESULTS}/training/{{{{run}}}}/stable-{{branch}}.safetensors", branch=BRANCHES),
        log=f"{RESULTS}/training/{{run}}/stable.parquet",
    log:
        f"{RESULTS}/logs/training/{{run}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/{{run}}.tsv"
    params:
        spec=stable_spec,
        code=fingerprint("smelt.training.stable"),
    threads: processes
    resources:
        gpu=asked("stable", "gpu"),
        cpus_per_gpu=8,
        mem_mb=asked("stable", "mem_mb"),
        runtime=asked("stable", "runtime"),
        # Resources and no parameters: none of these decides a bit of the run, so none may train it again.
        state=state_of("{run}"),
        save_interval=save_interval,
        perf=perf_of("{run}"),
        flops_per_token=flops_per_token,
        peak_flops=PEAK_FLOPS,
        tensorboard=events_of("{run}"),
        launched=launched("smelt.training.stable"),
    conda:
        "../../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --stable {input.stable:q} --state {resources.state:q}"
        " --save-interval {resources.save_interval:q} --perf {resources.perf:q}"
        " --flops-per-token {resources.flops_per_token:q} --peak-flops {resources.peak_flops:q}"
        " --tensorboard={resources.tensorboard:q} --checkpoints {output.checkpoints:q} --log {output.log:q}"
        " > {log:q} 2>&1"


rule decay:
    """Decay one branch of a run from its checkpoint."""
    input:
        checkpoint=f"{RESULTS}/training/{{run}}/stable-{{branch}}.safetensors",
        decay=run_shards("decay"),
    output:
        model=f"{RESULTS}/training/{{run}}/branch-{{branch}}.safetensors",
        log=f"{RESULTS}/training/{{run}}/decay-{{branch}}.parquet",
    log:
        f"{RESULTS}/logs/training/{{run}}-branch-{{branch}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/{{run}}-branch-{{branch}}.tsv"
    params:
        spec=decay_spec,
        code=fingerprint("smelt.training.decay"),
    threads: processes
    resources:
        gpu=asked("decay", "gpu"),
        cpus_per_gpu=8,
        mem_mb=asked("decay", "mem_mb"),
        runtime=asked("decay", "runtime"),
        state=state_of("{run}-branch-{branch}"),
        save_interval=save_interval,
        perf=perf_of("{run}-branch-{branch}"),
        flops_per_token=flops_per_token,
        peak_flops=PEAK_FLOPS,
        tensorboard=events_of("{run}-branch-{branch}"),
        launched=launched("smelt.training.decay"),
    conda:
        "../../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --checkpoint {input.checkpoint:q}"
        " --decay {input.decay:q} --state {resources.state:q} --save-interval {resources.save_interval:q}"
        " --perf {resources.perf:q} --flops-per-token {resources.flops_per_token:q}"
        " --peak-flops {resources.peak_flops:q} --tensorboard={resources.tensorboard:q} --model {output.model:q}"
        " --log {output.log:q} > {log:q} 2>&1"


rule join:
    """Put the log of one run together from those of its stable phase and its decays."""
    input:
        stable=f"{RESULTS}/training/{{run}}/stable.parquet",
        decays=expand(f"{RESULTS}/training/{{{{run}}}}/decay-{{branch}}.parquet", branch=BRANCHES),
    output:
        f"{RESULTS}/training/{{run}}/log.parquet",
    log:
        f"{RESULTS}/logs/training/{{run}}-join.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/{{run}}-join.tsv"
    params:
        spec=run_spec,
        code=fingerprint("smelt.training.join"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.training.join --spec {params.spec:q} --stable {input.stable:q} --decays {input.decays:q}"
        " --out {output:q} > {log:q} 2>&1"
