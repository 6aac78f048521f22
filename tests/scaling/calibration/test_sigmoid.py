"""The calibration curve: known sigmoids come back, nothing better is found, and what is not determined says so."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

from smelt.scaling.calibration import sigmoid
from smelt.scaling.calibration.sigmoid import Curve

LADDER = Path(__file__).parents[2] / "data" / "fits" / "olmo_ladder.csv"
LOSSES = np.sort(np.random.default_rng(0).uniform(1.7, 2.6, 96))
KNOWN = [
    (Curve(*map(np.float64, (0.05, 0.5, 6.0, 2.0))), -1),
    (Curve(*map(np.float64, (1.0, 3.0, 3.0, 2.2))), 1),
    (Curve(*map(np.float64, (0.25, 0.6, 14.0, 1.85))), -1),
]


def fitted(loss: np.ndarray, score: np.ndarray, sign: int) -> tuple[sigmoid.Fit, Curve]:
    found = sigmoid.fit(loss, score, sign)
    assert found.theta is not None
    assert found.units is not None
    return found, found.units.curve(found.theta)


def squares(found: sigmoid.Fit, curve: Curve, loss: np.ndarray, score: np.ndarray, sign: int) -> float:
    return float(np.sum((sigmoid.predict(curve, loss, sign) - score) ** 2))


@pytest.mark.parametrize(("truth", "sign"), KNOWN)
def test_a_known_curve_without_noise(truth: Curve, sign: int) -> None:
    found, curve = fitted(LOSSES, sigmoid.predict(truth, LOSSES, sign), sign)
    np.testing.assert_allclose(curve, truth, rtol=1e-6)
    assert found.r2 == pytest.approx(1, abs=1e-12)
    assert found.determined
    assert (found.at_bound, found.reason, found.endpoints) == ("none", "", 96)


@pytest.mark.parametrize(("truth", "sign"), KNOWN)
def test_a_known_curve_with_noise_comes_back_within_its_error(truth: Curve, sign: int) -> None:
    noise = 0.01 * float(truth.amplitude)
    misses = []
    for seed in range(8):
        score = sigmoid.predict(truth, LOSSES, sign) + noise * np.random.default_rng(seed).normal(size=LOSSES.size)
        found, curve = fitted(LOSSES, score, sign)
        assert found.determined
        misses.append((np.array(curve) - np.array(truth)) / standard_errors(truth, sign, noise))
    assert np.abs(np.array(misses)).max() < 5
    assert 0.5 < np.sqrt(np.mean(np.square(misses))) < 1.6


def standard_errors(truth: Curve, sign: int, noise: float) -> np.ndarray:
    """Of Eq. 6's parameters, from the numeric derivatives at the truth."""
    steps = np.diag(1e-6 * np.array(truth))
    columns = [
        (sigmoid.predict(Curve(*(np.array(truth) + step)), LOSSES, sign) - sigmoid.predict(truth, LOSSES, sign))
        / step.sum()
        for step in steps
    ]
    slopes = np.stack(columns, axis=1)
    return noise * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))


def test_derivatives_are_exact() -> None:
    random, x = np.random.default_rng(1), np.linspace(-0.5, 0.5, 9)
    for _ in range(100):
        theta = sigmoid.LOWER + random.random(4) * (sigmoid.UPPER - sigmoid.LOWER)
        numeric = [
            (sigmoid.residual(theta + h, x, x) - sigmoid.residual(theta - h, x, x)) / 2e-5 for h in 1e-5 * np.eye(4)
        ]
        exact = sigmoid.jacobian(theta, x)
        np.testing.assert_allclose(exact, np.stack(numeric, axis=1), rtol=1e-5, atol=1e-5 * np.abs(exact).max())


def generated(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Losses and scores of some sigmoid, many of them with an end out of sight, and noise."""
    random = np.random.default_rng(seed)
    loss = np.sort(random.uniform(1.6, 2.6, int(random.integers(8, 60))))
    truth = Curve(
        *map(
            np.float64,
            (
                random.uniform(0, 1),
                np.exp(random.uniform(-2, 1)),
                np.exp(random.uniform(0.5, 3.2)),
                random.uniform(1.4, 2.8),
            ),
        )
    )
    sign = int(random.choice([-1, 1]))
    score = sigmoid.predict(truth, loss, sign)
    return loss, score + random.choice([0.002, 0.02, 0.1]) * np.ptp(score) * random.normal(size=loss.size), sign


def best_of_random_starts(loss: np.ndarray, score: np.ndarray, sign: int, starts: int) -> float:
    """The least sum of squares that scipy finds in Eq. 6's own parameters, numeric derivatives and all."""
    random, span, spread = np.random.default_rng(2), np.ptp(loss), np.ptp(score)

    def off(values: np.ndarray) -> np.ndarray:
        base, amplitude, slope, midpoint = values
        return sigmoid.predict(Curve(base, np.exp(amplitude), np.exp(slope), midpoint), loss, sign) - score

    lower = [score.min() - 50 * spread, np.log(1e-3 * spread), np.log(0.02 / span), loss.min() - 2 * span]
    upper = [score.max() + 50 * spread, np.log(50 * spread), np.log(900 / span), loss.max() + 2 * span]
    best = np.inf
    for _ in range(starts):
        start = [random.uniform(score.min(), score.max()), np.log(random.uniform(0.2, 3) * spread)]
        start += [np.log(np.exp(random.uniform(0, 4)) / span), random.uniform(loss.min(), loss.max())]
        best = min(best, 2 * least_squares(off, start, bounds=(lower, upper), x_scale="jac", max_nfev=100).cost)
    return best


@pytest.mark.parametrize(("sets", "starts"), [(4, 25), pytest.param(50, 200, marks=pytest.mark.slow)])
def test_no_random_start_finds_a_better_curve(sets: int, starts: int) -> None:
    for seed in range(sets):
        loss, score, sign = generated(seed)
        found, curve = fitted(loss, score, sign)
        mine, best = squares(found, curve, loss, score, sign), best_of_random_starts(loss, score, sign, starts)
        # The rival's box is a little smaller at the ends; beyond them the curve is an exponential to 0.25 %.
        assert mine <= best * (1 + 1e-4 if found.at_bound != "none" else 1 + 1e-7), seed


@pytest.mark.parametrize("seed", range(3))
def test_refits_reach_what_scipy_reaches(seed: int) -> None:
    loss, score, sign = generated(seed)
    found, _ = fitted(loss, score, sign)
    assert found.units is not None
    assert found.theta is not None
    x, z = found.units.x(loss), found.units.z(score)
    weights = (
        np.random.default_rng(seed).multinomial(loss.size, np.full(loss.size, 1 / loss.size), size=20).astype(float)
    )
    ends, done = sigmoid.refit(found.theta, x, z, weights)
    assert done.all()
    for theta, weight in zip(ends, weights, strict=True):
        root = np.sqrt(weight)
        other = least_squares(
            lambda values, root=root: root * sigmoid.residual(values, x, z),
            np.clip(found.theta, sigmoid.LOWER + 1e-6, sigmoid.UPPER - 1e-6),
            jac=lambda values, root=root: root[:, None] * sigmoid.jacobian(values, x),
            bounds=(sigmoid.LOWER, sigmoid.UPPER),
            x_scale="jac",
        )
        assert np.sum(weight * sigmoid.residual(theta, x, z) ** 2) <= 2 * other.cost * (1 + 1e-8)


def test_a_refit_with_equal_weights_is_the_fit() -> None:
    loss, score, sign = generated(0)
    found, _ = fitted(loss, score, sign)
    assert found.units is not None
    assert found.theta is not None
    ends, done = sigmoid.refit(found.theta, found.units.x(loss), found.units.z(score), np.ones((2, loss.size)))
    assert done.all()
    np.testing.assert_allclose(ends, np.tile(found.theta, (2, 1)), atol=1e-5)


NOISE = 0.01 * np.random.default_rng(3).normal(size=LOSSES.size)
STEEP = Curve(*map(np.float64, (0.2, 0.5, 0.4, 2.1)))  # so flat over these losses that it is a line


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (0.25 + NOISE, "a constant fits as well"),
        (LOSSES + 0 * NOISE, "a constant fits as well"),  # the wrong way round
        (3 - LOSSES, "a line fits as well"),
        (3 - LOSSES + 2 * NOISE, "a line fits as well"),
        (sigmoid.predict(STEEP, LOSSES, -1) + NOISE, "a line fits as well"),
        (0.25 + 0.4 * np.exp(-6 * (LOSSES - 1.7)) + NOISE, "an exponential fits as well"),
        (0.25 + 0.3 * (LOSSES < 2.1) + NOISE, "a step fits as well"),
    ],
)
def test_a_curve_whose_parameters_are_not_determined_says_so(score: np.ndarray, why: str) -> None:
    found, curve = fitted(LOSSES, score, -1)
    assert not found.determined
    assert found.reason.startswith(f"parameters not determined: {why}")
    assert np.isfinite(curve).all()  # the curve itself is known all the same
    assert squares(found, curve, LOSSES, score, -1) <= np.sum((score - score.mean()) ** 2) * (1 + 1e-12)


def test_nothing_to_fit() -> None:
    few = sigmoid.fit(np.array([2.0, 2.0, 2.1, 2.2, 2.3]), np.arange(5.0), -1)
    assert (few.theta, few.endpoints) == (None, 5)
    assert few.reason == "4 distinct losses; a curve needs at least 5"
    assert sigmoid.fit(np.array([]), np.array([]), -1).reason.startswith("0 distinct losses")
    constant = sigmoid.fit(LOSSES, np.full(96, 0.25), -1)
    assert (constant.theta, constant.reason) == (None, "the score is 0.25 at all 96 endpoints")


def test_units_and_order_of_the_endpoints_change_nothing() -> None:
    loss, score, sign = generated(5)
    _, curve = fitted(loss, score, sign)
    order = np.random.default_rng(0).permutation(loss.size)
    _, other = fitted(loss[order], 100 * score[order] + 3, sign)
    expected = Curve(100 * curve.base + 3, 100 * curve.amplitude, curve.slope, curve.midpoint)
    np.testing.assert_allclose(sigmoid.predict(other, loss, sign), sigmoid.predict(expected, loss, sign), rtol=1e-6)


def test_real_models() -> None:
    """HellaSwag accuracy against C4 loss of the OLMo ladder: fitted on its training runs, as its authors do."""
    with LADDER.open() as file:
        rows = list(csv.DictReader(file))
    loss, score, role = (
        np.array([row[name] for row in rows]) for name in ("c4_loss_last5", "hellaswag_acc_last5", "peer_role")
    )
    loss, score = loss.astype(float), score.astype(float)
    training = role == "train"
    found, curve = fitted(loss[training], score[training], -1)
    assert found.endpoints == 16
    assert found.determined
    assert found.r2 == pytest.approx(0.99906, abs=1e-5)
    assert curve.base == pytest.approx(0.25, abs=0.005)  # four choices
    brute = best_of_random_starts(loss[training], score[training], -1, 60)
    assert squares(found, curve, loss[training], score[training], -1) <= brute * (1 + 1e-7)
    larger = role == "target"  # 7B and 13B, far beyond the losses of the others
    np.testing.assert_allclose(sigmoid.predict(curve, loss[larger], -1), score[larger], atol=0.02)
