"""How far a point (F, D) lies outside what was trained, as a factor.

Endpoints are points in (log F, log D); the trained region is their convex hull, which is the box of a full grid and a
thin strip where D was chosen in proportion to F. The distance is the largest of the distances in log F and log D to the
nearest point of the hull (Chebyshev), so that its exponential is a factor: 4 means that F or D lies four times outside.
"""

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from smelt.surfaces.points import Array


def hull(flops: Array, tokens: Array) -> Array:
    """Corners of the trained region in (log F, log D), (corners, 2), in order around it; an end each of a line.

    `flops` (FLOPs per token) and `tokens` are those of the endpoints, (n,).
    """
    points = np.unique(np.column_stack([np.log(flops), np.log(tokens)]), axis=0)
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):  # fewer than three points, or all on one line
        order = np.lexsort((points[:, 1], points[:, 0]))
        return np.asarray(points[order[[0, -1]]])


def factor_outside(corners: Array, flops: Array, tokens: Array) -> Array:
    """The factor by which each (F, D) lies outside the region of `corners`, 1 inside; same shape as `flops`.

    Missing where F or D is. `corners` are those of `hull`.
    """
    point = np.stack(np.broadcast_arrays(np.log(flops), np.log(tokens)), axis=-1)[..., None, :]
    start, end = corners, np.roll(corners, -1, axis=0)
    away = _to_segments(point - start, end - start).min(axis=-1)
    side = _cross(end - start, point - start)
    within = (side >= -1e-12).all(axis=-1) & (len(corners) > 2)  # corners go round counterclockwise
    return np.asarray(np.where(np.isnan(point).any(axis=(-1, -2)), np.nan, np.exp(np.where(within, 0.0, away))))


def _cross(along: Array, to: Array) -> Array:
    return np.asarray(along[..., 0] * to[..., 1] - along[..., 1] * to[..., 0])


def _to_segments(to: Array, along: Array) -> Array:
    """Chebyshev distance of points from segments: `to` and `along` are relative to the segments' starts, (..., 2).

    Along a segment the distance is the largest of two absolute values of linear functions, so that it is least at an
    end, where one of them is zero, or where the two are equal.
    """
    zero = _ratio(to, along)
    equal = _ratio(to[..., 0] - to[..., 1], along[..., 0] - along[..., 1])
    opposite = _ratio(to[..., 0] + to[..., 1], along[..., 0] + along[..., 1])
    places = np.stack(
        np.broadcast_arrays(np.zeros_like(equal), np.ones_like(equal), zero[..., 0], zero[..., 1], equal, opposite),
        axis=-1,
    )
    distances = np.abs(to[..., None, :] - np.clip(places, 0, 1)[..., None] * along[..., None, :]).max(axis=-1)
    return np.asarray(distances.min(axis=-1))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Quotient, 0 where the denominator is."""
    flat = denominator == 0
    return np.asarray(np.where(flat, 0.0, numerator / np.where(flat, 1.0, denominator)))
