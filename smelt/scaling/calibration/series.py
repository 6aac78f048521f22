"""Scores of one metric or task over the endpoints, and the reference's curve through its own."""

import dataclasses
import functools
from typing import Self

import numpy as np
from numpy.typing import NDArray

from smelt.scaling.calibration import sigmoid
from smelt.surfaces.points import Array


@dataclasses.dataclass(frozen=True)
class Series:
    """The scores of one metric (task empty) or task; `rows` are the endpoints' places in their table."""

    metric: str
    task: str
    category: str
    higher_is_better: bool
    chance: float | None
    centred: bool
    rows: NDArray[np.int64]
    loss: Array  # nats
    score: Array

    @property
    def name(self) -> str:
        return f"{self.metric} {self.task}".strip()

    @property
    def sign(self) -> int:
        """d of Eq. 6."""
        return -1 if self.higher_is_better else 1


@dataclasses.dataclass(frozen=True)
class Calibrated:
    """A series with the reference's curve; without one, predictions are missing (NaN)."""

    series: Series
    reference: NDArray[np.bool_]  # which entries of the series are the reference's
    fit: sigmoid.Fit

    @classmethod
    def of(cls, series: Series, reference: NDArray[np.bool_]) -> Self:
        """Fit the curve; `reference` says of each endpoint of the study whether it is the reference's."""
        fitted = reference[series.rows]
        return cls(series, fitted, sigmoid.fit(series.loss[fitted], series.score[fitted], series.sign))

    @functools.cached_property
    def curve(self) -> sigmoid.Curve | None:
        return None if self.fit.theta is None or self.fit.units is None else self.fit.units.curve(self.fit.theta)

    @functools.cached_property
    def predicted(self) -> Array:
        if self.curve is None:
            return np.full_like(self.series.score, np.nan)
        return sigmoid.predict(self.curve, self.series.loss, self.series.sign)

    @functools.cached_property
    def residual(self) -> Array:
        """Eq. 7: positive where the score is better than the reference's at the same loss."""
        return -self.series.sign * (self.series.score - self.predicted)

    @functools.cached_property
    def beyond(self) -> NDArray[np.bool_]:
        """Which losses lie outside those of the reference."""
        losses = self.series.loss[self.reference]
        return np.asarray((self.series.loss < losses.min()) | (self.series.loss > losses.max()))

    def drawn(self, weights: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Residuals (draws, n) under the curve refitted in each draw, and which draws have such a curve.

        `weights` is (draws, n): how often each endpoint of the series comes up.
        """
        assert self.fit.theta is not None
        assert self.fit.units is not None
        fitted, units = self.reference, self.fit.units
        x = units.x(self.series.loss)
        z = (self.series.score - units.mean) / units.scores
        enough = _distinct(self.series.loss[fitted], weights[:, fitted]) >= sigmoid.LEAST
        theta, usable = np.tile(self.fit.theta, (len(weights), 1)), enough.copy()
        theta[enough], usable[enough] = sigmoid.refit(self.fit.theta, x[fitted], z[fitted], weights[enough][:, fitted])
        return self.series.sign * units.scores * sigmoid.residual(theta, x, z), usable


def _distinct(loss: Array, weights: Array) -> NDArray[np.int64]:
    """How many different losses come up in each draw."""
    _, which = np.unique(loss, return_inverse=True)
    one_of = np.eye(which.max() + 1)[which]
    return np.asarray(((weights > 0) @ one_of > 0).sum(axis=1))
