"""Reporting: what a person reads.

In: results/scaling/*.parquet. Rules that read what training wrote stand in reporting/trained.smk.
Out: results/tables/{ce_gain,coefficients,allocation,endpoints,leave_one_out,surface_pairs,sensitivity}.{csv,parquet} and
results/figures/{loss_by_compute,surfaces,reducible_loss,frontiers,gain_curve}.{pdf,svg,png}; in a tuning study
tables/learning_rate.{csv,parquet} in place of these tables, in a study of ablations tables/SWEEP.{csv,parquet} and
figures/SWEEP.{pdf,svg,png} of each. Of the paper's study, and of those simulated from its published surfaces, also
tables/paper_comparison.{csv,parquet}.
"""

# A tuning study answers another question than a grid: its endpoints differ in rate, and no surface fits them.
ANSWERS = ["ce_gain", "coefficients", "allocation", "endpoints", "leave_one_out", "surface_pairs"]
# Nor of a study of ablations: its architectures differ, and each has one endpoint.
TABLES = ["learning_rate"] if TUNING else [*SWEEPS, "endpoints"] if SWEEPS else ANSWERS
SCALING_FIGURES = ["loss_by_compute", "surfaces", "reducible_loss", "frontiers", "gain_curve"]
FIGURES = ["learning_rate"] if TUNING else SWEEPS or SCALING_FIGURES
FITTED = not TUNING and not SWEEPS
OTHER_CHOICES = ["sensitivity"] if FITTED else []
# Of studies that train, beside them.
TRAINED_TABLES = ["plan", "budgets", "corpus", "streams", "runs"] if TRAINS else []
TRAINED_FIGURES = ["training_curves"] if TRAINS else []
# Of those, where on the text a gain lies.
TRAINED_TABLES += ["subsets", "length"] if TRAINS and FITTED else []
TRAINED_FIGURES += ["subsets", "quartiles", "length_profile"] if TRAINS and FITTED else []
# Of those that score their endpoints on tasks, in reporting/downstream.smk; the sweep needs the final ones.
FINAL = TASKS and "last_endpoint" in CONFIG["evaluation"]
TASK_TABLES = ["task_scores", "core", "completion", "mmlu"] if TASKS else []
TASK_TABLES += ["icl", "sweep"] if FINAL else []
TASK_FIGURES = ["downstream", *(["icl"] if FINAL else [])] if TASKS else []
# Of studies with downstream scores, in reporting/scored.smk.
SCORED_TABLES = ["calibration", "calibration_means", "wins"] if STUDY.scores else []
SCORED_FIGURES = ["calibration"] if STUDY.scores else []
# Of the paper's own study and of those simulated from its published surfaces; any other may ask for it and learn nothing.
WHOSE = jobs.paper_comparison(STUDY).get("endpoints")
PAPER_TABLES = ["paper_comparison"] if WHOSE else []
ANSWERED = ["ce_gain", "coefficients", "allocation", "endpoints", "surface_pairs"] if WHOSE else []
COMPARED = expand(f"{RESULTS}/scaling/{{name}}.parquet", name=ANSWERED)
COMPARED += [f"{RESULTS}/tables/budgets.parquet"] if WHOSE == "measured" else []


localrules:
    tables,
    figures,


rule tables:
    """All tables of the study."""
    input:
        expand(
            f"{RESULTS}/tables/{{name}}.csv",
            name=[*TABLES, *OTHER_CHOICES, *TRAINED_TABLES, *TASK_TABLES, *SCORED_TABLES, *PAPER_TABLES],
        ),


rule figures:
    """All figures, as PDF, SVG and PNG."""
    input:
        expand(
            f"{RESULTS}/figures/{{name}}.{{kind}}",
            name=[*FIGURES, *TRAINED_FIGURES, *TASK_FIGURES, *SCORED_FIGURES],
            kind=["pdf", "svg", "png"],
        ),


rule scaling_tables:
    """The scaling stage's artifacts as CSV, with the same rows as Parquet beside."""
    input:
        expand(f"{RESULTS}/scaling/{{name}}.parquet", name=TABLES),
    output:
        csv=expand(f"{RESULTS}/tables/{{name}}.csv", name=TABLES),
        parquet=expand(f"{RESULTS}/tables/{{name}}.parquet", name=TABLES),
    log:
        f"{RESULTS}/logs/reporting/scaling_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/scaling_tables.tsv"
    params:
        spec=job(jobs.tables),
        code=fingerprint("smelt.reporting.tables"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.tables --spec {params.spec:q} --artifacts {input:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"


rule sensitivity_table:
    """The gain under other choices as CSV; on its own, since a gain need not wait for fits of other surfaces."""
    input:
        f"{RESULTS}/scaling/sensitivity.parquet",
    output:
        csv=f"{RESULTS}/tables/sensitivity.csv",
        parquet=f"{RESULTS}/tables/sensitivity.parquet",
    log:
        f"{RESULTS}/logs/reporting/sensitivity_table.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/sensitivity_table.tsv"
    params:
        spec=job(jobs.tables),
        code=fingerprint("smelt.reporting.tables"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.tables --spec {params.spec:q} --artifacts {input:q}"
        " --csv {output.csv:q} > {log:q} 2>&1"


rule paper_comparison:
    """Every number that the paper prints, beside the study's own."""
    input:
        registry=jobs.paper_numbers(),
        tables=COMPARED,
    output:
        csv=f"{RESULTS}/tables/paper_comparison.csv",
        parquet=f"{RESULTS}/tables/paper_comparison.parquet",
    log:
        f"{RESULTS}/logs/reporting/paper_comparison.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/paper_comparison.tsv"
    params:
        spec=job(jobs.paper_comparison),
        code=fingerprint("smelt.reporting.paper.comparison"),
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.paper.comparison --spec {params.spec:q} --registry {input.registry:q}"
        " --tables {input.tables:q} --csv {output.csv:q} > {log:q} 2>&1"


rule scaling_figures:
    """Loss by compute, surfaces with data and residuals, reducible loss, frontiers and gain against budget."""
    input:
        endpoints=f"{RESULTS}/scaling/endpoints.parquet",
        coefficients=f"{RESULTS}/scaling/coefficients.parquet",
        residuals=f"{RESULTS}/scaling/residuals.parquet",
        frontier=f"{RESULTS}/scaling/frontier.parquet",
        ce_gain=f"{RESULTS}/scaling/ce_gain.parquet",
        gain_curve=f"{RESULTS}/scaling/gain_curve.parquet",
    output:
        expand(f"{RESULTS}/figures/{{name}}.{{kind}}", name=SCALING_FIGURES, kind=["pdf", "svg", "png"]),
    log:
        f"{RESULTS}/logs/reporting/scaling_figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/reporting/scaling_figures.tsv"
    params:
        spec=job(jobs.figure),
        code=fingerprint("smelt.reporting.figures.scaling.draw"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.reporting.figures.scaling.draw --spec {params.spec:q}"
        " --endpoints {input.endpoints:q} --coefficients {input.coefficients:q}"
        " --residuals {input.residuals:q} --frontier {input.frontier:q}"
        " --ce-gain {input.ce_gain:q} --gain-curve {input.gain_curve:q}"
        " --out {output:q} > {log:q} 2>&1"
