"""Two sides of a comparison in different units: said, where nothing in the table explains the difference."""

import dataclasses

import numpy as np
import pytest

from smelt.scaling.gains.sides import differing
from smelt.surfaces.points import Points
from tests.scaling.published import endpoint_rows, part, points

BASELINE, SMELT = points(endpoint_rows(), "baseline"), points(endpoint_rows(), "smelt")


def changed(of: Points, loss: float = 1.0, flops: float = 1.0, **columns: float) -> Points:
    """Points with their losses and FLOPs multiplied, and further columns as multiples of F / 6."""
    more = {name: value if name == "visits" else of.flops / 6 * value for name, value in columns.items()}
    variables = {
        **of.variables,
        **{name: np.broadcast_to(np.array(value), of.loss.shape) for name, value in more.items()},
    }
    return dataclasses.replace(of, loss=loss * of.loss, variables=variables | {"flops": flops * of.flops})


def bare(of: Points) -> Points:
    """Without what says how many parameters a token passes."""
    return dataclasses.replace(of, variables={name: of.variables[name] for name in ("active", "flops", "tokens")})


def test_sides_in_one_unit_say_nothing() -> None:
    assert differing(SMELT, BASELINE) == []
    assert differing(bare(SMELT), bare(BASELINE)) == []


@pytest.mark.parametrize("columns", [{}, {"active_params": 1.0}])
def test_forward_flops_on_one_side_are_suspect(columns: dict[str, float]) -> None:
    target, reference = changed(bare(SMELT), flops=1 / 3, **columns), changed(bare(BASELINE), **columns)
    (said,) = differing(target, reference)
    assert said.startswith("in every cell flops_per_token of baseline is about three times the other's")
    assert differing(reference, target) == [said]


@pytest.mark.parametrize(
    ("target", "reference"),
    [({"active_params": 3.0}, {"active_params": 1.0}), ({"active_params": 1.0, "visits": 3.0}, {"active_params": 1.0})],
)
def test_parameters_or_visits_explain_three_times_the_flops(
    target: dict[str, float], reference: dict[str, float]
) -> None:
    assert differing(changed(bare(SMELT), flops=3, **target), changed(bare(BASELINE), **reference)) == []


def test_a_factor_that_is_not_the_same_everywhere_is_no_unit() -> None:
    target = bare(SMELT)
    target.variables["flops"][target.scale != "600M"] *= 3  # type: ignore[index]
    assert differing(target, bare(BASELINE)) == []
    one_cell = (points(endpoint_rows(part(1, 1)), name) for name in ("smelt", "baseline"))
    assert differing(*(changed(bare(one), flops=3 if one.architecture == "smelt" else 1) for one in one_cell)) == []


def test_a_loss_in_bits_on_one_side_is_suspect() -> None:
    (said,) = differing(changed(SMELT, loss=1 / np.log(2)), BASELINE)
    assert said.startswith("in every cell the loss of smelt is about 1.44 times the other's: it may be in bits")
    assert differing(changed(SMELT, loss=1.2), BASELINE) == []
