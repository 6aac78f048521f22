"""Endpoints to numbers: fitted loss surfaces, compute-optimal frontiers, gains and their intervals."""

import os

# The matrices here are so small that a second thread costs up to five times the time, and it would make
# the last bits depend on the machine. It must be said before numpy is loaded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
