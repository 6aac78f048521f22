"""The gain with each cell left out in turn: a table of it, and a second interval beside the bootstrap's.

The jackknife takes log C_ref / C_tgt, for which a symmetric interval is reasonable, and the ends are turned
into gains, so that none is above 1.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from smelt.artifacts import field
from smelt.scaling.gains.comparison import FittedSurface, point, section, sentence
from smelt.scaling.settings import Settings
from smelt.statistics import jackknife_interval
from smelt.surfaces import frontier

LEAVE_ONE_OUT = pa.schema(
    [
        field("architecture", pa.string(), "execution plan"),
        field("reference", pa.string(), "execution plan that it is compared with"),
        field("left_out_scale", pa.string(), "label of the scale of the cell that is left out"),
        field("left_out_sparsity", pa.string(), "label of the sparsity of the cell that is left out"),
        field("budget_flops", pa.float64(), "C: training FLOPs"),
        field("sparsity", pa.string(), "label of the sparsity at which the gain is read"),
        field("gain", pa.float64(), "CE gain as a fraction without the cell"),
        field("gamma", pa.float64(), "exponent of the architecture's frontier without the cell"),
        field("gamma_reference", pa.float64(), "exponent of the reference's frontier without the cell"),
        field("reason", pa.string(), "why a value is missing"),
    ]
)


def gain_interval(
    target: FittedSurface, reference: FittedSurface, budget: float, label: str, settings: Settings
) -> tuple[float | None, float | None, str]:
    """The interval of the gain, or why there is none; both sides must have no fault with all cells."""
    wrong = [fault for fault in _faults(target, reference, label, settings) if fault]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return None, None, f"no jackknife: {wrong[0]}{more}"
    if len(target.cells) < 2:
        return None, None, "no jackknife: there is one cell"
    estimate = float(frontier.log_multiplier(point(target, label, settings), point(reference, label, settings), budget))
    left = frontier.log_multiplier(*_left_out(target, reference, label, settings), budget)
    if not (np.isfinite(estimate) and np.isfinite(left).all()):
        return None, None, f"no jackknife: {reference.name} does not always reach the loss"
    low, high = jackknife_interval(estimate, left)
    return float(frontier.gain_of(low)), float(frontier.gain_of(high)), ""


def rows(
    target: FittedSurface, reference: FittedSurface, budget: float, label: str, settings: Settings
) -> list[dict[str, Any]]:
    """The gain at one budget and sparsity without each cell in turn."""
    if target.values is None or reference.values is None:
        return []
    sections = _left_out(target, reference, label, settings)
    with np.errstate(all="ignore"):  # of the surfaces that are not used
        gains = frontier.gain(*sections, budget)
        gammas = [np.broadcast_to(frontier.gamma(one), gains.shape) for one in sections]
    found = []
    for place, fault in enumerate(_faults(target, reference, label, settings)):
        row: dict[str, Any] = dict.fromkeys(LEAVE_ONE_OUT.names)
        row |= {"architecture": target.name, "reference": reference.name, "budget_flops": budget, "sparsity": label}
        row["left_out_scale"], row["left_out_sparsity"] = target.cells[place]
        if not fault:
            row |= {"gain": float(gains[place])}
            row |= {"gamma": float(gammas[0][place]), "gamma_reference": float(gammas[1][place])}
        row["reason"] = sentence([fault] if fault else [])
        found.append(row)
    return found


def _left_out(
    target: FittedSurface, reference: FittedSurface, label: str, settings: Settings
) -> tuple[frontier.Slice, frontier.Slice]:
    """The sections with each cell left out, one entry for each."""
    assert target.without is not None
    assert reference.without is not None
    mine = section(target, target.without.values, label, settings)
    return mine, section(reference, reference.without.values, label, settings)


def _faults(target: FittedSurface, reference: FittedSurface, label: str, settings: Settings) -> list[str]:
    """For each cell why nothing can be said without it, or an empty text."""
    found = [""] * len(target.cells)
    for side in (target, reference):
        assert side.without is not None
        without = side.without
        here = section(side, without.values, label, settings)
        causes = {
            "is not determined": ~without.identified,
            "did not converge": ~without.converged,
            "has a coefficient on a bound": without.at_bound != "none",
            "has no frontier": ~np.broadcast_to(frontier.meaningful(here), without.converged.shape),
        }
        for place, (scale, sparsity) in enumerate(side.cells):
            cause = next((cause for cause, mask in causes.items() if mask[place]), "")
            found[place] = found[place] or (cause and f"without {scale} {sparsity} {side.owner} {cause}")
    return found
