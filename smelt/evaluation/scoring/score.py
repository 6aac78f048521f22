"""Score the endpoints of one run on the requests of its study.

Reads the endpoint models of a run and the requests; writes one row for each request and endpoint. Requests are for
all endpoints or for the last one. A tree is computed once for an endpoint, however many tasks ask for
it, and what was computed stays in the state folder: a killed job goes on where it was, and a larger choice of items
costs what is new in it. Kept scores belong to one model file, code and precision; the bytes written do not depend on
what was kept.
"""

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from smelt.artifacts import KEY, field, file_digest, replacing, table
from smelt.errors import UserError, command
from smelt.evaluation.columns import ITEM_COLUMNS, ITEM_FIELDS
from smelt.evaluation.scoring.cache import ScoreCache
from smelt.evaluation.scoring.endpoint import read_model
from smelt.evaluation.scoring.log_likelihood import Scored, score_trees
from smelt.evaluation.scoring.trees import Tree, fed, fill, pack
from smelt.evaluation.settings import ScoringSettings
from smelt.job import read_job
from smelt.labels import check_run
from smelt.locks import locked
from smelt.model.decode import for_decoding
from smelt.model.transformer import Transformer
from smelt.spec import canonical_json, digest, fingerprint

MODULE = "smelt.evaluation.scoring.score"
SCORED = "smelt.evaluation.scoring.log_likelihood"  # whose code decides a score
PARTS = ("all_endpoints", "last_endpoint")  # evaluation sets
GROUP = 2000  # requests in memory at a time

SCORES = pa.schema(
    [
        field("run", pa.string(), "name of the run"),
        field("part", pa.string(), "all_endpoints: all of a run are scored on it; last_endpoint: the last one"),
        field("branch", pa.int32(), "number of the decay branch, from 1"),
        field("branch_step", pa.int32(), "stable step at which the decay branches off"),
        *ITEM_FIELDS,
        field("choice", pa.int32(), "number of the continuation, of a schema that of the context"),
        field("gold", pa.bool_(), "whether this choice is the right one"),
        field("log_probability", pa.float64(), "of the continuation after its context, sum over its tokens, nats"),
        field("tokens", pa.int32(), "tokens of the continuation"),
        field("characters", pa.int32(), "its length without its leading space"),
        field("bytes", pa.int32(), "the same in bytes of UTF-8"),
        field("greedy", pa.bool_(), "whether each of its tokens was the most likely one"),
        field("truncated", pa.int32(), "tokens cut from the context, for want of room"),
        field("dropped", pa.int32(), "demonstrations left out whole, for want of room"),
        field("demonstrations", pa.list_(pa.int32()), "rows of the demonstrations in the prompt, oldest first"),
    ]
)
COPIED = (*ITEM_COLUMNS, "truncated", "dropped", "demonstrations")

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    state: Path = dataclasses.field(metadata={"help": "folder in which scores are kept"})


def groups(path: Path) -> Iterator[list[Row]]:
    """The requests of a file, some at a time, their tokens as arrays. Raises UserError where it is none of ours."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(GROUP):
                rows = batch.drop_columns(["context", "continuations"]).to_pylist()
                continuations = batch["continuations"]
                answers = iter(_lists(continuations.flatten()))
                for row, context, count in zip(
                    rows, _lists(batch["context"]), continuations.value_lengths().to_pylist(), strict=True
                ):
                    row["context"], row["continuations"] = context, list(islice(answers, count))
                yield rows
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, KeyError) as error:
        raise UserError(f"{path}: not a readable file of requests ({error}); delete it and run again") from None


def _lists(column: pa.ListArray) -> list[NDArray[np.int32]]:
    """The lists of a column without missing ones; views of one array."""
    return np.split(column.flatten().to_numpy(), np.cumsum(column.value_lengths().to_numpy())[:-1]) if column else []


def scores_of(requests: Sequence[Row], model: Transformer, cache: ScoreCache, context: int) -> dict[str, list[Scored]]:
    """The scores of all trees that the requests ask for: those that are kept, and the others, kept from now on.

    Raises UserError, naming task and item, on a token that the model does not know and on a score that is not finite.
    """
    wanted: dict[str, Row] = {}
    for row in requests:
        wanted.setdefault(row["tree"], row)
    scored = cache.find(list(wanted))
    missing = [row for tree, row in wanted.items() if tree not in scored]
    for row in missing:
        _check_tokens(row, model.settings.vocabulary)
    trees = [Tree(row["context"], row["continuations"]) for row in missing]
    _tell(wanted, trees, context)
    for row, scores in zip(missing, score_trees(model, trees, context), strict=True):
        for continuation in scores:
            if not math.isfinite(continuation.log_probability):
                fault = f"the log-probability of a continuation is {continuation.log_probability}"
                raise UserError(f"{_place(row)}: {fault}; the endpoint's weights are broken")
        cache.add(row["tree"], scores)
        scored[row["tree"]] = scores
    return scored


def _tell(wanted: Mapping[str, Row], trees: Sequence[Tree], context: int) -> None:
    lengths = [fed(tree) for tree in trees]
    rows = pack(lengths, context)
    full = f" in {len(rows)} rows, {fill(rows, lengths, context):.1%} full" if rows else ""
    tasks = ", ".join(dict.fromkeys(row["task"] for row in wanted.values()))
    cached = len(wanted) - len(trees)
    print(f"{tasks}: {cached} contexts kept, {len(trees)} to score, {sum(lengths)} tokens{full}", file=sys.stderr)


def _check_tokens(row: Row, vocabulary: int) -> None:
    largest = max(int(tokens.max()) for tokens in (row["context"], *row["continuations"]))
    if largest >= vocabulary:
        raise UserError(
            f"{_place(row)}: token {largest} is none of the endpoint's {vocabulary}; score it with requests made by its"
            " own tokenizer"
        )


def _place(row: Row) -> str:
    return f"task {row['task']}, item {row['item']} ({row['item_id']}), {row['shots']} shots, seed {row['seed']}"


def rows_of(request: Row, scores: Sequence[Scored], about: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of SCORES, one for each continuation of a request."""
    copied = {name: request[name] for name in COPIED}
    for number, (tokens, scored) in enumerate(zip(request["continuations"], scores, strict=True)):
        choice = request["option"] + number
        yield {
            **about,
            **copied,
            "choice": choice,
            "gold": choice == request["gold"],
            "log_probability": scored.log_probability,
            "tokens": len(tokens),
            "characters": request["characters"][number],
            "bytes": request["bytes"][number],
            "greedy": scored.greedy,
        }


def score(
    models: Sequence[Path], parts: Mapping[str, Path], settings: ScoringSettings, state: Path
) -> Iterator[pa.Table]:
    """Pieces of SCORES, endpoint by endpoint and part by part, in the order of the requests."""
    precision = getattr(torch, settings.precision)
    run = ""
    for path in models:
        model, about = read_model(path, precision)
        check_run(path, [about["run"]], run := run or about["run"])
        for_decoding(model)
        identity = digest(canonical_json([file_digest(path), fingerprint(SCORED), settings.precision]))[:32]
        with contextlib.closing(ScoreCache(state, about["branch"], identity)) as cache:
            for part, requests in parts.items():
                if part == "last_endpoint" and path != models[-1]:
                    continue
                labels = {"run": run, "part": part, "branch": about["branch"], "branch_step": about["branch_step"]}
                for group in groups(requests):
                    try:
                        scored = scores_of(group, model, cache, settings.context)
                    except UserError as error:
                        raise UserError(f"{path}: {error}") from None
                    yield table(
                        [row for request in group for row in rows_of(request, scored[request["tree"]], labels)], SCORES
                    )


def main(argv: Sequence[str]) -> None:
    reads = ["models*", *(f"{part}?" for part in PARTS)]
    job = read_job(MODULE, __doc__, argv, ScoringSettings, reads, ["out"], Options)
    torch.set_num_threads(1)  # the bits depend on it
    parts = {part: path for part in PARTS for path in job.paths(part)}
    if not parts:
        raise UserError("nothing to score: give --all-endpoints, --last-endpoint or both")
    for path in parts.values():
        next(groups(path), None)  # so that a file that cannot be read says so before anything is computed
    schema = SCORES.with_metadata({KEY: canonical_json(job.origin)})
    with (
        locked(job.options.state, "scores this run"),
        replacing(job.path("out")) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for piece in score(job.paths("models"), parts, job.settings, job.options.state):
            writer.write_table(piece.cast(schema))


if __name__ == "__main__":
    command(main)
