"""A folder is one process' at a time."""

import threading

import pytest

from smelt.errors import UserError
from smelt.locks import locked


def test_a_folder_in_use_is_refused_with_what_is_done_there(tmp_path):
    with (
        locked(tmp_path / "new"),
        pytest.raises(UserError, match="new: another process counts it"),
        locked(tmp_path / "new", "counts it"),
    ):
        raise AssertionError("two hold the folder")
    with locked(tmp_path / "new", "counts it"):
        pass


def test_without_a_reason_to_refuse_the_folder_is_waited_for(tmp_path):
    order = []

    def second():
        with locked(tmp_path):
            order.append("second")

    with locked(tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
