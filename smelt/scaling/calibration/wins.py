"""Win counts: matched pairs in which an architecture's score beats the reference's."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from smelt.artifacts import field
from smelt.labels import KEYS
from smelt.scaling.calibration.series import Series
from smelt.scaling.calibration.settings import Settings

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


def win_rows(series: Sequence[Series], endpoints: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    """Win counts: one row of WINS for each metric and architecture but the reference."""
    rows = []
    for metric in (one for one in series if not one.task):
        scores = endpoints[list(KEYS)].iloc[metric.rows].assign(score=metric.score)
        reference = scores[scores["architecture"] == settings.reference].drop(columns="architecture")
        others = scores[scores["architecture"] != settings.reference]
        for name, target in others.groupby("architecture", sort=True):
            pairs = target.merge(reference, on=list(KEYS[1:]), suffixes=("", "_reference"))
            lone = len(target) + len(reference) - 2 * len(pairs)
            rows.append(_row(metric, str(name), pairs, lone, settings))
    return rows


def _row(series: Series, name: str, pairs: pd.DataFrame, lone: int, settings: Settings) -> dict[str, Any]:
    """The row of one architecture; `pairs` have a score and a score_reference, `lone` scores have no partner."""
    row: dict[str, Any] = dict.fromkeys(WINS.names)
    row |= {"metric": series.metric, "architecture": name, "reference": settings.reference, "rule": "all pairs"}
    if pairs.empty:
        return row | {"pairs": 0, "reason": f"no endpoint of {settings.reference} has a score in the same place"}
    notes = [f"{lone} scores without a partner"] if lone else []
    counted = pairs
    if series.metric in settings.margin_metrics:
        row["rule"] = f"pairs in which {settings.reference} is at least {settings.margin:g} above chance"
        if series.chance is None:
            return row | {"reason": f"no chance level of {series.metric}; give it in the column chance"}
        row["rule"] += f" ({series.chance:g})"
        counted = pairs[pairs["score_reference"] - series.chance >= settings.margin - ROUNDING]
        notes += [f"{len(pairs) - len(counted)} of {len(pairs)} pairs left out"] if len(counted) < len(pairs) else []
    better = -series.sign * (counted["score"] - counted["score_reference"])
    counts = {"wins": int((better > 0).sum()), "ties": int((better == 0).sum()), "losses": int((better < 0).sum())}
    return row | {"pairs": len(counted), **counts, "reason": "; ".join(notes) or None}
