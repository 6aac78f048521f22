"""A matrix product whose rows do not depend on how many there are."""

import torch.nn.functional as F
from torch import Tensor

FEWEST = 4  # rows; fewer take the library's matrix-vector kernels, whose last bit differs


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x (rows, in) times the transpose of weight (out, in): (rows, out), bit for bit the same for a row alone as
    among others, so that a short document has one loss, packed or not."""
    if len(x) >= FEWEST:
        return F.linear(x, weight)
    return F.linear(F.pad(x, (0, 0, 0, FEWEST - len(x))), weight)[: len(x)]
