"""Artifacts of the scaling stage from closed forms, without its engine: Eq. 2 with the published coefficients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from smelt.tables import from_arrow

Row = dict[str, Any]
COEFFICIENTS = {  # E, A, K, a, b, c: the table of arXiv 2609.01343
    "baseline": (1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594),
    "smelt": (1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011),
}
FLOPS = {"100M": 6.4e8, "200M": 1.33e9, "600M": 4.2e9, "1.6B": 1.02e10}
SPARSITIES = ("S85", "S95", "S97")
VALUES = {label: float(label[1:]) / 100 for label in ("S50", "S60", "S70", "S80", "S85", "S90", "S95", "S97", "S98")}
TOKENS = tuple(int(1e9 * value) for value in (20.5, 31.0, 62.4, 114.9, 167.3, 215.6))
BUDGETS = (1e20, 1e21, 1e22)
DRAWS = 2000


def loss(surface: Sequence[float], flops: float, sparsity: float, tokens: float) -> float:
    """Eq. 2 in nats."""
    E, A, K, a, b, c = surface
    return E + A * (1 - sparsity) ** b / flops**a + K / tokens**c


def optimum(surface: Sequence[float], compute: float, sparsity: float) -> tuple[float, float]:
    """F* and D* of Eq. 3."""
    _, A, K, a, b, c = surface
    flops = (a * A * (1 - sparsity) ** b * compute**c / (c * K)) ** (1 / (a + c))
    return flops, compute / flops


def frontier_loss(surface: Sequence[float], compute: float, sparsity: float) -> float:
    """L* of Eq. 4."""
    flops, tokens = optimum(surface, compute, sparsity)
    return loss(surface, flops, sparsity, tokens)


def stage(
    scales: Sequence[str] = tuple(FLOPS),
    sparsities: Sequence[str] = SPARSITIES,
    names: Sequence[str] = ("baseline", "smelt"),
    source: str = "trained",
    noise: float = 0.006,
    fitted: bool = True,
    interval: bool = True,
    surface: str = "smelt",
) -> dict[str, list[Row]]:
    """The rows of each artifact of a study; `fitted`: whether its endpoints determine surfaces."""
    endpoints = _endpoints(scales, sparsities, names, source, noise)
    kept = names if fitted else ()
    trained = [row["training_flops"] for row in endpoints]
    curve = np.geomspace(min(trained), 10 * max(trained), 81).tolist()
    each = len(endpoints) // len(names)
    places = [(one, label) for one in names if one != "baseline" for label in sparsities]
    return {
        "iso_loss_gain": _iso_loss_gains([name for name in names if name != "baseline"], scales, sparsities),
        "endpoints": endpoints,
        "coefficients": [_coefficients(name, each, fitted, interval, surface) for name in names],
        "residuals": [_residual(row) for row in endpoints] if fitted else [],
        "frontier": [_frontier(name, label, at, interval) for name in kept for label in sparsities for at in curve],
        "ce_gain": [_gain(*place, at, fitted, interval) for at in BUDGETS for place in places],
        "gain_curve": [_gain(*place, at, True, interval) for place in places for at in curve if fitted],
    }


TEXTS = {"architecture", "reference", "scale", "sparsity", "window", "source", "surface", "resample", "at_bound"}
TEXTS |= {"s_convention", "reason", "kind", "bound"}
INTEGERS = {"seed", "branch_step", "tokens", "endpoints", "draws", "horizon"}


def typed(name: str, rows: Sequence[Row]) -> pa.Table:
    """The rows of artifact `name` as a table, which has its columns without a row too."""
    columns = list(rows[0]) if rows else list(stage()[name][0])
    kinds = {column: pa.string() for column in TEXTS} | {column: pa.int64() for column in INTEGERS}
    kinds |= {"resolved": pa.bool_()}
    schema = pa.schema([(column, kinds.get(column, pa.float64())) for column in columns])
    return pa.Table.from_pylist(list(rows), schema=schema)


def frames(read: Mapping[str, Sequence[Row]]) -> dict[str, pd.DataFrame]:
    """The artifacts as a figure's command reads them."""
    return {name: from_arrow(typed(name, rows)) for name, rows in read.items()}


def write(read: Mapping[str, Sequence[Row]], folder: Path) -> Path:
    """The artifacts as files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in read.items():
        pq.write_table(typed(name, rows), folder / f"{name}.parquet")
    return folder


def surface_of(name: str) -> Sequence[float]:
    """The published coefficients; any other architecture has SMELT's with a slightly lower A."""
    return COEFFICIENTS.get(name, (1.4493, 1.9e3, 5.264e6, 0.3892, 0.1460, 0.7011))


def _endpoints(
    scales: Sequence[str], sparsities: Sequence[str], names: Sequence[str], source: str, noise: float
) -> list[Row]:
    random = np.random.default_rng(7)
    rows = []
    for name in names:
        for scale in scales:
            for label in sparsities:
                shift = 0.5 * noise * random.normal()  # what the branches of a run have in common
                for step, tokens in enumerate(TOKENS, start=1):
                    exact = loss(surface_of(name), FLOPS[scale], VALUES[label], tokens)
                    rows.append(
                        {
                            "architecture": name,
                            "scale": scale,
                            "sparsity": label,
                            "seed": 0,
                            "branch_step": step,
                            "tokens": tokens,
                            "flops_per_token": FLOPS[scale],
                            "training_flops": FLOPS[scale] * tokens,
                            "S": VALUES[label],
                            "loss": exact + shift + noise * random.normal(),
                            "source": source,
                        }
                    )
    return rows


def _coefficients(name: str, endpoints: int, fitted: bool, interval: bool, surface: str) -> Row:
    row: Row = {"architecture": name, "surface": surface, "resample": "cells", "s_convention": "own"}
    row |= {"endpoints": endpoints, "draws": DRAWS if fitted and interval else 0, "at_bound": "none"}
    if not fitted:
        short = f"{endpoints} endpoints (scales: 1, sparsities: 1, token counts: 6) do not determine 5 coefficients"
        return row | dict.fromkeys(("E", "rmse_nats", "inside_delta")) | {"reason": short}
    return row | {"E": surface_of(name)[0], "rmse_nats": 0.0068, "inside_delta": 0.125, "reason": None}


def _residual(row: Row) -> Row:
    predicted = loss(surface_of(row["architecture"]), row["flops_per_token"], row["S"], row["tokens"])
    kept = {name: value for name, value in row.items() if name != "source"}
    return kept | {"predicted": predicted, "residual_nats": predicted - row["loss"]}


def _iso_loss_gains(names: Sequence[str], scales: Sequence[str], sparsities: Sequence[str]) -> list[Row]:
    """Made-up gains: bounds at the first horizon, then rising ones of all cells, around which the cells lie."""
    rows = []
    for name in names:
        for kind, scale, sparsity in [
            ("all", None, None),
            *(("cell", at, label) for at in scales for label in sparsities),
        ]:
            for horizon, tokens in enumerate(TOKENS, start=1):
                first, alone, gain = horizon == 1, kind == "cell", 0.03 * (horizon - 2)
                row: Row = {"architecture": name, "reference": "baseline", "kind": kind, "scale": scale}
                row |= {"sparsity": sparsity, "horizon": horizon, "tokens": tokens, "gain": gain}
                row |= {"gain_low": gain - 0.05, "gain_high": gain + 0.05, "bound": None, "resolved": gain > 0.05}
                row |= {"reason": "the interval spans zero"} if gain <= 0.05 else {"reason": None}
                if alone:
                    gain += 0.02 * (scales.index(str(scale)) - 1)
                    row |= {"gain": gain, "gain_low": None, "gain_high": None, "resolved": False}
                    row |= {"bound": "at least" if gain > 0 else "at most"} if first else {}
                elif first:
                    row |= {"gain": None, "gain_low": None, "gain_high": None, "reason": "no mean: bounds alone"}
                rows.append(row)
    return rows


def _window(name: str, label: str, budget: float) -> str:
    if not min(FLOPS.values()) * TOKENS[0] <= budget <= max(FLOPS.values()) * TOKENS[-1]:
        return "extrapolated"
    flops, tokens = optimum(surface_of(name), budget, VALUES[label])
    held = min(FLOPS.values()) <= flops <= max(FLOPS.values()) and TOKENS[0] <= tokens <= TOKENS[-1]
    return "inside" if held else "edge"


def _width(budget: float) -> float:
    """A made-up half width of an interval, least in the middle of the window."""
    return 0.002 * (1 + abs(np.log10(budget) - 20.5) ** 2)


def _frontier(name: str, label: str, budget: float, interval: bool) -> Row:
    middle = frontier_loss(surface_of(name), budget, VALUES[label])
    ends = (middle - _width(budget), middle + _width(budget)) if interval else (None, None)
    row = {"architecture": name, "sparsity": label, "S": VALUES[label], "budget_flops": budget, "loss": middle}
    return row | {"low": ends[0], "high": ends[1], "window": _window(name, label, budget)}


def _gain(name: str, label: str, budget: float, fitted: bool, interval: bool) -> Row:
    row: Row = {"architecture": name, "reference": "baseline", "sparsity": label, "S": VALUES[label]}
    row |= {"budget_flops": budget, "gain": None, "gain_low": None, "gain_high": None, "draws": 0}
    row |= {"window": _window(name, label, budget), "resolved": False, "reason": f"{name}: E on a bound of the fit"}
    if not fitted:
        return row
    E, _, _, a, _, c = COEFFICIENTS["baseline"]
    level = frontier_loss(COEFFICIENTS["baseline"], 1.0, VALUES[label]) - E  # f(S) of Eq. 4
    above = frontier_loss(surface_of(name), budget, VALUES[label]) - E
    gain = 1 - budget / (level / above) ** ((a + c) / (a * c))
    row |= {"gain": gain, "reason": "no interval: 17.9 % of the draws leave a coefficient unidentified"}
    if not interval:
        return row
    half = 15 * _width(budget)
    reason = "extrapolated beyond the trained compute" if row["window"] == "extrapolated" else None
    row |= {"gain_low": gain - half, "gain_high": min(gain + half, 1.0), "draws": DRAWS, "reason": reason}
    return row | {"resolved": reason is None and half < abs(gain)}
