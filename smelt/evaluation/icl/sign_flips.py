"""Exact and sampled sign-flip tests of paired differences, and Holm's correction. Needs no torch.

Where two models are alike, each paired difference might as well have come out with the other sign. The p-value is
the share of all patterns of signs under which the sum is at least as large as the one observed, which is itself among
them: with n differences it cannot fall below 2^-n.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EXACT = 20  # most differences of which all patterns are counted: 2^20
CHUNK = 256  # sampled patterns in memory at a time
ROUNDING = 1e-12  # of the sum of all sizes: sums nearer than that are equal


class SignFlips(NamedTuple):
    """Result of a test."""

    p: float  # one-sided: the differences are positive
    p_two_sided: float
    patterns: int  # of signs that the shares are of
    exact: bool  # whether these are all


def sign_flips(differences: NDArray[np.float64], exact: int = EXACT, flips: int = 10_000, seed: int = 0) -> SignFlips:
    """Test of differences, (n,): their sum against its values under flipped signs.

    All 2^n patterns where n is at most `exact`; else `flips` random ones, with the observed pattern counted among
    them, (1 + count) / (1 + flips), so that p is never 0. A difference of zero does not change any sum, so that only
    the others are flipped. Raises ValueError without any difference.
    """
    if not len(differences):
        raise ValueError("no difference to test")
    moving = differences[differences != 0]
    observed, slack = float(moving.sum()), ROUNDING * float(np.abs(moving).sum())
    if len(moving) <= exact:
        sums = np.zeros(1)
        for value in moving:
            sums = np.concatenate([sums + value, sums - value])
        greater, further = _at_least(sums, observed, slack)
        patterns = 2 ** len(differences) if len(differences) <= exact else len(sums)
        return SignFlips(greater / len(sums), further / len(sums), patterns, True)
    rng = np.random.default_rng(seed)
    greater = further = 1
    for start in range(0, flips, CHUNK):
        signs = rng.integers(2, size=(min(CHUNK, flips - start), len(moving)), dtype=np.int8) * 2 - 1
        more, beyond = _at_least(signs @ moving, observed, slack)
        greater, further = greater + more, further + beyond
    return SignFlips(greater / (1 + flips), further / (1 + flips), 1 + flips, False)


def _at_least(sums: NDArray[np.float64], observed: float, slack: float) -> tuple[int, int]:
    """How many sums are at least the observed one, and how many as far from zero."""
    return int((sums >= observed - slack).sum()), int((np.abs(sums) >= abs(observed) - slack).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the order given (Holm 1979): reject where it is below the level."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted
