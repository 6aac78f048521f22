"""Training: a run is one job, or one for its stable phase and one for each decay branch (training.jobs).

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet, the same bytes in both
forms; with a job for each branch also stable-N.safetensors, the full checkpoints between them, which may be deleted,
and the log's parts; results/tables/runs.{parquet,csv}, whether each run went well.
On request, since it differs from run to run: results/tables/costs.{parquet,csv}, what training and decoding took.
A killed job resumes from results/state/RUN, which no rule declares, so that Snakemake leaves it alone.
"""


rule train:
    """Train one run from its first step to its last decay."""
    input:
        stable=PATHS.run_shards("stable"),
        decay=PATHS.run_shards("decay"),
    output:
        models=expand("<run_jobs>/{{run}}/branch-{branch}.safetensors", branch=PATHS.branches),
        log="<run_jobs>/{run}/log.parquet",
    log:
        "<logs>/training/{run}.log",
    benchmark:
        "<benchmarks>/training/{run}.tsv"
    params:
        spec=SPECS.of_run(specs.training),
        code=fingerprint("smelt.training.train"),
    threads: REQUESTS.processes
    resources:
        gpu=REQUESTS.training("run", "gpu"),
        cpus_per_gpu=8,
        mem_mb=REQUESTS.training("run", "mem_mb"),
        runtime=REQUESTS.training("run", "runtime"),
        # Resources and no parameters: none of these decides a bit of the run, so none may train it again.
        state=REQUESTS.state("{run}"),
        save_interval=REQUESTS.save_interval,
        perf=REQUESTS.perf("{run}"),
        flops_per_token=REQUESTS.flops_per_token,
        peak_flops=REQUESTS.peak_flops,
        tensorboard=REQUESTS.events("{run}"),
        launched=REQUESTS.launched("smelt.training.train"),
    conda:
        "../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --stable {input.stable:q} --decay {input.decay:q}"
        " --state {resources.state:q} --save-interval {resources.save_interval:q} --perf {resources.perf:q}"
        " --flops-per-token {resources.flops_per_token:q} --peak-flops {resources.peak_flops:q}"
        " --tensorboard={resources.tensorboard:q} --models {output.models:q} --log {output.log:q} > {log:q} 2>&1"


rule stable:
    """Train the stable phase of one run."""
    input:
        stable=PATHS.run_shards("stable"),
    output:
        checkpoints=expand("<branch_jobs>/{{run}}/stable-{branch}.safetensors", branch=PATHS.branches),
        log="<branch_jobs>/{run}/stable.parquet",
    log:
        "<logs>/training/{run}.log",
    benchmark:
        "<benchmarks>/training/{run}.tsv"
    params:
        spec=SPECS.of_run(specs.stable),
        code=fingerprint("smelt.training.stable"),
    threads: REQUESTS.processes
    resources:
        gpu=REQUESTS.training("stable", "gpu"),
        cpus_per_gpu=8,
        mem_mb=REQUESTS.training("stable", "mem_mb"),
        runtime=REQUESTS.training("stable", "runtime"),
        # Resources and no parameters: none of these decides a bit of the run, so none may train it again.
        state=REQUESTS.state("{run}"),
        save_interval=REQUESTS.save_interval,
        perf=REQUESTS.perf("{run}"),
        flops_per_token=REQUESTS.flops_per_token,
        peak_flops=REQUESTS.peak_flops,
        tensorboard=REQUESTS.events("{run}"),
        launched=REQUESTS.launched("smelt.training.stable"),
    conda:
        "../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --stable {input.stable:q} --state {resources.state:q}"
        " --save-interval {resources.save_interval:q} --perf {resources.perf:q}"
        " --flops-per-token {resources.flops_per_token:q} --peak-flops {resources.peak_flops:q}"
        " --tensorboard={resources.tensorboard:q} --checkpoints {output.checkpoints:q} --log {output.log:q}"
        " > {log:q} 2>&1"


rule decay:
    """Decay one branch of a run from its checkpoint."""
    input:
        checkpoint="<branch_jobs>/{run}/stable-{branch}.safetensors",
        decay=PATHS.run_shards("decay"),
    output:
        model="<branch_jobs>/{run}/branch-{branch}.safetensors",
        log="<branch_jobs>/{run}/decay-{branch}.parquet",
    log:
        "<logs>/training/{run}-branch-{branch}.log",
    benchmark:
        "<benchmarks>/training/{run}-branch-{branch}.tsv"
    params:
        spec=SPECS.of_branch,
        code=fingerprint("smelt.training.decay"),
    threads: REQUESTS.processes
    resources:
        gpu=REQUESTS.training("decay", "gpu"),
        cpus_per_gpu=8,
        mem_mb=REQUESTS.training("decay", "mem_mb"),
        runtime=REQUESTS.training("decay", "runtime"),
        state=REQUESTS.state("{run}-branch-{branch}"),
        save_interval=REQUESTS.save_interval,
        perf=REQUESTS.perf("{run}-branch-{branch}"),
        flops_per_token=REQUESTS.flops_per_token,
        peak_flops=REQUESTS.peak_flops,
        tensorboard=REQUESTS.events("{run}-branch-{branch}"),
        launched=REQUESTS.launched("smelt.training.decay"),
    conda:
        "../envs/smelt.yaml"
    shell:
        "{resources.launched} --spec {params.spec:q} --checkpoint {input.checkpoint:q}"
        " --decay {input.decay:q} --state {resources.state:q} --save-interval {resources.save_interval:q}"
        " --perf {resources.perf:q} --flops-per-token {resources.flops_per_token:q}"
        " --peak-flops {resources.peak_flops:q} --tensorboard={resources.tensorboard:q} --model {output.model:q}"
        " --log {output.log:q} > {log:q} 2>&1"


rule join:
    """Put the log of one run together from those of its stable phase and its decays."""
    input:
        stable="<branch_jobs>/{run}/stable.parquet",
        decays=expand("<branch_jobs>/{{run}}/decay-{branch}.parquet", branch=PATHS.branches),
    output:
        "<branch_jobs>/{run}/log.parquet",
    log:
        "<logs>/training/{run}-join.log",
    benchmark:
        "<benchmarks>/training/{run}-join.tsv"
    params:
        spec=SPECS.of_run(specs.training),
        code=fingerprint("smelt.training.join"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.training.join --spec {params.spec:q} --stable {input.stable:q} --decays {input.decays:q}"
        " --out {output:q} > {log:q} 2>&1"


rule health:
    """Whether each run went well: its losses, its experts, and the rules that it broke."""
    input:
        logs=PATHS.of_runs("training/{run}/log.parquet"),
    output:
        parquet="<results>/tables/runs.parquet",
        csv="<results>/tables/runs.csv",
    log:
        "<logs>/training/health.log",
    benchmark:
        "<benchmarks>/training/health.tsv"
    params:
        spec=SPECS.of(specs.runs),
        code=fingerprint("smelt.training.health"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.training.health --spec {params.spec:q} --logs {input.logs:q} --out {output.parquet:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"


rule costs:
    """Measure training and decoding of every trained cell, its architectures alternating: time and memory."""
    input:
        shard=lambda wildcards: PATHS.shards("stable", 1),
    output:
        parquet="<results>/tables/costs.parquet",
        csv="<results>/tables/costs.csv",
    log:
        "<logs>/training/costs.log",
    benchmark:
        "<benchmarks>/training/costs.tsv"
    params:
        spec=SPECS.of(specs.costs),
        code=fingerprint("smelt.training.costs"),
    threads: 1
    resources:
        mem_mb=REQUESTS.costs_memory,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.training.costs --spec {params.spec:q} --shard {input.shard:q} --out {output.parquet:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"
