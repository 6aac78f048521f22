"""Packing: this package against Python lists, as one writes it for `datasets.map(batched=True)`.

    python -m benchmarks.packing

Both take the same documents' tokens from Arrow, cut them, pack them best fit decreasing into contexts of
4096 tokens, and give Arrow back; the rows are checked to be equally full. They alternate within one run, and
the ratio of the medians is printed. A second line shows concatenate-and-cut (`group_texts` of the Hugging
Face examples), which packs nothing: documents are cut at every context's end.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from smelt.corpus.contexts.contexts import contexts_table, pieces_of
from smelt.corpus.contexts.packing import best_fit

CONTEXT = 4096


def documents(count: int) -> pa.Table:
    """Documents whose lengths are spread like those of the desk corpus: median 200 tokens, a tail beyond 4096."""
    rng = np.random.default_rng(0)
    lengths = np.clip(np.exp(rng.normal(np.log(200), 1.5, count)), 8, 60_000).astype(np.int64)
    tokens = rng.integers(1, 1024, lengths.sum()).astype(np.uint16)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.table(
        {"id": [f"{i:064x}" for i in range(count)], "tokens": pa.ListArray.from_arrays(offsets, pa.array(tokens))}
    )


def ours(table: pa.Table) -> pa.Table:
    """The path of `smelt.corpus.contexts.shard`, from tokens to the table of contexts."""
    column = table["tokens"].combine_chunks()
    flat, offsets = column.flatten().to_numpy(), column.offsets.to_numpy()
    tokens = [flat[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    identities = table["id"].to_pylist()
    rows = [{"position": i, "id": identity, "source": "", "category": ""} for i, identity in enumerate(identities)]
    pieces = list(pieces_of(rows, tokens, CONTEXT))
    packed = best_fit([piece.length for piece in pieces], CONTEXT)
    return contexts_table([[pieces[index] for index in row] for row in packed], 0, CONTEXT)


def with_lists(table: pa.Table) -> pa.Table:
    """The same by lists of Python integers and a search through the open rows."""
    batch = table.to_pydict()
    pieces = []
    for identity, tokens in zip(batch["id"], batch["tokens"], strict=True):
        for start in range(0, len(tokens), CONTEXT - 1):
            pieces.append((identity, [0, *tokens[start : start + CONTEXT - 1]]))
    pieces.sort(key=lambda piece: -len(piece[1]))
    rows: list[dict] = []
    for identity, tokens in pieces:
        best = None
        for row in rows:
            room = CONTEXT - len(row["tokens"])
            if room >= len(tokens) and (best is None or room < CONTEXT - len(best["tokens"])):
                best = row
        if best is None:
            best = {"tokens": [], "segments": [], "documents": []}
            rows.append(best)
        best["tokens"] += tokens
        best["segments"].append(len(tokens))
        best["documents"].append(identity)
    for row in rows:
        row["tokens"] += [0] * (CONTEXT - len(row["tokens"]))
    return pa.table(
        {
            "tokens": pa.array([row["tokens"] for row in rows], pa.list_(pa.uint16(), CONTEXT)),
            "segments": [row["segments"] for row in rows],
            "documents": [row["documents"] for row in rows],
        }
    )


def concatenated(table: pa.Table) -> pa.Table:
    """Concatenate and cut, by lists of Python integers."""
    flat = list(itertools.chain.from_iterable([0, *tokens] for tokens in table["tokens"].to_pylist()))
    rows = [flat[start : start + CONTEXT] for start in range(0, len(flat) - CONTEXT + 1, CONTEXT)]
    return pa.table({"tokens": pa.array(rows, pa.list_(pa.uint16(), CONTEXT))})


def fills(table: pa.Table) -> list[int]:
    return sorted(sum(segments) for segments in table["segments"].to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    table = documents(arguments.documents)
    contestants: dict[str, Callable[[pa.Table], pa.Table]] = {
        "ours": ours,
        "lists, best fit": with_lists,
        "lists, concatenate and cut": concatenated,
    }
    if fills(ours(table)) != fills(with_lists(table)):
        raise AssertionError("the two packings differ")
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, function in contestants.items():
            start = time.perf_counter()
            function(table)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    filled = fills(ours(table))
    share = np.mean(filled) / CONTEXT
    print(f"{arguments.documents} documents, {sum(filled)} tokens, {len(filled)} contexts, fill {share:.2%}")
    for name, median in medians.items():
        print(f"{name:28} {median:8.3f} s   {median / medians['ours']:6.1f} x ours")


if __name__ == "__main__":
    main()
