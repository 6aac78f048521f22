"""What each job of a study is told: plain values that `smelt.workflow.job_specs` turns into a rule's canonical JSON.

Only the Snakefile uses it. A spec holds what its job's outputs depend on and nothing else, since Snakemake
reruns a job when its spec changes.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.budgets.ledger import budget, sparsity
from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.reporting.paper.registry import read_registry
from smelt.reporting.paper.rounding import coefficients
from smelt.spec import plain
from smelt.study import ablations, tasks
from smelt.study.base import Study
from smelt.study.endpoint_table import EndpointStudy, SimulatedStudy
from smelt.study.grid import GridStudy, Run


def training(study: GridStudy, run: Run) -> dict[str, Any]:
    """Network and recipe of one run, and the name that all of its artifacts carry."""
    context = study.config["corpus"]["context"]
    return {"run": run.id, "context": context, "model": plain(run.model), "training": plain(run.training)}


def stable(study: GridStudy, run: Run) -> dict[str, Any]:
    """Network and recipe of a run's stable phase, which knows nothing of the decays but where they leave."""
    recipe = dataclasses.replace(run.training, decay_steps=1, final_lr_fraction=0.0)
    return {**training(study, run), "training": plain(recipe)}


def decay(study: GridStudy, run: Run, branch: int) -> dict[str, Any]:
    """Network and recipe of one branch of a run, from 1: as of a run that ends where the branch leaves."""
    leaves = run.training.branch_steps[branch - 1]
    recipe = dataclasses.replace(run.training, steps=leaves, branch_steps=(leaves,))
    return {**training(study, run), "training": plain(recipe), "branch": branch}


def _named(run: Run) -> dict[str, Any]:
    """What a run is called in the tables."""
    return {
        "run": run.id,
        "architecture": run.architecture,
        "scale": run.scale,
        "sparsity": run.sparsity,
        "seed": run.seed,
    }


def runs(study: GridStudy) -> dict[str, Any]:
    """What the trained runs are, in the order of their logs."""
    told = [
        {
            **_named(run),
            "learning_rate": run.training.learning_rate,
            "experts": run.model.experts,
            "active_experts": run.model.active_experts,
            "vocabulary": run.model.vocabulary,
        }
        for run in study.trained
    ]
    return {"runs": told}


def flops_per_token(study: GridStudy, run: Run) -> int:
    """FLOPs that a run's training takes of a token, LM head included."""
    cost = budget(run.model, study.attention_keys)
    return round(cost.flops_per_token + cost.head_flops_per_token)


def corpus_summary(study: GridStudy) -> dict[str, Any]:
    """The sources read, and the keys that the study charges a query."""
    return {**study.section("corpus", ["select"]), "attention_keys": study.attention_keys}


def budgets(study: GridStudy) -> dict[str, Any]:
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
            **({"note": note} if (note := study.note(run)) else {}),
        }
        for run in reversed(first.values())
    ]
    return {"attention_keys": study.attention_keys, "reference": study.reference, "runs": runs}


def costs(study: GridStudy) -> dict[str, Any]:
    """Networks of the trained cells, once each, and how they are trained."""
    first = {(run.architecture, run.cell): run for run in reversed(study.trained)}
    runs = [
        {
            "architecture": run.architecture,
            "scale": run.scale,
            "sparsity": run.sparsity,
            "model": plain(run.model),
            "batch_contexts": run.training.batch_contexts,
            "precision": run.training.precision,
        }
        for run in reversed(first.values())
    ]
    return {"context": study.config["corpus"]["context"], "reference": study.reference, "runs": runs}


def plan(study: GridStudy) -> dict[str, Any]:
    """Networks and recipes of the trained runs, once each, the size of the text and the machine."""
    told: dict[tuple[Any, ...], dict[str, Any]] = {}
    for run in study.trained:
        recipe = {name: plain(run.training)[name] for name in ("steps", "branch_steps", "decay_steps")}
        recipe["batch_contexts"] = run.training.batch_contexts
        names = {"architecture": run.architecture, "scale": run.scale, "sparsity": run.sparsity}
        entry = {**names, "model": plain(run.model), **recipe, "seeds": []}
        told.setdefault((run.architecture, run.cell), entry)["seeds"].append([run.id, run.seed])
    machine = study.section("cost_estimate")
    # Text that is asked for, or all there is.
    sizes = [study.config["corpus"]["megabytes"], machine.pop("text_megabytes", 0)]
    return {
        **study.section("corpus", ["context", "shard_contexts", "heldout_share", "decay_share"]),
        **machine,
        "text_megabytes": min((size for size in sizes if size), default=0),
        "attention_keys": study.attention_keys,
        "runs": list(told.values()),
        **({"branch_jobs": True} if study.branch_jobs else {}),
    }


def endpoints(study: GridStudy) -> dict[str, Any]:
    """What the table of endpoints says of each trained run."""
    return {
        "context": study.config["corpus"]["context"],
        "s_convention": study.config["scaling"]["s_convention"],
        "runs": [_endpoint(study, run) for run in study.trained],
    }


def _endpoint(study: GridStudy, run: Run) -> dict[str, Any]:
    model = run.model
    cost = budget(model, study.attention_keys)
    # As many layers more as the span has: all layers are alike.
    longer = budget(dataclasses.replace(model, layers=model.layers + model.loop_length), study.attention_keys)
    found = sparsities(study, run)
    return {
        **_named(run),
        "flops_per_token": cost.flops_per_token,
        "params": cost.params,
        "kv_bytes_per_token": cost.kv_bytes_per_token,
        "S": _chosen_sparsity(study, run, found),
        **{f"S_{convention}": value for convention, value in found.items()},
        "active_params": cost.active_params,
        "looped_params": longer.active_params - cost.active_params,
        "visits": model.visits,
        "expansion": model.experts / model.active_experts,
        "batch_contexts": run.training.batch_contexts,
        "branch_steps": list(run.training.branch_steps),
        "decay_steps": run.training.decay_steps,
    }


def scoring(study: GridStudy) -> dict[str, Any]:
    """How the endpoints of a run are scored on tasks."""
    return {**study.section("evaluation", ["precision"]), "context": study.config["corpus"]["context"]}


def task_scores(study: GridStudy) -> dict[str, Any]:
    """Tasks, choices of items and demonstrations, and what the runs are."""
    runs = [_named(run) for run in study.trained]
    return {**tasks.scores(study), "reference": study.reference, "runs": runs}


def sparsities(study: GridStudy, run: Run) -> dict[str, float | None]:
    """S of a run under each convention: by Eq. 1 against its own control (none where the grid has none) or against
    the reference's, and its label's."""
    mine = budget(run.model, study.attention_keys)

    def against(control: ModelSettings | None) -> float | None:
        if control is None:
            return None
        active = budget(control, study.attention_keys)
        return sparsity(mine.flops_per_token, mine.params, active.flops_per_token, active.params)

    reference = study.control(run.scale)
    return {
        "own": against(reference if run.architecture == study.reference else study.own_control(run)),
        "baseline": against(reference),
        "nominal": study.sparsity_values[run.sparsity],
    }


def _chosen_sparsity(study: GridStudy, run: Run, found: Mapping[str, float | None]) -> float:
    value = found[study.config["scaling"]["s_convention"]]
    if value is None:
        raise UserError(
            f"scaling.s_convention is own, but {run.architecture} has no S0 control at {run.scale}; "
            "add S0 to grid.sparsities or choose baseline"
        )
    return value


def rates(study: GridStudy) -> dict[str, Any]:
    """The runs of a sweep of the learning rate and the rate of each."""
    return {
        "reference": study.reference,
        "rates": [run.training.learning_rate for run in study.trained],
        "endpoints": endpoints(study),
    }


def sweeps(study: GridStudy) -> dict[str, Any]:
    """The points of each ablation."""
    return {"ablations": ablations.points(study.config, study.networks)}


def sweep_figures(study: GridStudy) -> dict[str, Any]:
    """What the figures of the ablations are drawn against."""
    return {**figure(study), "axes": {name: sweep["axis"] for name, sweep in study.config["ablations"].items()}}


def figure(study: Study) -> dict[str, Any]:
    """What a figure says of its study."""
    return {"study": study.name, "reference": study.reference}


def tables(study: Study) -> dict[str, Any]:
    """What every table says of simulated endpoints; nothing where they were measured."""
    rows = study.given.rows if isinstance(study, EndpointStudy) else []
    sources = sorted({row["source"] for row in rows if row["source"].startswith("simulated")})
    return {"source": ", ".join(sources)} if sources else {}


def scaling(study: Study) -> dict[str, Any]:
    """Settings of the fits, and what they need to know of the endpoints."""
    told = study.section("scaling")
    told.pop("sparsities", None)  # among the values
    if study.s_convention != study.config["scaling"]["s_convention"]:
        told["s_convention"] = study.s_convention
    return {**told, **figure(study), "sparsity_values": study.sparsity_values}


def iso_loss_gain(study: Study) -> dict[str, Any]:
    """What the iso-loss gain needs to know of the study; nothing is fitted."""
    return {**study.section("scaling", ["fit_sparsities"]), "s_convention": study.s_convention, **figure(study)}


def calibration(study: Study) -> dict[str, Any]:
    """What the calibration of downstream scores needs to know."""
    return {**study.section("scaling", ["bootstrap_draws", "seed"]), **figure(study)}


def own_endpoints(study: EndpointStudy) -> dict[str, Any]:
    """How the study's file of endpoints is read."""
    return study.section("scaling", ["s_convention"])


def simulated_endpoints(study: SimulatedStudy) -> dict[str, Any]:
    """The surfaces and the noise of a simulation."""
    return study.simulation


def paper_numbers() -> str:
    """The registry of the paper's numbers, from the working directory where it lies inside, as a moved clone's does."""
    path = Path(__file__).resolve().parents[2] / "config" / "published" / "results.csv"
    return os.fspath(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def paper_source(study: Study) -> str:
    """Whether the study's endpoints can be compared with the paper's: "measured" (the paper's grid, trained here),
    "simulated" (from the paper's published surfaces), or "" (not at all)."""
    if isinstance(study, GridStudy) and study.name == "paper":
        return "measured"
    published = isinstance(study, SimulatedStudy) and _published(study.config["simulation"]["surfaces"])
    return "simulated" if published else ""


def paper_comparison(study: Study) -> dict[str, Any]:
    """What the comparison with the paper's numbers needs to know of the study."""
    source = paper_source(study)
    noise = study.section("simulation", ["noise"]) if source == "simulated" else {}
    return {"study": study.name, **({"endpoints": source} if source else {}), **noise}


def nothing(study: Study) -> dict[str, Any]:
    """No settings."""
    return {}


def _published(surfaces: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether some surfaces are those that the paper prints."""
    printed = coefficients(read_registry(Path(paper_numbers())))
    return {name: {key: surface[key] for key in surface if key != "rmse"} for name, surface in surfaces.items()} == {
        name: {key: entry.value for key, entry in row.items()} for name, row in printed.items()
    }
