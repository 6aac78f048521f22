"""What each job of a study is told: plain values that a rule turns into the job's canonical JSON.

Only the Snakefile uses it. A spec holds what its job's outputs depend on and nothing else, since Snakemake
reruns a job when its spec changes.
"""

from typing import Any

from smelt.budgets.ledger import budget, sparsity
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.spec import plain
from smelt.study import Run, Study


def training(study: Study, run: Run) -> dict[str, Any]:
    """Network and recipe of one run."""
    return {"context": study.config["corpus"]["context"], "model": plain(run.model), "training": plain(run.training)}


def corpus_summary(study: Study) -> dict[str, Any]:
    """The sources read, and the keys that the study charges a query."""
    return {**study.section("corpus", ["select"]), "attention_keys": study.attention_keys}


def budgets(study: Study) -> dict[str, Any]:
    """Networks of the grid, once each, and their controls."""
    first = {(run.architecture, run.cell): run for run in reversed(study.runs.values())}
    runs = [
        {
            "architecture": run.architecture,
            "scale": run.scale,
            "sparsity": run.sparsity,
            "model": plain(run.model),
            "control": plain(own) if (own := study.own_control(run)) else None,
            "reference_control": plain(study.control(run.scale)),
        }
        for run in reversed(first.values())
    ]
    return {"attention_keys": study.attention_keys, "reference": study.reference, "runs": runs}


def endpoints(study: Study) -> dict[str, Any]:
    """What the table of endpoints says of each trained run."""
    return {
        "context": study.config["corpus"]["context"],
        "s_convention": study.config["scaling"]["s_convention"],
        "runs": [_endpoint(study, run) for run in study.trained],
    }


def _endpoint(study: Study, run: Run) -> dict[str, Any]:
    cost = budget(run.model, study.attention_keys)
    return {
        "run": run.id,
        "architecture": run.architecture,
        "scale": run.scale,
        "sparsity": run.sparsity,
        "seed": run.seed,
        "flops_per_token": cost.flops_per_token,
        "params": cost.params,
        "kv_bytes_per_token": cost.kv_bytes_per_token,
        "S": run_sparsity(study, run),
        "batch_contexts": run.training.batch_contexts,
        "branch_steps": list(run.training.branch_steps),
        "decay_steps": run.training.decay_steps,
    }


def run_sparsity(study: Study, run: Run) -> float:
    """S of a run under the study's convention: by Eq. 1 against the reference's or its own control, or its label's.

    Raises UserError where its own control is asked for and the grid has none.
    """
    convention = study.config["scaling"]["s_convention"]
    if convention == "nominal":
        return study.sparsity_values[run.sparsity]
    control: ModelSettings | None = study.control(run.scale)
    if convention == "own" and run.architecture != study.reference:
        control = study.own_control(run)
    if control is None:
        raise UserError(
            f"scaling.s_convention is own, but {run.architecture} has no S0 control at {run.scale}; "
            "add S0 to grid.sparsities or choose baseline"
        )
    mine, active = (budget(model, study.attention_keys) for model in (run.model, control))
    return sparsity(mine.flops_per_token, mine.params, active.flops_per_token, active.params)


def rates(study: Study) -> dict[str, Any]:
    """The runs of a sweep of the learning rate and the rate of each."""
    return {
        "reference": study.reference,
        "rates": [run.training.learning_rate for run in study.trained],
        "endpoints": endpoints(study),
    }


def figure(study: Study) -> dict[str, Any]:
    """What a figure says of its study."""
    return {"study": study.name, "reference": study.reference}


def scaling(study: Study) -> dict[str, Any]:
    """Settings of the fits, and what they need to know of the grid."""
    return {**study.section("scaling"), **figure(study), "sparsity_values": study.sparsity_values}
