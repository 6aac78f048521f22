"""Reporting: the figures that a person sees, as PDF, SVG and PNG.

In: artifacts of training, evaluation and scaling.
Out: results/figures/NAME.{pdf,svg,png}.
"""


rule training_curves:
    """Training loss of the stable phase of every run."""
    input:
        logs=PATHS.of_runs("training/{run}/log.parquet"),
    output:
        expand("<results>/figures/training_curves.{kind}", kind=targets.KINDS),
    log:
        "<logs>/reporting/training_curves.log",
    benchmark:
        "<benchmarks>/reporting/training_curves.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.training_curves"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.training_curves --spec {params.spec:q} --logs {input.logs:q}"
        " --out {output:q} > {log:q} 2>&1"


rule scaling_figures:
    """Loss by compute, surfaces with data and residuals, reducible loss, frontiers, gain against budget, iso-loss gain."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        coefficients="<results>/scaling/coefficients.parquet",
        residuals="<results>/scaling/residuals.parquet",
        frontier="<results>/scaling/frontier.parquet",
        ce_gain="<results>/scaling/ce_gain.parquet",
        gain_curve="<results>/scaling/gain_curve.parquet",
        iso_loss_gain="<results>/scaling/iso_loss_gain.parquet",
    output:
        expand("<results>/figures/{name}.{kind}", name=targets.FIGURES, kind=targets.KINDS),
    log:
        "<logs>/reporting/scaling_figures.log",
    benchmark:
        "<benchmarks>/reporting/scaling_figures.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.scaling.draw"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.scaling.draw --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --coefficients {input.coefficients:q}"
        " --residuals {input.residuals:q} --frontier {input.frontier:q}"
        " --ce-gain {input.ce_gain:q} --gain-curve {input.gain_curve:q}"
        " --iso-loss-gain {input.iso_loss_gain:q}"
        " --out {output:q} > {log:q} 2>&1"


rule subset_figures:
    """Gains by category and source, by quartile of the reference's loss and by length of document."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        coefficients="<results>/scaling/coefficients.parquet",
        subsets="<results>/scaling/subsets.parquet",
        length="<results>/scaling/length.parquet",
    output:
        expand(
            "<results>/figures/{name}.{kind}",
            name=["subsets", "quartiles", "length_profile"],
            kind=targets.KINDS,
        ),
    log:
        "<logs>/reporting/subset_figures.log",
    benchmark:
        "<benchmarks>/reporting/subset_figures.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.subsets.draw"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.subsets.draw --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --coefficients {input.coefficients:q}"
        " --subsets {input.subsets:q} --length {input.length:q}"
        " --out {output:q} > {log:q} 2>&1"


rule downstream_figure:
    """Core or its stand-in, Completion and MMLU against training FLOPs."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        core="<results>/evaluation/core.parquet",
        completion="<results>/evaluation/completion.parquet",
        mmlu="<results>/evaluation/mmlu.parquet",
    output:
        expand("<results>/figures/downstream.{kind}", kind=targets.KINDS),
    log:
        "<logs>/reporting/downstream_figure.log",
    benchmark:
        "<benchmarks>/reporting/downstream_figure.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.downstream"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.downstream --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --core {input.core:q} --completion {input.completion:q} --mmlu {input.mmlu:q} --out {output:q} > {log:q} 2>&1"


rule icl_figure:
    """Score against the number of demonstrations: on average, without Dyck, and by task."""
    input:
        sweep="<results>/evaluation/sweep.parquet",
        icl="<results>/evaluation/icl.parquet",
    output:
        expand("<results>/figures/icl.{kind}", kind=targets.KINDS),
    log:
        "<logs>/reporting/icl_figure.log",
    benchmark:
        "<benchmarks>/reporting/icl_figure.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.icl"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.icl --spec {params.spec:q} --sweep {input.sweep:q} --icl {input.icl:q}"
        " --out {output:q} > {log:q} 2>&1"


rule calibration_figure:
    """Scores against loss with the reference's curves, and mean residuals by scale."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        calibration="<results>/scaling/calibration.parquet",
        residuals="<results>/scaling/calibration_residuals.parquet",
        means="<results>/scaling/calibration_means.parquet",
    output:
        expand("<results>/figures/calibration.{kind}", kind=targets.KINDS),
    log:
        "<logs>/reporting/calibration_figure.log",
    benchmark:
        "<benchmarks>/reporting/calibration_figure.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.downstream.calibration"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.downstream.calibration --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --calibration {input.calibration:q}"
        " --residuals {input.residuals:q} --means {input.means:q}"
        " --out {output:q} > {log:q} 2>&1"


rule learning_rate_figure:
    """Held-out loss against the learning rate (tuning studies)."""
    input:
        rates="<results>/scaling/learning_rate.parquet",
    output:
        expand("<results>/figures/learning_rate.{kind}", kind=targets.KINDS),
    log:
        "<logs>/reporting/learning_rate_figure.log",
    benchmark:
        "<benchmarks>/reporting/learning_rate_figure.tsv"
    params:
        spec=SPECS.of(specs.figure),
        code=fingerprint("smelt.reporting.figures.learning_rate"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.learning_rate --spec {params.spec:q} --rates {input.rates:q}"
        " --out {output:q} > {log:q} 2>&1"


rule ablation_figures:
    """Held-out loss and its difference to the reference along the axis of each ablation."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        sweeps=expand("<results>/scaling/{name}.parquet", name=targets.ablations(STUDY)),
    output:
        expand("<results>/figures/{name}.{kind}", name=targets.ablations(STUDY), kind=targets.KINDS),
    log:
        "<logs>/reporting/ablation_figures.log",
    benchmark:
        "<benchmarks>/reporting/ablation_figures.tsv"
    params:
        spec=SPECS.of(specs.ablation_figures),
        code=fingerprint("smelt.reporting.figures.ablations"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.ablations --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --sweeps {input.sweeps:q} --out {output:q} > {log:q} 2>&1"
