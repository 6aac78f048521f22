"""One thread for each process, as in the pipeline's jobs: bits and speed of training depend on it."""

import os

for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
