"""Read an endpoint of a training run: its network, and what its file says of it."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer
from smelt.spec import load


def read_model(path: str | Path, precision: torch.dtype) -> tuple[Transformer, dict[str, Any]]:
    """An endpoint's network, and what its file says of it (run, model, branch, branch_step).

    Raises UserError where the file is truncated or was not written by a training run.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: truncated or no safetensors file ({error}); delete it and run again") from None
    if "endpoint" not in metadata:
        raise UserError(f"{path}: a foreign model: its metadata do not describe an endpoint; give one of a run")
    about = json.loads(metadata["endpoint"])
    if "run" not in about:
        raise UserError(f"{path}: the model does not name its run, as older ones do not; train the run again")
    with torch.device("meta"):
        model = Transformer(load(ModelSettings, about["model"]), precision)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise UserError(f"{path}: the weights do not fit the model settings beside them ({error})") from None
    return model.eval(), about
