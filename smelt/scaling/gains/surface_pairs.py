"""What two surfaces say side by side, whatever the budget: exponents of their frontiers, crossover of their data terms.

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
from smelt.scaling.gains.comparison import FittedSurface, drawn, faults, point, sentence, support
from smelt.scaling.settings import Settings
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


def pair_rows(
    target: FittedSurface, reference: FittedSurface, labels: Sequence[str], settings: Settings
) -> list[dict[str, Any]]:
    """One row of a pair, or one for each label where they differ."""
    if _alike(target, labels, settings) and _alike(reference, labels, settings):
        return [_row(target, reference, labels[0], settings) | {"sparsity": None}]
    return [_row(target, reference, label, settings) | {"sparsity": label} for label in labels]


def _alike(side: FittedSurface, labels: Sequence[str], settings: Settings) -> bool:
    """Whether the data term and the exponents are the same at all labels (or there is no surface at all)."""
    if side.values is None:
        return True
    first, *others = ([one.K, one.a, one.c] for one in (point(side, label, settings) for label in labels))
    return all(np.array_equal(first, other) for other in others)


def _row(target: FittedSurface, reference: FittedSurface, label: str, settings: Settings) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SURFACE_PAIRS.names)
    row |= {"architecture": target.name, "reference": reference.name, "s_convention": settings.s_convention}
    row |= {"endpoints": target.points.rows.size + reference.points.rows.size, "draws": 0}
    reasons = faults(target, label, settings) + faults(reference, label, settings)
    if not reasons:
        reasons = _fill(row, target, reference, label, settings)
    row["reason"] = sentence(reasons)
    return row


def _fill(
    row: dict[str, Any], target: FittedSurface, reference: FittedSurface, label: str, settings: Settings
) -> list[str]:
    """Fill the numbers of a row; return its reasons."""
    mine, other = point(target, label, settings), point(reference, label, settings)
    held = support(target, reference, label=label, settings=settings)
    many, others = drawn(target, label, settings), drawn(reference, label, settings)
    with np.errstate(all="ignore"):  # of the draws that are not used
        ratios = frontier.gamma(many) / frontier.gamma(others)
    row["gamma_ratio"] = float(frontier.gamma(mine) / frontier.gamma(other))
    row["gamma_ratio_low"], row["gamma_ratio_high"] = held.interval(ratios)
    row["draws"] = held.count
    return held.notes + _fill_crossover(row, float(_log_crossover(mine, other)), _log_crossover(many, others), held)


def _fill_crossover(row: dict[str, Any], here: float, many: Array, held: UsableDraws) -> list[str]:
    if np.isnan(here):
        return ["no crossover: the data terms are the same"]
    row["data_crossover_tokens"] = _tokens(here)
    # Draws whose exponents are close to each other put the crossover anywhere; the quantiles stand that.
    low, high = held.interval(np.clip(np.nan_to_num(many, nan=0), -frontier.LARGEST, frontier.LARGEST))
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
