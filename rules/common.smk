"""What all rules share: the study and its runs, the results root, and one spec for each job.

Reads config/schema.yaml and the study file named by `--config study=NAME|PATH`. Holds no rule. A spec is one
canonical JSON string of plain values: Snakemake compares it to decide what runs again.
"""

import os
import sys
from pathlib import Path

from smelt import preflight, study as studies
from smelt.budgets.ledger import budget, fully_active, sparsity
from smelt.errors import UserError
from smelt.spec import canonical_json, fingerprint, plain

studies.use_this_interpreter()

try:
    STUDY = studies.read(studies.find(str(config.get("study", "desk")), Path(workflow.basedir) / "config"))
except UserError as error:
    sys.exit(f"error: {error}")

RESULTS = STUDY.root
CACHE = os.environ.get("SMELT_CACHE", "cache")  # of downloads: outside the results, shared by studies
CONFIG = STUDY.config
RUNS = STUDY.runs
TRAINED = STUDY.trained
# Relative where the workflow's folder is the working directory: a clone that is moved must not rerun anything.
SOURCES = Path(workflow.basedir) / CONFIG["corpus"]["sources"]
SOURCES = str(SOURCES.relative_to(Path.cwd()) if SOURCES.is_relative_to(Path.cwd()) else SOURCES)
if not os.path.isfile(SOURCES):
    sys.exit(f"error: {STUDY.path}: corpus.sources: no file {SOURCES}; give a path from the workflow's folder")
TUNING = bool(CONFIG["tuning"]["rates"])
BRANCHES = range(1, len(TRAINED[0].training.branch_steps) + 1)


wildcard_constraints:
    run="|".join(RUNS),
    stream="stable|decay",
    shard=r"\d{5}",
    branch=r"\d+",


def spec(section, keys=None):
    """Canonical JSON of a section of the study, or of some of its keys."""
    return canonical_json(STUDY.section(section, keys))


def corpus_spec():
    """Settings of the corpus' summary."""
    return canonical_json({**STUDY.section("corpus", ["select"]), "attention_keys": STUDY.attention_keys})


def run_spec(wildcards):
    """Settings of one training job."""
    return canonical_json(studies.run_spec(STUDY, RUNS[wildcards.run]))


def shards(stream, contexts):
    """The shards that hold the first `contexts` contexts of a stream."""
    count = -(-contexts // CONFIG["corpus"]["shard_contexts"])
    return [f"{RESULTS}/corpus/{stream}/shard-{number:05d}.parquet" for number in range(count)]


def previous_shard(wildcards):
    """The shard before this one in its stream; none before the first."""
    number = int(wildcards.shard)
    return f"{RESULTS}/corpus/{wildcards.stream}/shard-{number - 1:05d}.parquet" if number else []


def run_shards(stream):
    """A function of the wildcards: the shards of `stream` that the run reads."""
    return lambda wildcards: shards(stream, RUNS[wildcards.run].contexts[stream])


def contexts_needed(stream):
    """Contexts of a stream that the study's trained runs read at the most."""
    return max(run.contexts[stream] for run in TRAINED)


def stable_shards():
    return shards("stable", contexts_needed("stable"))


def decay_shards():
    return shards("decay", contexts_needed("decay"))


def models(run="{run}"):
    """Endpoint models of a run, in the order of its branches."""
    return [f"{RESULTS}/training/{run}/branch-{branch}.safetensors" for branch in BRANCHES]


def evaluated():
    """Held-out losses of the trained runs, in the order of `endpoints_spec`."""
    return [f"{RESULTS}/evaluation/{run.id}/losses.parquet" for run in TRAINED]


def logs_of_training():
    return [f"{RESULTS}/training/{run.id}/log.parquet" for run in TRAINED]


def run_budget(run):
    return budget(run.model, STUDY.attention_keys)


def run_sparsity(run, control):
    """S of a run by Eq. 1 against a control."""
    mine, active = run_budget(run), budget(control, STUDY.attention_keys)
    return sparsity(mine.flops_per_token, mine.params, active.flops_per_token, active.params)


def own_control(run):
    """The S = 0 network of the run's own architecture, where the grid has one."""
    control = RUNS.get(f"{run.architecture}-{run.scale}-S0")
    return control.model if control and run.architecture != STUDY.reference else None


def chosen_sparsity(run):
    """S of a run under the study's convention."""
    convention = CONFIG["scaling"]["s_convention"]
    if convention == "nominal":
        return STUDY.sparsity_values[run.sparsity]
    control = STUDY.control(run.scale)
    if convention == "own" and run.architecture != STUDY.reference:
        control = own_control(run)
        if control is None:
            sys.exit(
                f"error: {STUDY.path}: scaling.s_convention is own, but {run.architecture} has no S0 control at "
                f"{run.scale}; add S0 to grid.sparsities or choose baseline"
            )
    return run_sparsity(run, control)


def budgets_spec():
    """Networks of the grid and their controls, for the table of budgets."""
    return canonical_json(
        {
            "attention_keys": STUDY.attention_keys,
            "reference": STUDY.reference,
            "runs": [
                {
                    "architecture": run.architecture,
                    "scale": run.scale,
                    "sparsity": run.sparsity,
                    "model": plain(run.model),
                    "control": plain(own_control(run)) if own_control(run) else None,
                    "reference_control": plain(STUDY.control(run.scale)),
                }
                for run in RUNS.values()
                if run.seed == CONFIG["seeds"][0] and run.rate in (None, 1)
            ],
        }
    )


def endpoints_spec():
    """What the table of endpoints says of each trained run, in the order of `evaluated`."""
    return canonical_json(endpoints_values())


def endpoints_values():
    return {
        "context": CONFIG["corpus"]["context"],
        "s_convention": CONFIG["scaling"]["s_convention"],
        "runs": [
            {
                "run": run.id,
                "architecture": run.architecture,
                "scale": run.scale,
                "sparsity": run.sparsity,
                "seed": run.seed,
                "flops_per_token": run_budget(run).flops_per_token,
                "params": run_budget(run).params,
                "kv_bytes_per_token": run_budget(run).kv_bytes_per_token,
                "S": chosen_sparsity(run),
                "batch_contexts": run.training.batch_contexts,
                "branch_steps": list(run.training.branch_steps),
                "decay_steps": run.training.decay_steps,
            }
            for run in TRAINED
        ],
    }


def rates_spec():
    """The runs of a sweep of the learning rate, in the order of `evaluated`."""
    return canonical_json(
        {
            "reference": STUDY.reference,
            "rates": [run.training.learning_rate for run in TRAINED],
            "endpoints": endpoints_values(),
        }
    )


def scaling_spec():
    """Settings of the fits, and what they need to know of the grid."""
    return canonical_json(
        {
            **STUDY.section("scaling"),
            "study": STUDY.name,
            "reference": STUDY.reference,
            "sparsity_values": STUDY.sparsity_values,
        }
    )


def before_start(cores):
    """Check the results root and the machine; `cores` is None where jobs run elsewhere."""
    waiting = [run for run in TRAINED if not os.path.exists(f"{RESULTS}/training/{run.id}/log.parquet")]
    try:
        preflight.claim_root(STUDY)
        if cores:
            preflight.check_machine(STUDY, waiting, cores)
    except UserError as error:
        sys.exit(f"error: {error}")


def training_memory(wildcards):
    """Megabytes that a training job takes at the most."""
    return preflight.memory(RUNS[wildcards.run]) // 10**6
