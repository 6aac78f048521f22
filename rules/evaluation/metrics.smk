"""Evaluation: what the scores of all runs average to, by task, as Core, Completion and MMLU, and in context.

In: results/evaluation/RUN/scores.parquet.
Out: results/evaluation/: task_scores, core, completion, mmlu and, of the last endpoints, sweep and icl, all Parquet;
calibration_scores.parquet for the scaling stage.
"""


rule task_scores:
    """Average the requests of all runs to one row an endpoint, task, number of demonstrations and seed."""
    input:
        scores=PATHS.of_runs("evaluation/{run}/scores.parquet"),
    output:
        "<results>/evaluation/task_scores.parquet",
    log:
        "<logs>/evaluation/task_scores.log",
    benchmark:
        "<benchmarks>/evaluation/task_scores.tsv"
    params:
        spec=SPECS.of(specs.task_scores),
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
        task_scores="<results>/evaluation/task_scores.parquet",
    output:
        core="<results>/evaluation/core.parquet",
        completion="<results>/evaluation/completion.parquet",
        mmlu="<results>/evaluation/mmlu.parquet",
        scores="<results>/evaluation/calibration_scores.parquet",
    log:
        "<logs>/evaluation/core.log",
    benchmark:
        "<benchmarks>/evaluation/core.tsv"
    params:
        spec=SPECS.of(specs.task_scores),
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


rule icl_comparison:
    """The in-context sweep of the final endpoints, and whether its gain at most demonstrations is real."""
    input:
        task_scores="<results>/evaluation/task_scores.parquet",
        scores=PATHS.of_runs("evaluation/{run}/scores.parquet"),
    output:
        icl="<results>/evaluation/icl.parquet",
        sweep="<results>/evaluation/sweep.parquet",
    log:
        "<logs>/evaluation/icl_comparison.log",
    benchmark:
        "<benchmarks>/evaluation/icl_comparison.tsv"
    params:
        spec=SPECS.of(specs.task_scores),
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
