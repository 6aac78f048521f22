"""Log-probabilities of continuations, the same bits whatever they are packed with (in bfloat16, on one thread).

Only the positions that predict a scored token pass the output layer: a context's last token, which predicts the first
token of all its continuations, and the tokens of the branches. Logits and what follows are float32, sums over a
continuation float64.

A branch's attention adds in another order than that of a whole text does. In float32 a score is then off by some 1e-6
nats; in bfloat16 the experts' rounding makes that 1e-2, a tenth of what bfloat16 itself costs, in any layout.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smelt.evaluation.scoring.trees import Tree, branches, fed, pack
from smelt.model.transformer import Transformer

WINDOW = 2000  # trees in memory
CHUNK = 2**22  # logits in memory


class Scored(NamedTuple):
    """What the network makes of one continuation."""

    log_probability: float  # summed over its tokens, nats
    greedy: bool  # whether each of them is the likeliest (of equals the first) after those before it


class _Asked(NamedTuple):
    """Positions of a row that are scored, and which token is asked of which of them."""

    positions: NDArray[np.int64]  # (positions,) in the row
    place: NDArray[np.int64]  # (tokens scored,) index into `positions`
    token: NDArray[np.int64]  # (tokens scored,)
    lengths: list[int]  # tokens of each continuation, tree by tree


def score_trees(model: Transformer, trees: Iterable[Tree], context: int = 4096) -> Iterator[list[Scored]]:
    """The continuations of each tree, in the order of the trees.

    Reads `WINDOW` trees at a time and packs them into rows of `context` tokens. The scores do not depend on either; in
    float32 their last bits may.
    """
    remaining = iter(trees)
    while window := list(islice(remaining, WINDOW)):
        found: list[list[Scored]] = [[]] * len(window)
        for row in pack([fed(tree) for tree in window], context):
            for index, scored in zip(row, score_row(model, [window[index] for index in row]), strict=True):
                found[index] = scored
        yield from found


@torch.inference_mode()
def score_row(model: Transformer, trees: Sequence[Tree]) -> list[list[Scored]]:
    """The continuations of each tree of one row, run together."""
    tokens, asked = _fed(trees), _asked(trees)
    hidden = model(torch.from_numpy(tokens), [fed(tree) for tree in trees], [branches(tree) for tree in trees]).hidden
    values, likeliest = _predicted(model, hidden.index_select(0, torch.from_numpy(asked.positions)), asked)
    ends = np.cumsum([0, *asked.lengths]).tolist()
    scored = [Scored(math.fsum(values[start:end]), all(likeliest[start:end])) for start, end in pairwise(ends)]
    remaining = iter(scored)
    return [list(islice(remaining, len(tree.continuations))) for tree in trees]


def _fed(trees: Sequence[Tree]) -> NDArray[np.int64]:
    parts = [part for tree in trees for part in (tree.context, *(tokens[:-1] for tokens in tree.continuations))]
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])


def _asked(trees: Sequence[Tree]) -> _Asked:
    positions: list[int] = []
    place: list[int] = []
    start = 0
    for tree in trees:
        root = len(positions)
        start += len(tree.context)
        positions.append(start - 1)
        for tokens in tree.continuations:
            tail = len(tokens) - 1
            place += [root, *range(len(positions), len(positions) + tail)]
            positions += range(start, start + tail)
            start += tail
    continuations = [tokens for tree in trees for tokens in tree.continuations]
    token = np.concatenate([np.asarray(tokens, dtype=np.int64) for tokens in continuations])
    return _Asked(np.array(positions), np.array(place), token, [len(tokens) for tokens in continuations])


def _predicted(model: Transformer, hidden: Tensor, asked: _Asked) -> tuple[list[float], list[bool]]:
    """Log-probability of each scored token, and whether it is the likeliest; `CHUNK` logits are held at a time."""
    values = np.empty(len(asked.place), dtype=np.float32)
    likeliest = np.empty(len(asked.place), dtype=bool)
    order = np.argsort(asked.place, kind="stable")
    places = asked.place[order]
    rows = max(1, CHUNK // model.settings.vocabulary)
    for start in range(0, len(hidden), rows):
        logits = model.logits(hidden[start : start + rows])
        first, last = np.searchsorted(places, [start, start + len(logits)])
        at = order[first:last]
        place, token = torch.from_numpy(asked.place[at] - start), torch.from_numpy(asked.token[at])
        values[at] = logits.log_softmax(dim=-1)[place, token].numpy()
        likeliest[at] = (logits.argmax(dim=-1)[place] == token).numpy()
    return values.tolist(), likeliest.tolist()
