"""Hints for misspelt names: the closest one, ties, likely names first."""

import pytest

from smelt.user_files.names import nearest, suggestion


@pytest.mark.parametrize(
    ("name", "known", "closest"),
    [
        ("stepz", ["seeds", "steps", "branch_steps"], "steps"),
        ("H31", ["H23", "H32", "H13"], "H32"),  # equally like H32 and H13, with more letters in the place of H32
        ("quite_another", ["steps", "seeds"], ""),
        ("x", [], ""),
    ],
)
def test_the_closest_known_name(name, known, closest):
    assert nearest(name, known) == closest


def test_a_hint_prefers_likely_names_and_lists_all_where_none_is_close():
    known = ["H16-S85", "H16-S95"]
    assert suggestion("H16-S8", known) == "did you mean 'H16-S85'?"
    assert suggestion("H16-S8", known, likely=["H16-S80"]) == "did you mean 'H16-S80'?"
    assert suggestion("unlike", known) == "known are H16-S85, H16-S95"
    assert suggestion(7, ["7.5"]) == "known are 7.5"
