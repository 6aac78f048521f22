"""Scaling: surfaces to compute efficiency gains, allocations and frontiers, with intervals; endpoints to iso-loss gains.

In: results/scaling/{endpoints,coefficients,draws,surfaces_without}.parquet.
Out: results/scaling/{ce_gain,allocation,frontier,gain_curve,leave_one_out,surface_pairs,sensitivity,iso_loss_gain}.parquet.
"""


rule gain:
    """Read gains, allocations, frontiers and pairs of surfaces off the surfaces and their draws."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
        coefficients="<results>/scaling/coefficients.parquet",
        draws="<results>/scaling/draws.parquet",
        without="<results>/scaling/surfaces_without.parquet",
    output:
        ce_gain="<results>/scaling/ce_gain.parquet",
        allocation="<results>/scaling/allocation.parquet",
        frontier="<results>/scaling/frontier.parquet",
        gain_curve="<results>/scaling/gain_curve.parquet",
        leave_one_out="<results>/scaling/leave_one_out.parquet",
        surface_pairs="<results>/scaling/surface_pairs.parquet",
    log:
        "<logs>/scaling/gain.log",
    benchmark:
        "<benchmarks>/scaling/gain.tsv"
    params:
        spec=SPECS.of(scaling_specs.fits),
        code=fingerprint("smelt.scaling.gains.gain"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gains.gain --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --coefficients {input.coefficients:q} --draws {input.draws:q} --without {input.without:q}"
        " --ce-gain {output.ce_gain:q} --allocation {output.allocation:q}"
        " --frontier {output.frontier:q} --gain-curve {output.gain_curve:q}"
        " --leave-one-out {output.leave_one_out:q} --surface-pairs {output.surface_pairs:q} > {log:q} 2>&1"


rule iso_loss_gain:
    """Read the compute that each model took to the loss of its partner, without a fit."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
    output:
        "<results>/scaling/iso_loss_gain.parquet",
    log:
        "<logs>/scaling/iso_loss_gain.log",
    benchmark:
        "<benchmarks>/scaling/iso_loss_gain.tsv"
    params:
        spec=SPECS.of(scaling_specs.iso_loss_gain),
        code=fingerprint("smelt.scaling.gains.iso_loss_gain"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gains.iso_loss_gain --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --out {output:q} > {log:q} 2>&1"


rule sensitivity:
    """Refit the surfaces under other conventions of S, forms of the surface and Huber deltas."""
    input:
        endpoints="<results>/scaling/endpoints.parquet",
    output:
        "<results>/scaling/sensitivity.parquet",
    log:
        "<logs>/scaling/sensitivity.log",
    benchmark:
        "<benchmarks>/scaling/sensitivity.tsv"
    params:
        spec=SPECS.of(scaling_specs.fits),
        code=fingerprint("smelt.scaling.gains.sensitivity"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/smelt.yaml"
    shell:
        "python -m smelt.scaling.gains.sensitivity --spec {params.spec:q} --endpoints {input.endpoints:q}"
        " --out {output:q} > {log:q} 2>&1"
