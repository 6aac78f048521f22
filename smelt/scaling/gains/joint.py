"""All rows of a table of gains together: whether an architecture differs from the reference at all.

A table has many rows, and each by itself is false once in twenty. So one test stands before them all. A surface is
fitted to the endpoints of both architectures together, as if they were one. By how much the target's losses lie lower
below it than the reference's is averaged within each scale, and Student's t tests the mean over scales. What the
surface gets wrong is common to both and cancels. What a scale's cells share is in the scale's mean. Scales need not be
equally noisy: unequal variances make this test conservative (Ibragimov & Mueller 2010). Holm's correction is over the
architectures.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from smelt.scaling.fitting.fit import fit_point, scales_of
from smelt.scaling.gains.leave_one_out import LEAST_SCALES
from smelt.scaling.settings import Settings
from smelt.statistics import holm, t_p
from smelt.surfaces.catalogue import CHINCHILLA, SMELT, SURFACES, Surface
from smelt.surfaces.points import Array, Points, joined

LEVEL = 0.05


class Joint(NamedTuple):
    """The verdict on all gains of one architecture."""

    p: float | None  # after Holm's correction over the architectures
    missing_because: str = ""

    @property
    def unresolved_because(self) -> list[str]:
        """Why no row of the architecture is resolved; empty where one may be."""
        if self.p is None:
            return [f"no test of all gains together: {self.missing_because}"]
        return [] if self.p < LEVEL else [f"all gains together are not told from zero (joint p {self.p:.2g})"]


def verdicts(points: Mapping[str, Points], settings: Settings) -> dict[str, Joint]:
    """The verdict on every architecture but the reference, which is the first of `points`."""
    reference, *targets = points.values()
    leads = {target.architecture: scale_leads(target, reference, settings) for target in targets}
    tested = {name: t_p(lead) for name, lead in leads.items() if isinstance(lead, np.ndarray)}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {name: Joint(None, lead) if isinstance(lead, str) else Joint(adjusted[name]) for name, lead in leads.items()}


def scale_leads(target: Points, reference: Points, settings: Settings) -> Array | str:
    """By how many nats the target is ahead at equal F, S and D at each scale of both, (scales,), or why not known."""
    shared = sorted(set(target.cells) & set(reference.cells))
    scales = scales_of(shared)
    if len(scales) < LEAST_SCALES:
        return f"fewer than {LEAST_SCALES} scales have both architectures in a cell"
    both = joined([target, reference])
    surface = _surface(both, settings)
    values, _, reason = fit_point(both, settings, surface)
    if values is None:
        return reason
    ahead = pd.DataFrame({"name": both.names, "scale": both.scale, "sparsity": both.sparsity})
    ahead["nats"] = surface.predict(values, both.variables) - both.loss
    by_cell = ahead.groupby(["scale", "sparsity", "name"])["nats"].mean().unstack()
    leads = (by_cell[target.architecture] - by_cell[reference.architecture]).dropna()
    return leads.groupby("scale").mean()[scales].to_numpy()


def _surface(both: Points, settings: Settings) -> Surface:
    """The study's surface, or one that does not know the architectures apart."""
    if not SURFACES[settings.surface].shared:
        return SURFACES[settings.surface]
    return SMELT if "active" in both.variables else CHINCHILLA
