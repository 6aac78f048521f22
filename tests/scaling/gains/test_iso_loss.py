"""Iso-loss log ratios of pairs: curves by hand, and power laws whose m is known in closed form."""

import math

import numpy as np
import pytest

from smelt.scaling.gains.iso_loss import Curve, curve, log_ratio, pair_rows
from tests.scaling.gains.straight_lines import STEPS, endpoints, straight


def test_a_curve_is_read_between_its_endpoints() -> None:
    one = Curve(np.log([1.0, 2.0, 4.0]), np.array([3.0, 2.0, 1.5]))
    assert one.reaches(3.0) == 0
    assert one.reaches(2.5) == pytest.approx(math.log(2) / 2)
    assert one.reaches(1.75) == pytest.approx(math.log(2) * 1.5)
    assert math.isnan(one.reaches(3.1))
    with pytest.raises(ValueError, match=r"ends at 1\.5"):
        one.reaches(1.4)


def test_losses_that_rise_are_levelled_and_reached_at_the_first_of_equals() -> None:
    bumped = curve(np.array([1.0, 2.0, 4.0, 8.0]), np.array([3.0, 2.0, 2.4, 1.0]))
    assert bumped.loss.tolist() == pytest.approx([3.0, 2.2, 2.2, 1.0])
    assert bumped.reaches(2.2) == pytest.approx(math.log(2))


@pytest.mark.parametrize("ahead", [0.3, -0.3, 0.0])
def test_a_constant_lead_is_found_and_changes_sign_with_the_pair(ahead: float) -> None:
    target, reference = (curve(np.array(STEPS, float), np.array(straight(lead))) for lead in (ahead, 0.0))
    for place in range(1, len(STEPS)):
        found = log_ratio(target, reference, place)
        assert (found.value, found.bound) == (pytest.approx(ahead), 0)
        swapped = log_ratio(reference, target, place)
        assert (swapped.value, swapped.bound) == (pytest.approx(-ahead), 0)


def test_a_lead_beyond_the_first_endpoint_is_a_bound() -> None:
    target, reference = (curve(np.array(STEPS, float), np.array(straight(lead))) for lead in (1.0, 0.0))
    found = log_ratio(target, reference, 0)
    assert (found.value, found.bound) == (0.0, 1)
    assert log_ratio(reference, target, 0).bound == -1


@pytest.mark.parametrize("floor", [0.0, 1.5])
@pytest.mark.parametrize("saved", [0.5, 0.2, -0.25])
def test_power_laws_of_one_exponent_have_the_ratio_of_their_closed_form(floor: float, saved: float) -> None:
    """L = E + A C^-p of both: m = log(A_reference / A_target) / p at every loss."""
    exponent, doublings = 0.3, np.arange(0, 8, 0.125)
    compute, known = 1e18 * 2.0**doublings, -math.log1p(-saved)
    reference = curve(compute, floor + 1e6 * compute**-exponent)
    target = curve(compute, floor + 1e6 * math.exp(-exponent * known) * compute**-exponent)
    for place in range(16, len(compute)):
        found = log_ratio(target, reference, place)
        assert found.bound == 0
        if saved == 0.5:  # a lead of eight endpoints, so that no loss lies between two
            assert found.value == pytest.approx(known, rel=1e-9)
        # Between endpoints a line lies above a power law: the better model is found late, and m is never overstated.
        assert abs(found.value) <= abs(known) * (1 + 1e-9)
        assert found.value == pytest.approx(known, abs=0.0015)


def test_pairs_share_cell_and_seed_and_are_aligned_at_their_last_endpoints() -> None:
    frame = endpoints(
        {
            ("baseline", "H1", "S85", 0): straight(),
            ("smelt", "H1", "S85", 0): straight(0.2),
            ("smelt", "H1", "S85", 1): straight(0.2),  # no baseline of this seed
            ("smelt", "H2", "S85", 0): straight(0.2),
        }
    )
    pairs = pair_rows(frame.sample(frac=1, random_state=0), "baseline")
    assert pairs["horizon"].tolist() == [1, 2, 3, 4]
    assert pairs["branch_step"].tolist() == list(STEPS)
    assert pairs["endpoints"].tolist() == [8] * 4
    short = frame[~((frame["architecture"] == "baseline") & (frame["branch_step"] == 80))]
    assert pair_rows(short, "baseline")["branch_step"].tolist() == [20, 40, 80]
    assert pair_rows(frame[frame["architecture"] == "smelt"], "baseline").empty
