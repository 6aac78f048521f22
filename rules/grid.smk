"""What the rules of a study that trains share: its runs, its table of sources, and which files a run needs.

Holds no rule.
"""

from smelt.corpus.sources.registry import read_sources

CACHE = os.environ.get("SMELT_CACHE", "cache")  # of downloads: outside the results, shared by studies
RUNS = STUDY.runs
TRAINED = STUDY.trained


def beside_workflow(name):
    """A file of the workflow's folder, relative where that is the working directory: a clone that is moved must not
    rerun anything."""
    path = Path(workflow.basedir) / name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


SOURCES = beside_workflow(CONFIG["corpus"]["sources"])
try:
    read_sources(SOURCES, CONFIG["corpus"]["select"])
except UserError as error:
    sys.exit(f"error: {STUDY.path}: {error}")
BRANCHES = range(1, len(TRAINED[0].training.branch_steps) + 1)

ITEM_FILES = study_tasks.files(STUDY)  # of the downstream tasks
GENERATED = [
    "dyck_languages",
    "cs_algorithms",
    "operators",
    "repeat_copy",
]  # tasks of the desk suite, in its command's order


wildcard_constraints:
    part="all_endpoints|last_endpoint",
    run="|".join(RUNS),
    stream="stable|decay",
    shard=r"\d{5}",
    branch=r"\d+",


def run_spec(wildcards):
    """Canonical JSON of what one training job is told."""
    return canonical_json(jobs.training(STUDY, RUNS[wildcards.run]))


def stable_spec(wildcards):
    """Canonical JSON of what the job of a stable phase is told, where decays are jobs of their own."""
    return canonical_json(jobs.stable(STUDY, RUNS[wildcards.run]))


def decay_spec(wildcards):
    """Canonical JSON of what the job of a decay is told."""
    return canonical_json(jobs.decay(STUDY, RUNS[wildcards.run], int(wildcards.branch)))


def state_of(part):
    """A function of wildcards: what a killed job of a run, or of a part of it, resumes from."""
    return lambda wildcards: f"{STATE}/{part.format(**wildcards)}"


def save_interval(wildcards):
    return RUNS[wildcards.run].save_interval


def flops_per_token(wildcards):
    return jobs.flops_per_token(STUDY, RUNS[wildcards.run])


def perf_of(part):
    """A function of wildcards: the lines, one a step, that a job writes while it trains."""
    return lambda wildcards: f"{RESULTS}/logs/training/{part.format(**wildcards)}.perf.jsonl"


def events_of(part):
    """A function of wildcards: the folder of a job's events for TensorBoard; empty where the study wants none."""

    def folder(wildcards):
        asked = CONFIG["monitoring"]["tensorboard"]
        return f"{RESULTS}/logs/training/tensorboard/{part.format(**wildcards)}" if asked else ""

    return folder


def launched(module):
    """A function of wildcards: how a job that trains is started, on one process or on several. The two dashes keep
    torchrun from taking the command's options for its own."""

    def command(wildcards):
        training = RUNS[wildcards.run].training
        if training.processes == 1:
            return f"python -m {module}"
        torchrun = f"python -m torch.distributed.run --standalone --nproc-per-node {training.processes}"
        return f"{torchrun} -m -- {module}"

    return command


def processes(wildcards):
    return RUNS[wildcards.run].training.processes


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


def asked(part, resource):
    """A function of wildcards and attempt: what the job of a part of a run asks a scheduler for."""

    def value(wildcards, attempt):
        try:
            return getattr(cluster.training(STUDY, RUNS[wildcards.run], part, attempt), resource)
        except UserError as error:
            sys.exit(f"error: {STUDY.path}: {error}")

    return value


def shard_asks(resource):
    """A function of wildcards and attempt: what packing one shard asks a scheduler for."""
    return lambda wildcards, attempt: getattr(cluster.shard(STUDY, attempt), resource)


def costs_memory(wildcards):
    """Megabytes that measuring takes at the most: all architectures of a cell are alive at the same time."""
    cells = {}
    for run in TRAINED:
        cells.setdefault(run.cell, {})[run.architecture] = preflight.memory(run)
    return max(sum(members.values()) for members in cells.values()) // 10**6


def requests_spec(wildcards):
    """Canonical JSON of what the requests of one part are made of."""
    return canonical_json(study_tasks.requests(STUDY, wildcards.part))


def requests_of(part):
    """The requests of a part; none where the study does not score it."""
    return f"{RESULTS}/evaluation/requests_{part}.parquet" if part in study_tasks.parts(STUDY) else []


def scores():
    """Scores of the trained runs, in the order of `jobs.task_scores`."""
    return [f"{RESULTS}/evaluation/{run.id}/scores.parquet" for run in TRAINED]
