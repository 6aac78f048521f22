"""The two sides of a comparison, cell by cell: differences that only another unit in one of them explains."""

import numpy as np

from smelt.scaling.endpoints.parameters import executed
from smelt.surfaces.points import Array, Points

FORWARD = (2.6, 3.4)  # times: training FLOPs over forward FLOPs
BITS = (1.38, 1.51)  # times: a loss in bits over one in nats
LEAST_CELLS = 2  # that must agree
SAME_TOKENS = 0.05  # relative difference of D up to which two losses are compared


def differing(target: Points, reference: Points) -> list[str]:
    """Why one side seems to be in another unit; empty where neither does.

    F about three times as large in every common cell is suspect, unless the parameters that a token passes are so too.
    A loss about log2(e) times as large in every common cell, at the same D, is suspect as well.
    """
    cells = sorted(set(target.cells) & set(reference.cells))
    pairs = [(_inside(target, cell), _inside(reference, cell)) for cell in cells]
    if len(pairs) < LEAST_CELLS:
        return []
    reasons = []
    flops = np.array([np.median(one.flops) / np.median(other.flops) for one, other in pairs])
    passed = np.array([np.median(_passed(one)) / np.median(_passed(other)) for one, other in pairs])
    larger = _larger(flops, FORWARD, target, reference)
    if larger and (np.isnan(passed).any() or _larger(flops / passed, FORWARD, target, reference)):
        reasons.append(
            f"in every cell flops_per_token of {larger} is about three times the other's: one side may be forward "
            "FLOPs; multiply them by 3, or give params, active_params or visits, which explain it"
        )
    losses = [np.median(one.loss / other.loss) for one, other in pairs if _same_tokens(one, other)]
    if len(losses) >= LEAST_CELLS and (larger := _larger(np.array(losses), BITS, target, reference)):
        reasons.append(
            f"in every cell the loss of {larger} is about 1.44 times the other's: it may be in bits; multiply it by "
            "0.693"
        )
    return reasons


def _larger(ratios: Array, limits: tuple[float, float], target: Points, reference: Points) -> str:
    """The architecture that is larger by a factor within the limits in every cell, or an empty text."""
    for name, times in ((target.architecture, ratios), (reference.architecture, 1 / ratios)):
        if ((times > limits[0]) & (times < limits[1])).all():
            return name
    return ""


def _inside(points: Points, cell: tuple[str, str]) -> Points:
    """The points of one cell, by D."""
    inside = np.flatnonzero((points.scale == cell[0]) & (points.sparsity == cell[1]))
    inside = inside[np.argsort(points.tokens[inside], kind="stable")]
    return Points(
        architecture=points.architecture,
        rows=points.rows[inside],
        names=points.names[inside],
        scale=points.scale[inside],
        sparsity=points.sparsity[inside],
        loss=points.loss[inside],
        variables={name: column[inside] for name, column in points.variables.items()},
    )


def _passed(points: Points) -> Array:
    """Parameters that a token passes at each point, NaN where nothing says so."""
    return executed(points.variables, points.active)


def _same_tokens(one: Points, other: Points) -> bool:
    return one.tokens.size == other.tokens.size and bool(np.allclose(one.tokens, other.tokens, rtol=SAME_TOKENS))
