"""A run in which process 1 alone is asked to end in the first step; each process tells with what status it leaves."""

import os
import sys

from smelt.training import train
from tests.training.branch_jobs import ask_to_end, at_step

if __name__ == "__main__":
    try:
        with at_step(1, ask_to_end if int(os.environ["RANK"]) else lambda trainer: None):
            train.main(sys.argv[1:])
    except SystemExit as left:
        print(f"{os.environ['RANK']}:{left.code}", flush=True)
        raise
