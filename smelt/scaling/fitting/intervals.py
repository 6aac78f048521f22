"""Bootstrap draws of fitted surfaces, which of them an interval may use, and the interval."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from smelt.statistics import percentile_interval
from smelt.surfaces.catalogue import SMELT
from smelt.surfaces.frontier import Slice, meaningful
from smelt.surfaces.points import Array

LEAST_DRAWS = 40  # so that one draw lies beyond each end of a 95 % interval
MOST_EXCLUDED = 0.10  # share of draws that may be excluded before there is no interval


@dataclasses.dataclass(frozen=True)
class Draws:
    """The refitted surfaces of one architecture, one entry per draw (or per unit that is left out)."""

    values: Array  # (draws, P), missing where not identified
    converged: NDArray[np.bool_]
    identified: NDArray[np.bool_]
    at_bound: NDArray[np.str_]  # the coefficients on a bound in each draw, or "none"
    coefficients: tuple[str, ...] = SMELT.coefficients  # their names


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """The surfaces of one architecture with each unit left out, in the order of the units."""

    units: Sequence[tuple[str, ...]]  # cells, (scale, sparsity), or scales, (scale,)
    refits: Draws


@dataclasses.dataclass(frozen=True)
class UsableDraws:
    """Which draws an interval may use, and what to say of the others."""

    usable: NDArray[np.bool_]
    reason: str  # empty where all are used
    caveat: str  # on the draws that are used
    bounded: float = 0.0  # share of the draws that are used with a coefficient on a bound

    @property
    def enough(self) -> bool:
        """Whether few enough are excluded, and enough are left, for an interval to mean something."""
        return bool(self.usable.mean() >= 1 - MOST_EXCLUDED and self.usable.sum() >= LEAST_DRAWS)

    @property
    def count(self) -> int:
        """How many draws the intervals use: none where there are none."""
        return int(self.usable.sum()) if self.enough else 0

    @property
    def caveats(self) -> list[str]:
        """What a reader should know of an interval."""
        return [text for text in (self.reason, self.caveat if self.enough else "") if text]

    @property
    def unresolved_because(self) -> list[str]:
        """Why an interval establishes no sign, whatever its ends."""
        if not self.enough:
            return [self.reason]
        return (
            ["more than a tenth of the draws owe the interval to a bound of the fit"]
            if self.bounded > MOST_EXCLUDED
            else []
        )

    def interval(self, values: Array) -> tuple[float | None, float | None]:
        """The 95 % percentile interval over the usable draws; nothing where too many are excluded."""
        if not self.enough:
            return None, None
        low, high = percentile_interval(values[self.usable])
        return float(low), float(high)


def support(draws: Sequence[Draws], frontier: bool = True, slices: Sequence[Slice] = ()) -> UsableDraws:
    """The draws in which every architecture given has a surface (and, for `frontier`, a frontier).

    `slices` of the draws, where given, say whether there is a frontier; otherwise a and c do.
    """
    causes = {"leave a coefficient unidentified": [~one.identified for one in draws]}
    causes["did not converge"] = [one.identified & ~one.converged for one in draws]
    if frontier:
        there = [meaningful(one) for one in slices] or [_trades_off(one) for one in draws]
        causes["have an exponent of zero"] = [one.converged & ~has for one, has in zip(draws, there, strict=True)]
    verdict = supported({cause: np.logical_or.reduce(masks) for cause, masks in causes.items()})
    bounded = verdict.usable & np.logical_or.reduce([one.at_bound != "none" for one in draws])
    caveat = f"in {100 * bounded.mean():.3g} % of the draws a coefficient is on a bound" if bounded.any() else ""
    return dataclasses.replace(verdict, caveat=caveat, bounded=float(bounded.mean()))


def supported(causes: Mapping[str, NDArray[np.bool_]]) -> UsableDraws:
    """The draws that no cause excludes; `causes` are the draws that each excludes, (draws,), by what they do."""
    usable = ~np.logical_or.reduce(list(causes.values()))
    verdict = UsableDraws(usable, "", "")
    parts = [
        f"{100 * excluded.mean():.3g} % of the draws {cause}" for cause, excluded in causes.items() if any(excluded)
    ]
    if usable.sum() < LEAST_DRAWS and usable.mean() >= 1 - MOST_EXCLUDED:
        parts.append(f"{usable.sum()} draws are too few for its ends; {LEAST_DRAWS} at least (scaling.bootstrap_draws)")
    if not parts:
        return verdict
    opening = "draws excluded: " if verdict.enough else "no interval: "
    return dataclasses.replace(verdict, reason=opening + ", ".join(parts))


def _trades_off(draws: Draws) -> NDArray[np.bool_]:
    exponents = [draws.values[:, draws.coefficients.index(name)] for name in ("a", "c")]
    with np.errstate(invalid="ignore"):
        return np.asarray((exponents[0] > 0) & (exponents[1] > 0))
