"""A full checkpoint of a run as one safetensors file: weights, both moments and step counts by the parameter's name.

It is data alone: reading one runs no code. `about` says where in the run it stands. The same state gives the same
bytes.
"""

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import AdamW

from smelt.artifacts import replacing
from smelt.errors import UserError
from smelt.model.transformer import Transformer
from smelt.spec import canonical_json

KEY = "checkpoint"  # of `about` in the file's metadata
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def write(path: Path, model: Transformer, adamw: AdamW, about: dict[str, Any]) -> None:
    """Write the state; it is on the disk before the file has its name."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    moments = adamw.state_dict()["state"]
    for index, name in enumerate(_names(model, adamw)):
        tensors |= {f"{moment}.{name}": moments[index][moment] for moment in MOMENTS}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(save(tensors, {KEY: canonical_json(about)}))
        file.flush()
        os.fsync(file.fileno())


def is_whole(path: Path) -> bool:
    """Whether a safetensors file is there and as long as it says."""
    try:
        with safe_open(path, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def read(path: Path, model: Transformer, adamw: AdamW) -> dict[str, Any]:
    """Put the state of a file into `model` and `adamw`; return its `about`.

    Raises UserError where the file is truncated, none of ours, or of another network.
    """
    about, tensors = _read(path)
    weights = {name: tensors.get(f"model.{name}") for name in model.state_dict()}
    named = dict(enumerate(_names(model, adamw)))
    state = {index: {moment: tensors.get(f"{moment}.{name}") for moment in MOMENTS} for index, name in named.items()}
    shapes = {name: None if tensor is None else tensor.shape for name, tensor in weights.items()}
    missing = [moment for moments in state.values() for moment in moments.values() if moment is None]
    if missing or shapes != {name: tensor.shape for name, tensor in model.state_dict().items()}:
        raise UserError(f"{path}: the checkpoint of another network than the spec's; delete it and run again")
    model.load_state_dict(weights)
    adamw.load_state_dict({"state": state, "param_groups": adamw.state_dict()["param_groups"]})
    return about


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[KEY])
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(f"{path}: truncated or foreign checkpoint ({error}); delete it and run again") from None


def _names(model: Transformer, adamw: AdamW) -> list[str]:
    """Names of the parameters in the optimizer's order."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[parameter] for group in adamw.param_groups for parameter in group["params"]]
