"""What a person can mend is one line; anything else is a traceback."""

import errno
import os
import subprocess
import sys

import pytest

from smelt.errors import UserError, command


def raising(error: BaseException):
    def main(argv):
        raise error

    return main


def test_a_mistake_is_one_line():
    with pytest.raises(SystemExit) as ended:
        command(raising(UserError("corpus.tsv: row 3: no licence; add one")))
    assert ended.value.code == "error: corpus.tsv: row 3: no licence; add one"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_line_that_names_the_place(number):
    with pytest.raises(SystemExit, match=r"^error: the disk is full at out/model: free some space"):
        command(raising(OSError(number, os.strerror(number), "out/model")))
    with pytest.raises(SystemExit, match="full at the output folder"):
        command(raising(OSError(number, os.strerror(number))))


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "denied"), ValueError("ours"), KeyError("ours")])
def test_a_defect_of_ours_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        command(raising(error))


def test_arguments_are_passed_on(monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(sys, "argv", ["program", "--spec", "{}"])
    command(seen.extend)
    assert seen == ["--spec", "{}"]


def test_exit_status_and_streams():
    code = "from smelt.errors import *\ndef main(argv): raise UserError('a mistake')\ncommand(main)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "error: a mistake\n")
