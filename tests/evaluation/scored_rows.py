"""Scored continuations made up for the tests, and their files."""

import json

import pyarrow as pa

from smelt.artifacts import write_table
from smelt.evaluation.metrics import task_scores
from smelt.evaluation.tasks.registry import Task
from smelt.labels import RUN_KEYS
from smelt.spec import plain

SCORED = pa.schema(
    [
        ("run", pa.string()),
        ("part", pa.string()), ("branch", pa.int32()), ("branch_step", pa.int32()), ("task", pa.string()),
        ("shots", pa.int32()), ("seed", pa.int32()), ("item", pa.int32()), ("item_id", pa.string()),
        ("category", pa.string()), ("choice", pa.int32()), ("gold", pa.bool_()), ("log_probability", pa.float64()),
        ("tokens", pa.int32()), ("characters", pa.int32()), ("bytes", pa.int32()), ("greedy", pa.bool_()),
        ("truncated", pa.int32()), ("dropped", pa.int32()), ("demonstrations", pa.list_(pa.int32())),
    ]
)  # fmt: skip
RUN = {"run": "baseline-H64-S85", "architecture": "baseline", "scale": "H64", "sparsity": "S85", "seed": 0}


def task(name="quiz", kind="multiple_choice", **values):
    """A task of the desk suite."""
    defaults = {
        "suite": "desk", "file": f"desk/{name}.jsonl", "items": 0, "shots": 4, "sweep_shots": 8,
        "category": "symbolic problem solving", "chance_v1": 0.0, "chance_v2": 0.0, "source": "nowhere",
    }  # fmt: skip
    return Task(name=name, kind=kind, **(defaults | values))


def row(item=0, choice=0, gold=False, logp=-1.0, tokens=1, **values):
    """One scored continuation, of branch 1 and the part "all_endpoints" unless said otherwise."""
    defaults = {
        "part": "all_endpoints", "branch": 1, "branch_step": 10, "task": "quiz", "shots": 4, "seed": 0, "item": item,
        "item_id": f"{item:016x}", "category": "", "choice": choice, "gold": gold, "log_probability": float(logp),
        "tokens": tokens, "characters": 4, "bytes": 4, "greedy": False, "truncated": 0, "dropped": 0,
        "demonstrations": list(range(values.get("shots", 4))),
    }  # fmt: skip
    return defaults | values


def text(item=0, greedy=True, logp=-1.0, tokens=1, **values):
    """One scored answer of a language modelling task."""
    return row(item, 0, True, logp, tokens, greedy=greedy, **values)


def write(rows, path, run=RUN["run"]):
    """The rows as the file of scores of a run."""
    write_table(pa.Table.from_pylist([{"run": run} | row for row in rows], schema=SCORED), path, {})
    return str(path)


def scores_spec(tasks, runs=(RUN,), **values):
    """The spec of the task scores."""
    parts = {"all_endpoints": "smoke", "last_endpoint": "lite"}
    spec = {"tasks": [plain(one) for one in tasks], "runs": list(runs), "presets": parts}
    spec |= {"sampler": dict.fromkeys(parts, "smelt"), "baselines": "v2", "reference": "", "shots": []}
    return json.dumps(spec | values)


def score_row(keys, score=0.5, **values):
    """A row of the table of task scores, made up directly."""
    found = dict.fromkeys(task_scores.TASK_SCORES.names)
    found |= {"branch": 1, "branch_step": 10, "part": "all_endpoints", "preset": "smoke", "sampler": "smelt"}
    found |= {"suite": "desk", "category": "symbolic problem solving", "shots": 4, "evaluation_seed": 0, "items": 10}
    found |= {"score": score, "ties": 0, "categories": 1, "chance": 0.0, "centred": score, "nll": 20.0, "tokens": 10}
    found |= {"bytes": 40, "truncated_share": 0.0, "dropped": 0, "completion": False}
    found |= {name: RUN[name] for name in RUN_KEYS} | keys
    return found | {"mean_demonstrations": float(found["shots"])} | values
