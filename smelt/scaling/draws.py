"""The fitted surfaces and their bootstrap draws as tables, and the intervals that the draws give."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smelt.artifacts import field, read_table
from smelt.scaling.frontier import meaningful
from smelt.scaling.settings import Array, column
from smelt.scaling.surface import NAMES, Coefficients

MOST_EXCLUDED = 0.10  # share of draws that may be excluded before there is no interval
QUANTILES = (0.025, 0.975)
HELD = "b is held at 0: there is one sparsity"  # in a reason

_UNITS = {
    "E": "irreducible loss, nats",
    "A": "level of the capacity term, nats (FLOPs per token)^a",
    "K": "level of the data term, nats tokens^c",
    "a": "exponent of F",
    "b": "exponent of 1 - S",
    "c": "exponent of D",
    "gamma": "exponent of the frontier in compute, a c / (a + c)",
}
DRAWS = pa.schema(
    [
        field("draw", pa.int32(), "index of the resample; the same cells for every architecture"),
        field("architecture", pa.string(), "execution plan"),
        *(field(name, pa.float64(), _UNITS[name]) for name in NAMES),
        field("objective", pa.float64(), "weighted sum of Huber losses of log loss"),
        field("converged", pa.bool_(), "whether the fit reached its minimum"),
        field("identified", pa.bool_(), "whether the resampled points determine all free coefficients"),
        field("at_bound", pa.string(), "coefficients on a bound, or none"),
    ]
)
COEFFICIENTS = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        *(field(name, pa.float64(), _UNITS[name]) for name in (*NAMES, "gamma")),
        field("rmse_nats", pa.float64(), "root mean square of prediction - loss"),
        field("endpoints", pa.int32(), "fitted endpoints"),
        field("objective", pa.float64(), "sum of Huber losses of log loss"),
        field("at_bound", pa.string(), "coefficients on a bound, or none"),
        *(
            field(f"{name}_{end}", pa.float64(), f"{end} end of the 95 % cell-bootstrap interval of {name}")
            for name in (*NAMES, "gamma")
            for end in ("low", "high")
        ),
        field("gradient_norm", pa.float64(), "of the objective in units of delta^2, at the minimum"),
        field("iterations", pa.int32(), "iterations of the best start"),
        field("starts", pa.int32(), "starts of the fit"),
        field("start_spread", pa.float64(), "(worst - best) / best objective over the starts"),
        field("start_share", pa.float64(), "share of starts within 1e-6 of the best objective"),
        field("inside_delta", pa.float64(), "share of residuals inside the Huber delta"),
        field("draws", pa.int32(), "bootstrap draws that the intervals use"),
        field("s_convention", pa.string(), "convention of S"),
        field("reason", pa.string(), "why a value is missing or held"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Draws:
    """The refitted surfaces of one architecture, one entry per draw."""

    surface: Coefficients
    converged: NDArray[np.bool_]
    identified: NDArray[np.bool_]
    at_bound: NDArray[np.str_]  # the coefficients on a bound in each draw, or "none"


@dataclasses.dataclass(frozen=True)
class Support:
    """Which draws an interval may use, and what to say of the others."""

    usable: NDArray[np.bool_]
    reason: str  # empty where all are used
    remark: str  # on the draws that are used

    @property
    def enough(self) -> bool:
        """Whether few enough are excluded for an interval to mean something."""
        return bool(self.usable.mean() >= 1 - MOST_EXCLUDED)

    @property
    def count(self) -> int:
        """How many draws the intervals use: none where there are none."""
        return int(self.usable.sum()) if self.enough else 0

    @property
    def notes(self) -> list[str]:
        """What to say beside an interval."""
        return [text for text in (self.reason, self.remark if self.enough else "") if text]

    def interval(self, values: Array) -> tuple[float | None, float | None]:
        """The 95 % percentile interval over the usable draws; nothing where too many are excluded."""
        if not self.enough:
            return None, None
        low, high = np.quantile(values[self.usable], QUANTILES)
        return float(low), float(high)


def support(draws: Sequence[Draws], frontier: bool = True) -> Support:
    """The draws in which every architecture given has a surface (and, for `frontier`, a frontier)."""
    causes = {"leave a coefficient unidentified": [~one.identified for one in draws]}
    causes["did not converge"] = [one.identified & ~one.converged for one in draws]
    if frontier:
        causes["have an exponent of zero"] = [one.converged & ~meaningful(one.surface) for one in draws]
    usable = np.ones(len(draws[0].identified), dtype=bool)
    parts = []
    for cause, masks in causes.items():
        excluded = np.logical_or.reduce(masks)
        usable &= ~excluded
        if excluded.any():
            parts.append(f"{100 * excluded.mean():.3g} % of the draws {cause}")
    bounded = usable & np.logical_or.reduce([one.at_bound != "none" for one in draws])
    remark = f"in {100 * bounded.mean():.3g} % of the draws a coefficient is on a bound" if bounded.any() else ""
    verdict = Support(usable, "", remark)
    if not parts:
        return verdict
    opening = "draws excluded: " if verdict.enough else "no interval: "
    return dataclasses.replace(verdict, reason=opening + ", ".join(parts))


def read_draws(path: str | Path) -> dict[str, Draws]:
    """The draws of each architecture, in order."""
    data = read_table(path)
    names = np.array(data["architecture"].to_pylist())
    chosen = {name: data.filter(pa.array(names == name)) for name in dict.fromkeys(names.tolist())}
    return {
        name: Draws(
            Coefficients(*(column(part, key) for key in NAMES)),
            np.array(part["converged"].to_pylist(), dtype=bool),
            np.array(part["identified"].to_pylist(), dtype=bool),
            np.array(part["at_bound"].to_pylist(), dtype=np.str_),
        )
        for name, part in chosen.items()
    }


def read_coefficients(path: str | Path) -> dict[str, Mapping[str, Any]]:
    """The row of each architecture, the reference first."""
    return {row["architecture"]: row for row in read_table(path).to_pylist()}


def surface_of(row: Mapping[str, Any]) -> Coefficients | None:
    """The surface in a row of the coefficients, or nothing where it was not identified."""
    if row["E"] is None:
        return None
    return Coefficients(*(np.asarray(row[name], dtype=np.float64) for name in NAMES))
