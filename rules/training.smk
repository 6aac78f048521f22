"""Training: a run is one job, or its stable phase and each of its decays are (training.jobs).

In: packed contexts of the stable and the decay stream (corpus), the matched geometry (in the run's spec).
Out: results/training/RUN/branch-N.safetensors, one endpoint model a branch, and log.parquet, by the rules in
training/{run,branch}.smk; results/tables/runs.{parquet,csv}, whether each run went well.
On request, since it differs from run to run: results/tables/costs.{parquet,csv}, what training and decoding took.
A killed job resumes from results/state/RUN, which no rule declares, so that Snakemake leaves it alone.
"""

PEAK_FLOPS = int(CONFIG["monitoring"]["peak_flops"])


include: f"training/{CONFIG['training']['jobs']}.smk"


rule runs:
    """Whether each run went well: its losses, its experts, and the rules that it broke."""
    input:
        logs=logs_of_training(),
    output:
        parquet=f"{RESULTS}/tables/runs.parquet",
        csv=f"{RESULTS}/tables/runs.csv",
    log:
        f"{RESULTS}/logs/training/runs.log",
    benchmark:
        f"{RESULTS}/benchmarks/training/runs.tsv"
    params:
        spec=job(jobs.runs),
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
