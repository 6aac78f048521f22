"""Evaluation, of a study with downstream tasks: items, requests and scores, then what they average to.

In: results/training/RUN/branch-N.safetensors, results/corpus/{documents.parquet,tokenizer.json}, the item files of
`evaluation.data`.
Out: results/evaluation/items/desk/*.jsonl, made here; results/evaluation/requests_{all_endpoints,last_endpoint}.parquet, tokenised once
for all endpoints; results/evaluation/RUN/scores.parquet, one row a request; results/evaluation/: task_scores, core,
completion, mmlu and, of the final endpoints, sweep and icl; calibration_scores.parquet for the scaling stage.
A killed job resumes from results/state/evaluation/RUN, where scores stay for a larger choice of items.
"""


rule generated_items:
    """Make the procedural tasks of the desk suite."""
    output:
        expand(study_tasks.made(STUDY, "desk/{name}.jsonl"), name=GENERATED),
    log:
        f"{RESULTS}/logs/evaluation/generated_items.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/generated_items.tsv"
    params:
        spec=canonical_json({}),
        code=fingerprint("smelt.evaluation.tasks.generate"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.tasks.generate --spec {params.spec:q} --out {output:q} > {log:q} 2>&1"


rule last_word_items:
    """Make the last-word task of the desk suite from held-out documents."""
    input:
        documents=f"{RESULTS}/corpus/documents.parquet",
    output:
        study_tasks.made(STUDY, "desk/last_word.jsonl"),
    log:
        f"{RESULTS}/logs/evaluation/last_word_items.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/last_word_items.tsv"
    params:
        spec=canonical_json({}),
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
        tokenizer=f"{RESULTS}/corpus/tokenizer.json",
        files=list(ITEM_FILES.values()),
    output:
        f"{RESULTS}/evaluation/requests_{{part}}.parquet",
    log:
        f"{RESULTS}/logs/evaluation/requests_{{part}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/requests_{{part}}.tsv"
    params:
        spec=requests_spec,
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


rule score:
    """Score the endpoints of one run on the requests: all of them on every, the last one on final."""
    input:
        models=models(),
        all_endpoints=requests_of("all_endpoints"),
        last_endpoint=requests_of("last_endpoint"),
    output:
        f"{RESULTS}/evaluation/{{run}}/scores.parquet",
    log:
        f"{RESULTS}/logs/evaluation/{{run}}_scores.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/{{run}}_scores.tsv"
    params:
        spec=job(jobs.scoring),
        code=fingerprint("smelt.evaluation.scoring.score"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
        # A resource and no parameter: where scores are kept decides none of them.
        state=lambda wildcards: f"{STATE}/evaluation/{wildcards.run}",
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.scoring.score --spec {params.spec:q} --models {input.models:q}"
        " --all-endpoints {input.all_endpoints:q} --last-endpoint {input.last_endpoint:q} --state {resources.state:q} --out {output:q} > {log:q} 2>&1"


rule task_scores:
    """Average the requests of all runs to one row an endpoint, task, number of demonstrations and seed."""
    input:
        scores=scores(),
    output:
        f"{RESULTS}/evaluation/task_scores.parquet",
    log:
        f"{RESULTS}/logs/evaluation/task_scores.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/task_scores.tsv"
    params:
        spec=job(jobs.task_scores),
        code=fingerprint("smelt.evaluation.metrics.task_scores"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.metrics.task_scores --spec {params.spec:q} --scores {input.scores:q}"
        " --out {output:q} > {log:q} 2>&1"


rule core:
    """Core, Completion and MMLU of every endpoint, and the scores that are calibrated against its loss."""
    input:
        task_scores=f"{RESULTS}/evaluation/task_scores.parquet",
    output:
        core=f"{RESULTS}/evaluation/core.parquet",
        completion=f"{RESULTS}/evaluation/completion.parquet",
        mmlu=f"{RESULTS}/evaluation/mmlu.parquet",
        scores=f"{RESULTS}/evaluation/calibration_scores.parquet",
    log:
        f"{RESULTS}/logs/evaluation/core.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/core.tsv"
    params:
        spec=job(jobs.task_scores),
        code=fingerprint("smelt.evaluation.metrics.core"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.metrics.core --spec {params.spec:q} --task-scores {input.task_scores:q}"
        " --core {output.core:q} --completion {output.completion:q} --mmlu {output.mmlu:q}"
        " --scores {output.scores:q} > {log:q} 2>&1"


rule icl:
    """The in-context sweep of the final endpoints, and whether its gain at most demonstrations is real."""
    input:
        task_scores=f"{RESULTS}/evaluation/task_scores.parquet",
        scores=scores(),
    output:
        icl=f"{RESULTS}/evaluation/icl.parquet",
        sweep=f"{RESULTS}/evaluation/sweep.parquet",
    log:
        f"{RESULTS}/logs/evaluation/icl.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/icl.tsv"
    params:
        spec=job(jobs.task_scores),
        code=fingerprint("smelt.evaluation.icl.comparison"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.evaluation.icl.comparison --spec {params.spec:q} --task-scores {input.task_scores:q}"
        " --scores {input.scores:q} --out {output.icl:q} --sweep {output.sweep:q} > {log:q} 2>&1"
