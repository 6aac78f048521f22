"""Held-out loss of a run's endpoints, by document.

Reads the endpoint models of one run and the packed held-out contexts; writes one row for each endpoint and
segment with its summed cross-entropy. All averages (source, category, length) are group-bys of these rows.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch

from smelt.artifacts import field, provenance, read_table, table, write_table
from smelt.errors import UserError, command
from smelt.evaluation.scoring.endpoint import read_model
from smelt.evaluation.settings import EvaluationSettings
from smelt.labels import check_run
from smelt.model.transformer import Transformer, next_token_loss
from smelt.spec import load

MODULE = "smelt.evaluation.scoring.heldout_loss"

LOSSES = pa.schema(
    [
        field("run", pa.string(), "name of the run"),
        field("branch", pa.int32(), "number of the decay branch, from 1"),
        field("branch_step", pa.int32(), "stable step that the branch leaves from"),
        field("document", pa.string(), "id of the document: the hash of its text"),
        field("piece", pa.int32(), "number of the piece, 0 where the document is whole"),
        field("source", pa.string(), "source of the document"),
        field("category", pa.string(), "category of the source"),
        field("tokens", pa.int32(), "targets: the segment's tokens but BOS"),
        field("document_tokens", pa.int32(), "length of the whole document in tokens"),
        field("loss", pa.float64(), "summed cross-entropy of the targets, nats"),
    ]
)


def segment_losses(model: Transformer, row: dict[str, Any]) -> list[float]:
    """Summed cross-entropy (nats) of each segment of a packed context."""
    lengths: list[int] = row["segments"]
    tokens = torch.tensor(row["tokens"][: sum(lengths)])
    with torch.inference_mode():
        losses = next_token_loss(model, model(tokens, lengths).hidden, tokens, lengths).double()
    return [float(part.sum()) for part in losses.split([length - 1 for length in lengths])]


def evaluate(path: str, contexts: list[dict[str, Any]], precision: torch.dtype) -> list[dict[str, Any]]:
    """Rows of LOSSES for one endpoint. Raises UserError, naming the document, on a loss that is not finite."""
    model, about = read_model(path, precision)
    rows = []
    for context in contexts:
        for index, loss in enumerate(segment_losses(model, context)):
            document = context["documents"][index]
            if loss != loss or loss == float("inf"):
                raise UserError(f"{path}: the loss of document {document} ({context['sources'][index]}) is {loss}")
            rows.append(
                {
                    "run": about["run"],
                    "branch": about["branch"],
                    "branch_step": about["branch_step"],
                    "document": document,
                    "piece": context["pieces"][index],
                    "source": context["sources"][index],
                    "category": context["categories"][index],
                    "tokens": context["segments"][index] - 1,
                    "document_tokens": context["document_tokens"][index],
                    "loss": loss,
                }
            )
    return rows


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--spec", required=True, help="canonical JSON of the evaluation settings")
    parser.add_argument("--models", nargs="+", required=True, help="endpoint models of one run")
    parser.add_argument("--heldout", required=True, help="packed held-out contexts (Parquet)")
    parser.add_argument("--out", required=True, help="losses by endpoint and document (Parquet)")
    arguments = parser.parse_args(argv)

    torch.set_num_threads(1)  # the bits depend on it
    spec = json.loads(arguments.spec)
    settings = load(EvaluationSettings, spec)
    contexts = read_table(arguments.heldout).to_pylist()
    rows: list[dict[str, Any]] = []
    for path in arguments.models:
        losses = evaluate(path, contexts, getattr(torch, settings.precision))
        check_run(path, (row["run"] for row in losses), (rows or losses)[0]["run"])
        rows += losses
    write_table(table(rows, LOSSES), arguments.out, provenance(MODULE, spec, [*arguments.models, arguments.heldout]))


if __name__ == "__main__":
    command(main)
