"""Columns of a table of endpoints against one another: units that each column alone allows, but not together.

FLOPs are compared with parameters, tokens with FLOPs, and the sides of each cell with one another. What is refused is
off by a factor that no training has; what is only unlikely is a warning. docs/endpoints.md names the factors.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from smelt.labels import RUN_KEYS
from smelt.scaling.endpoints.parameters import COUNTS, FLOPS_PER_PARAMETER, executed
from smelt.surfaces.points import Array
from smelt.tables import numbers

REFUSED = 100  # times 6 FLOPs per parameter, or a part of it
LIKELY = (0.5, 4.0)  # times 6 FLOPs per parameter: attention and visits add, embeddings counted as parameters take away
LEAST_TOKENS, MOST_TOKENS = 0.01, 1e6  # per dense-equivalent parameter, F / 6
SAME = 0.02  # relative spread of what is the same throughout
SPREAD = 1.5  # factor of D that a run must span before its F can be called proportional to D
LEAST_SHARE = 1e3  # of F over D where F grows with D: from here on F is no cost of one token
WHOLE = (0.1, 30.0)  # times 6 N D: what the FLOPs of a whole training are
SIDES = 300  # times between the two sides of every cell
MOST_ACTIVE = 1.5  # times the parameters, for active ones

Place = Callable[[int, str], str]  # where a row (from 0) stands in the file, and its column


def mistakes(endpoints: pd.DataFrame, place: Place) -> list[str]:
    """One line for each mistake in units, with its place; empty where all fit together.

    `endpoints` has the columns of ENDPOINTS, its rows being those of the file.
    """
    whole = list(_whole_training(endpoints, place))
    return whole or [
        *_more_active(endpoints, place),
        *_per_parameter(endpoints, place),
        *_tokens(endpoints, place),
        *_sides(endpoints, place),
    ]


def warnings(endpoints: pd.DataFrame) -> list[str]:
    """One line for each architecture whose FLOPs are unlikely beside its parameters."""
    lines, ratio = [], _ratio(endpoints)
    for name, rows in _architectures(endpoints):
        known = ratio[rows][~np.isnan(ratio[rows])]
        if known.size and (known.max() < LIKELY[0] or known.min() > LIKELY[1]):
            said = (
                "forward FLOPs are a third of training FLOPs, and N has no embedding"
                if known.max() < LIKELY[0]
                else "long contexts or visits of shared layers explain that, other units do not"
            )
            lines.append(
                f"{name}: flops_per_token is {known.min():.2g} to {known.max():.2g} times {FLOPS_PER_PARAMETER} FLOPs "
                f"per active parameter; {said}"
            )
    return lines


def _whole_training(endpoints: pd.DataFrame, place: Place) -> Iterator[str]:
    """F that is the FLOPs of a whole training: proportional to D, and as large as 6 N D where N is known."""
    flops, tokens = numbers(endpoints, "flops_per_token"), numbers(endpoints, "tokens")
    by_parameters = _ratio(endpoints) / tokens
    wrong = (by_parameters > WHOLE[0]) & (by_parameters < WHOLE[1]) & (_ratio(endpoints) > REFUSED)
    for _, run in endpoints.reset_index(drop=True).groupby(list(RUN_KEYS), sort=False):
        rows = run.index.to_numpy(dtype=np.int64)
        share = flops[rows] / tokens[rows]
        proportional = np.ptp(share) <= SAME * share.min() and np.ptp(np.log(tokens[rows])) >= np.log(SPREAD)
        wrong[rows] |= proportional and share.min() > LEAST_SHARE
    yield from _first(
        wrong,
        place,
        "flops_per_token",
        lambda row: (
            f"{flops[row]:.4g} is proportional to tokens and {flops[row] / tokens[row]:.3g} times as large: the FLOPs "
            "of the whole training; divide them by tokens"
        ),
    )


def _more_active(endpoints: pd.DataFrame, place: Place) -> Iterator[str]:
    params, active = numbers(endpoints, "params"), numbers(endpoints, "active_params")
    yield from _first(
        active > MOST_ACTIVE * params,
        place,
        "active_params",
        lambda row: f"{active[row]:.4g}, more than the {params[row]:.4g} params: are the columns swapped?",
    )


def _per_parameter(endpoints: pd.DataFrame, place: Place) -> Iterator[str]:
    ratio = _ratio(endpoints)
    yield from _first(
        (ratio > REFUSED) | (ratio < 1 / REFUSED),
        place,
        "flops_per_token",
        lambda row: (
            f"{ratio[row]:.3g} times {FLOPS_PER_PARAMETER} FLOPs per active parameter; a factor beyond {REFUSED} is "
            "another unit: write FLOPs per token and parameters one by one"
        ),
    )


def _tokens(endpoints: pd.DataFrame, place: Place) -> Iterator[str]:
    """D of each architecture against its F: tokens per dense-equivalent parameter."""
    tokens = numbers(endpoints, "tokens")
    by_parameter = FLOPS_PER_PARAMETER * tokens / numbers(endpoints, "flops_per_token")
    for name, rows in _architectures(endpoints):
        most, least = by_parameter[rows].max(), by_parameter[rows].min()
        if most < LEAST_TOKENS:
            yield (
                f"{place(int(rows[0]), 'tokens')}: {tokens[rows[0]]:.6g}; {name} has at most {most:.2g} tokens per "
                f"parameter (6 D / F), and {LEAST_TOKENS:g} are expected: tokens are counted one by one, not in "
                "thousands, millions or billions, and flops_per_token is the cost of one token"
            )
        elif least > MOST_TOKENS:
            yield (
                f"{place(int(rows[0]), 'flops_per_token')}: {name} has at least {least:.2g} tokens per parameter "
                f"(6 D / F), and at most {MOST_TOKENS:g} are expected: FLOPs are counted one by one"
            )


def _sides(endpoints: pd.DataFrame, place: Place) -> Iterator[str]:
    """F and D of the two sides of every cell, which have one unit."""
    for column in ("flops_per_token", "tokens"):
        medians = endpoints.groupby(["architecture", "scale", "sparsity"])[column].median()
        first, *others = (str(name) for name in sorted(endpoints["architecture"].unique()))
        for name in others:
            times = (medians[name] / medians[first]).dropna().to_numpy(dtype=np.float64)
            if times.size > 1 and (times.min() > SIDES or times.max() < 1 / SIDES):
                row = int(np.flatnonzero(endpoints["architecture"] == name)[0])
                yield (
                    f"{place(row, column)}: in every cell {np.median(times):.2g} times that of {first}; one of them is "
                    "in another unit: write both in the same, plain one"
                )


def _ratio(endpoints: pd.DataFrame) -> Array:
    """F over 6 FLOPs per parameter that a token passes, (rows,); NaN where the parameters are unknown."""
    columns = {name: numbers(endpoints, name) for name in COUNTS}
    passed = executed(columns, 1 - numbers(endpoints, "S"))
    return numbers(endpoints, "flops_per_token") / (FLOPS_PER_PARAMETER * passed)


def _architectures(endpoints: pd.DataFrame) -> list[tuple[str, NDArray[np.int64]]]:
    """The positions of each architecture's rows."""
    groups = endpoints.reset_index(drop=True).groupby("architecture")
    return [(str(name), rows.index.to_numpy(dtype=np.int64)) for name, rows in groups]


def _first(wrong: NDArray[np.bool_], place: Place, column: str, said: Callable[[int], str]) -> Iterator[str]:
    """One line for the first of the rows that are wrong, which counts the others."""
    rows = np.flatnonzero(wrong).tolist()
    if rows:
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        yield f"{place(rows[0], column)}: {said(rows[0])}{more}"
