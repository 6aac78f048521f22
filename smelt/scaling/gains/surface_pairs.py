"""What two surfaces say side by side, at any budget: exponents of their frontiers, crossover of their data terms.

Below the crossover the architecture whose data term falls more slowly loses less for want of text, above it
the other. With the sparsity the pair can change only in surfaces whose exponents depend on the experts; then
there is a row for each label.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.fitting.intervals import UsableDraws
from smelt.scaling.gains.allocation import REASON
from smelt.scaling.gains.comparison import Comparison, sentence
from smelt.scaling.gains.frontiers import Frontier
from smelt.surfaces import frontier
from smelt.surfaces.points import Array

SURFACE_PAIRS = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("gamma_ratio", pa.float64(), "exponent of its frontier in compute over the reference's"),
        field("gamma_ratio_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("gamma_ratio_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        field("data_crossover_tokens", pa.float64(), "D at which the two data terms are equal"),
        field("data_crossover_tokens_low", pa.float64(), "low end of its 95 % bootstrap interval"),
        field("data_crossover_tokens_high", pa.float64(), "high end of its 95 % bootstrap interval"),
        field("endpoints", pa.int32(), "fitted endpoints of both architectures"),
        field("draws", pa.int32(), "bootstrap draws that the intervals use"),
        field("s_convention", pa.string(), "convention of S"),
        REASON,
        field("sparsity", pa.string(), "label that the pair belongs to; missing where it is the same at all"),
    ]
)


def pair_rows(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """One row of a pair of architectures, compared at each label, or one for each label where they differ."""
    if _alike([one.target for one in comparisons]) and _alike([one.reference for one in comparisons]):
        return [_row(comparisons[0]) | {"sparsity": None}]
    return [_row(one) | {"sparsity": one.label} for one in comparisons]


def _alike(frontiers: Sequence[Frontier]) -> bool:
    """Whether the data term and the exponents are the same at all labels (or there is no surface at all)."""
    if frontiers[0].surface.values is None:
        return True
    first, *others = ([one.fitted.K, one.fitted.a, one.fitted.c] for one in frontiers)
    return all(np.array_equal(first, other) for other in others)


def _row(comparison: Comparison) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SURFACE_PAIRS.names)
    row |= {"architecture": comparison.target.name, "reference": comparison.reference.name}
    row |= {"s_convention": comparison.settings.s_convention, "endpoints": comparison.endpoints, "draws": 0}
    reasons = comparison.invalid_because or _fill(row, comparison)
    row["reason"] = sentence(reasons)
    return row


def _fill(row: dict[str, Any], comparison: Comparison) -> list[str]:
    """Fill the numbers of a row; return its reasons."""
    target, reference, usable = comparison.target, comparison.reference, comparison.usable
    with np.errstate(all="ignore"):  # of the draws that are not used
        ratios = frontier.gamma(target.drawn) / frontier.gamma(reference.drawn)
    row["gamma_ratio"] = float(frontier.gamma(target.fitted) / frontier.gamma(reference.fitted))
    row["gamma_ratio_low"], row["gamma_ratio_high"] = usable.interval(ratios)
    row["draws"] = usable.count
    crossover = float(_log_crossover(target.fitted, reference.fitted))
    return usable.caveats + _fill_crossover(row, crossover, _log_crossover(target.drawn, reference.drawn), usable)


def _fill_crossover(row: dict[str, Any], fitted: float, drawn: Array, usable: UsableDraws) -> list[str]:
    if np.isnan(fitted):
        return ["no crossover: the data terms are the same"]
    row["data_crossover_tokens"] = _tokens(fitted)
    # Draws whose exponents are close to each other put the crossover anywhere; the quantiles stand that.
    low, high = usable.interval(np.clip(np.nan_to_num(drawn, nan=0), -frontier.LARGEST, frontier.LARGEST))
    if low is None or high is None:
        return []
    row["data_crossover_tokens_low"], row["data_crossover_tokens_high"] = _tokens(low), _tokens(high)
    far = [end for end, value in (("low", low), ("high", high)) if _tokens(value) is None]
    return [f"the {' and the '.join(far)} end of the crossover's interval is beyond all numbers"] if far else []


def _log_crossover(target: frontier.Slice, reference: frontier.Slice) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.log(frontier.data_crossover(target, reference)))


def _tokens(log_tokens: float) -> float | None:
    return float(np.exp(log_tokens)) if abs(log_tokens) < frontier.LARGEST else None
