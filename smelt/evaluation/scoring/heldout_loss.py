"""Held-out loss of a run's endpoints, by document.

Reads the endpoint models of one run and the packed held-out contexts; writes one row for each endpoint and
segment with its summed cross-entropy. All averages (source, category, length) are group-bys of these rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from smelt import shards
from smelt.artifacts import field, read_table, table
from smelt.errors import UserError, command
from smelt.evaluation.scoring.endpoint import read_model
from smelt.evaluation.settings import EvaluationSettings
from smelt.job import read_job
from smelt.labels import check_run
from smelt.model.transformer import Transformer, next_token_loss

MODULE = "smelt.evaluation.scoring.heldout_loss"

LOSSES = pa.schema(
    [
        field("run", pa.string(), "name of the run"),
        field("branch", pa.int32(), "number of the decay branch, from 1"),
        field("branch_step", pa.int32(), "stable step at which the decay branches off"),
        field("document", pa.string(), "id of the document: the hash of its text"),
        field("piece", pa.int32(), "number of the piece, 0 where the document is whole"),
        field("source", pa.string(), "source of the document"),
        field("category", pa.string(), "category of the source"),
        field("tokens", pa.int32(), "targets: the segment's tokens but BOS"),
        field("document_tokens", pa.int32(), "length of the whole document in tokens"),
        field("loss", pa.float64(), "summed cross-entropy of the targets, nats"),
    ]
)


BATCH_TOKENS = 4096  # places of the contexts in one forward pass, which costs time of its own


def segment_losses(model: Transformer, contexts: Sequence[dict[str, Any]]) -> list[float]:
    """Summed cross-entropy (nats) of each segment of packed contexts, in order, from one forward pass.

    With bfloat16 experts a segment's loss has the same bits whatever stands in the pass beside it.
    """
    lengths = [length for context in contexts for length in context[shards.SEGMENTS]]
    tokens = torch.cat([torch.tensor(context[shards.TOKENS][: sum(context[shards.SEGMENTS])]) for context in contexts])
    with torch.inference_mode():
        losses = next_token_loss(model, model(tokens, lengths).hidden, tokens, lengths).double()
    return [float(part.sum()) for part in losses.split([length - 1 for length in lengths])]


def _batches(contexts: Sequence[dict[str, Any]], precision: torch.dtype) -> list[Sequence[dict[str, Any]]]:
    """Contexts of one forward pass each: one alone in float32, whose grouped products round by their number of rows."""
    places = len(contexts[0][shards.TOKENS]) if contexts else BATCH_TOKENS
    each = max(1, BATCH_TOKENS // places) if precision == torch.bfloat16 else 1
    return [contexts[start : start + each] for start in range(0, len(contexts), each)]


def evaluate(
    path: str | Path, model: Transformer, about: Mapping[str, Any], contexts: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of LOSSES for the endpoint that `read_model` read at `path`.

    Raises UserError, naming the document, on a loss that is not finite.
    """
    rows = []
    for batch in _batches(contexts, model.precision):
        segments = [(context, index) for context in batch for index in range(len(context[shards.SEGMENTS]))]
        for (context, index), loss in zip(segments, segment_losses(model, batch), strict=True):
            document = context[shards.DOCUMENTS][index]
            if loss != loss or loss == float("inf"):
                raise UserError(f"{path}: the loss of document {document} ({context['sources'][index]}) is {loss}")
            rows.append(
                {
                    "run": about["run"],
                    "branch": about["branch"],
                    "branch_step": about["branch_step"],
                    "document": document,
                    "piece": context[shards.PIECES][index],
                    "source": context[shards.SOURCES][index],
                    "category": context[shards.CATEGORIES][index],
                    "tokens": context[shards.SEGMENTS][index] - 1,
                    "document_tokens": context[shards.DOCUMENT_TOKENS][index],
                    "loss": loss,
                }
            )
    return rows


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, EvaluationSettings, ["models*", "heldout"], ["out"])
    torch.set_num_threads(1)  # the bits depend on it
    precision = getattr(torch, job.settings.precision)
    contexts = read_table(job.path("heldout")).to_pylist()
    rows: list[dict[str, Any]] = []
    run = None
    for path in job.paths("models"):
        model, about = read_model(path, precision)
        run = run or about["run"]
        check_run(path, [about["run"]], run)
        rows += evaluate(path, model, about, contexts)
    job.write("out", table(rows, LOSSES))


if __name__ == "__main__":
    command(main)
