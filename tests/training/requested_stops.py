"""A run in which process 1 alone is asked to stop in the first step; each process prints its exit status."""

import os
import sys

from smelt.training import train
from tests.training.branch_jobs import at_step, request_stop

if __name__ == "__main__":
    try:
        with at_step(1, request_stop if int(os.environ["RANK"]) else lambda trainer: None):
            train.main(sys.argv[1:])
    except SystemExit as exit:
        os.write(sys.stdout.fileno(), f"{os.environ['RANK']}:{exit.code}\n".encode())  # whole, beside the other's
        raise
