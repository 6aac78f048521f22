"""What a person can mend, said in one line.

Every command of the package runs inside `command`, so that bad input ends with one message
that names the file, the key or row, what was expected and how to mend it. A traceback is
therefore always a defect of ours.
"""

import errno
import sys
from collections.abc import Callable, Sequence


class UserError(Exception):
    """Bad input (config, corpus, endpoints, checkpoint) or a resource that ran out."""


def command(main: Callable[[Sequence[str]], None]) -> None:
    """Run `main(argv)`; print a `UserError`, or a full disk, as one line and exit with status 1."""
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        place = error.filename or "the output folder"
        sys.exit(f"error: the disk is full at {place}: free some space and start again; finished work is kept")
