"""Cell bootstrap: both surfaces refitted on the same resamples of the grid's cells.

A cell is scale x sparsity; all its endpoints (architectures, branches, seeds) go in or out together, for
the six branches of a run share its stable phase and the residuals of a cell agree with one another. A
resample is a weight per cell, so every draw is a weighted fit of the same points.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from smelt.scaling import newton
from smelt.scaling.settings import Array, Points
from smelt.scaling.surface import Design

Cell = tuple[str, str]
# Changes of (a, b, c) for the starts of a draw. Resamples can have a second basin, at higher a and b or at
# a lower a with E sliding down, which the start at the point fit alone would miss in some of them.
SCALES = np.array([[1, 1, 1], [1.8, 1, 1], [0.6, 1, 1]])
SHIFTS = np.array([[0, 0, 0], [0, 0.4, 0], [0, -0.1, 0]])
RANK = 1e-7  # smallest singular value, relative to the largest, that counts as information


def cell_weights(cells: Sequence[Cell], draws: int, seed: int) -> Array:
    """How often each cell comes up in each draw, (draws, cells). Draw i depends on seed and i alone."""
    count = len(cells)
    picks = [np.random.default_rng([seed, draw]).integers(count, size=count) for draw in range(draws)]
    return np.array([np.bincount(pick, minlength=count) for pick in picks], dtype=np.float64)


def point_weights(weights: Array, cells: Sequence[Cell], points: Points) -> Array:
    """The weights of an architecture's points, from those of the cells."""
    return weights[:, [cells.index(cell) for cell in points.cells]]


def identified(points: Points, weights: Array, fix_b: bool) -> NDArray[np.bool_]:
    """Whether the points of each draw determine all free coefficients.

    The rank of the surface's Jacobian at exponents of a usual size, with F taken as its scale's mean and S
    as its sparsity's: the small differences of F among the cells of one scale are no second scale.
    """
    u = _by_label(np.log(points.flops), points.scale)
    v = _by_label(np.log(points.active), points.sparsity)
    w = np.log(points.tokens) - np.log(points.tokens).mean()
    capacity, data = np.exp(0.15 * v - 0.4 * u), np.exp(-0.6 * w)
    columns = [np.ones_like(u), capacity, -u * capacity, data, -w * data] + ([] if fix_b else [v * capacity])
    jacobian = np.stack(columns, axis=1)
    present, which = np.unique(weights > 0, axis=0, return_inverse=True)
    ranks = [_full_rank(jacobian[mask]) for mask in present]
    return np.array(ranks)[which.ravel()]


def refit(theta: Array, design: Design, weights: Array, delta: float) -> newton.Minimum:
    """The best fit of each draw over its starts, the first being the point fit `theta`."""
    starts = np.repeat(theta[None], len(SCALES), axis=0)
    starts[:, 3:] = starts[:, 3:] * SCALES + SHIFTS
    draws = len(weights)
    ends = newton.minimise(np.tile(starts, (draws, 1)), design, np.repeat(weights, len(starts), axis=0), delta)
    best = ends.objective.reshape(draws, -1).argmin(axis=1) + len(starts) * np.arange(draws)
    return newton.Minimum(*(values[best] for values in ends))


def _by_label(values: Array, labels: NDArray[np.str_]) -> Array:
    """Each value replaced by the mean of its label, centred."""
    means = {label: values[labels == label].mean() for label in np.unique(labels)}
    flat = np.array([means[label] for label in labels])
    return np.asarray(flat - flat.mean())


def _full_rank(jacobian: Array) -> bool:
    rows = np.unique(jacobian, axis=0)
    lengths = np.linalg.norm(rows, axis=0)
    if rows.shape[0] < rows.shape[1] or not lengths.all():
        return False
    sizes = np.linalg.svd(rows / lengths, compute_uv=False)
    return bool(sizes[-1] > RANK * sizes[0])
