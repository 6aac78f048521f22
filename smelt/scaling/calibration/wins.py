"""Matched pairs in which an architecture's score beats the reference's."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from smelt.artifacts import field
from smelt.labels import KEYS, Row
from smelt.scaling.calibration.series import Series, Settings

WINS = pa.schema(
    [
        field("metric", pa.string(), "core, completion, mmlu or any other name"),
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("pairs", pa.int32(), "pairs counted: same scale, sparsity, seed and branch step"),
        field("wins", pa.int32(), "pairs in which the architecture's score is better"),
        field("ties", pa.int32(), "pairs whose scores are equal"),
        field("losses", pa.int32(), "pairs in which the reference's score is better"),
        field("rule", pa.string(), "which pairs count"),
        field("reason", pa.string(), "pairs left out, or why nothing was counted"),
    ]
)
ROUNDING = 1e-9  # so that 0.35 is 0.10 above 0.25


def win_rows(series: Sequence[Series], endpoints: Sequence[Row], settings: Settings) -> list[dict[str, Any]]:
    """One row for each metric and architecture but the reference."""
    rows = []
    for one in (one for one in series if not one.task):
        scores: dict[str, dict[tuple[Any, ...], float]] = {}
        for place, score in zip(one.rows.tolist(), one.score.tolist(), strict=True):
            name, *pair = (endpoints[place][name] for name in KEYS)
            scores.setdefault(name, {})[tuple(pair)] = score
        theirs = scores.pop(settings.reference, {})
        rows += [_row(one, name, scores[name], theirs, settings) for name in sorted(scores)]
    return rows


def _row(
    series: Series,
    name: str,
    mine: dict[tuple[Any, ...], float],
    theirs: dict[tuple[Any, ...], float],
    settings: Settings,
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(WINS.names)
    row |= {"metric": series.metric, "architecture": name, "reference": settings.reference, "rule": "all pairs"}
    pairs = [pair for pair in mine if pair in theirs]
    if not pairs:
        return row | {"pairs": 0, "reason": f"no endpoint of {settings.reference} has a score in the same place"}
    lone = len(mine) + len(theirs) - 2 * len(pairs)
    notes = [f"{lone} scores without a partner"] if lone else []
    counted = pairs
    if series.metric in settings.margin_metrics:
        row["rule"] = f"pairs in which {settings.reference} is at least {settings.margin:g} above chance"
        if series.chance is None:
            return row | {"reason": f"no chance level of {series.metric}; give it in the column chance"}
        row["rule"] += f" ({series.chance:g})"
        counted = [pair for pair in pairs if theirs[pair] - series.chance >= settings.margin - ROUNDING]
        notes += [f"{len(pairs) - len(counted)} of {len(pairs)} pairs left out"] if len(counted) < len(pairs) else []
    better = [-series.sign * (mine[pair] - theirs[pair]) for pair in counted]
    row |= {"pairs": len(counted), "wins": sum(gap > 0 for gap in better), "ties": sum(gap == 0 for gap in better)}
    row |= {"losses": sum(gap < 0 for gap in better), "reason": "; ".join(notes) or None}
    return row
