"""A full checkpoint of a run as one safetensors file: weights, both moments and step counts by the parameter's name.

It is data alone: reading one runs no code. `about` says where in the run it stands. The same state gives the same
bytes, whatever number of processes holds it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from smelt.errors import UserError
from smelt.model.transformer import Transformer
from smelt.spec import canonical_json
from smelt.training.saves import tensor_file

KEY = "checkpoint"  # of `about` in the file's metadata
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def shapes(model: Transformer) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a network's checkpoint, by name: weights, both moments, and () for step counts."""
    tensors: dict[str, tuple[int, ...]] = {}
    for name, parameter in model.named_parameters():
        tensors |= {f"{kind}.{name}": tuple(parameter.shape) for kind in ("model", "exp_avg", "exp_avg_sq")}
        tensors[f"step.{name}"] = ()
    return tensors


def write(
    path: Path, shapes: Mapping[str, Sequence[int]], whole: Callable[[str], Tensor], about: dict[str, Any]
) -> None:
    """Write a checkpoint of the tensors `shapes`, each from `whole(name)`, and its `about`; all processes call it."""
    tensor_file.write(path, shapes, whole, (KEY, canonical_json(about)))


def is_whole(path: Path) -> bool:
    """Whether a safetensors file exists and has the length that its header states."""
    try:
        with safe_open(path, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def read(path: Path, shapes: Mapping[str, Sequence[int]], put: Callable[[str, Tensor], None]) -> dict[str, Any]:
    """Load a checkpoint tensor by tensor and return its `about`: where in the run it stands.

    Calls `put(name, tensor)` for each tensor of `shapes`, so that one at a time is in memory. Raises UserError, before
    the first call, where the file is missing, truncated, foreign, or has tensors of other names and shapes.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[KEY])
            stored = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
            if stored != {name: list(shape) for name, shape in shapes.items()}:
                raise UserError(f"{path}: the checkpoint of another network than the spec's; delete it and run again")
            for name in sorted(stored):
                put(name, file.get_tensor(name))
            return about
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(f"{path}: truncated or foreign checkpoint ({error}); delete it and run again") from None
