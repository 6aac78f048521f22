"""Training, one job a run: the stable phase and its decays, which branch off in memory.

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet.
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
        code=fingerprint("smelt.training.train"),
    threads: processes
    resources:
        gpu=asked("run", "gpu"),
        cpus_per_gpu=8,
        mem_mb=asked("run", "mem_mb"),
        runtime=asked("run", "runtime"),
        # Resources and no parameters: none of these decides a bit of the run, so none may train it again.
        state=state_of("{run}"),
        save_interval=save_interval,
        perf=perf_of("{run}"),
        flops_per_token=flops_per_token,
        peak_flops=PEAK_FLOPS,
        tensorboard=events_of("{run}"),
        launched=launched("smelt.training.train"),
    conda:
        "../../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --stable {input.stable:q} --decay {input.decay:q}"
        " --state {resources.state:q} --save-interval {resources.save_interval:q} --perf {resources.perf:q}"
        " --flops-per-token {resources.flops_per_token:q} --peak-flops {resources.peak_flops:q}"
        " --tensorboard={resources.tensorboard:q} --models {output.models:q} --log {output.log:q} > {log:q} 2>&1"
