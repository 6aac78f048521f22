"""What the names and numbers of several sections may be."""

from smelt.setting import Bounds

NAME = "^[a-z][a-z0-9_]*$"
NAMES = (NAME, "a name is lower-case letters, digits and _, a letter first")
SEED: Bounds = {"minimum": 0, "maximum": 2**31 - 1}
POSITIVE: Bounds = {"exclusive_minimum": 0}
RUN = "ARCHITECTURE-SCALE-SPARSITY"
