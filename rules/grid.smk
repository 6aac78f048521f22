"""What the rules of a study that trains share: its runs, its table of sources, and which files a run needs.

Holds no rule.
"""

from smelt.corpus.sources import read_sources

CACHE = os.environ.get("SMELT_CACHE", "cache")  # of downloads: outside the results, shared by studies
RUNS = STUDY.runs
TRAINED = STUDY.trained
# Relative where the workflow's folder is the working directory: a clone that is moved must not rerun anything.
SOURCES = Path(workflow.basedir) / CONFIG["corpus"]["sources"]
SOURCES = str(SOURCES.relative_to(Path.cwd()) if SOURCES.is_relative_to(Path.cwd()) else SOURCES)
try:
    read_sources(SOURCES, CONFIG["corpus"]["select"])
except UserError as error:
    sys.exit(f"error: {STUDY.path}: {error}")
BRANCHES = range(1, len(TRAINED[0].training.branch_steps) + 1)


wildcard_constraints:
    run="|".join(RUNS),
    stream="stable|decay",
    shard=r"\d{5}",
    branch=r"\d+",


def run_spec(wildcards):
    """Canonical JSON of what one training job is told."""
    return canonical_json(jobs.training(STUDY, RUNS[wildcards.run]))


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
    """A function of the wildcards: a long study has millions, which no job but the one that reads them should count."""
    return lambda wildcards: shards("stable", contexts_needed("stable"))


def decay_shards():
    return lambda wildcards: shards("decay", contexts_needed("decay"))


def models(run="{run}"):
    """Endpoint models of a run, in the order of its branches."""
    return [f"{RESULTS}/training/{run}/branch-{branch}.safetensors" for branch in BRANCHES]


def evaluated():
    """Held-out losses of the trained runs, in the order of `jobs.endpoints`."""
    return [f"{RESULTS}/evaluation/{run.id}/losses.parquet" for run in TRAINED]


def logs_of_training():
    return [f"{RESULTS}/training/{run.id}/log.parquet" for run in TRAINED]


def training_memory(wildcards):
    """Megabytes that a training job takes at the most."""
    return preflight.memory(RUNS[wildcards.run]) // 10**6


def costs_memory(wildcards):
    """Megabytes that measuring takes at the most: all architectures of a cell are alive at the same time."""
    cells = {}
    for run in TRAINED:
        cells.setdefault(run.cell, {})[run.architecture] = preflight.memory(run)
    return max(sum(members.values()) for members in cells.values()) // 10**6
