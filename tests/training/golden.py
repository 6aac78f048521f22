"""The first losses of four small runs, to be compared with those in golden_losses.json.

    python -m tests.training.golden      # writes them anew, after a change that is meant

Text is drawn here, so that nothing but training decides them: sequences in which a token depends on the one before,
in segments of uneven length. The rate is low, so that what another CPU rounds differently does not grow by tokens that
take another expert; the weights of the auxiliary losses are high, so that they leave a mark within twenty steps. One
thread, experts in bfloat16.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smelt.spec import load
from smelt.training.settings import RunSettings
from smelt.training.steps.data import Batch
from smelt.training.steps.schedule import stable_rate
from smelt.training.steps.step import train_step
from smelt.training.trainer import Trainer

FILE = Path(__file__).with_name("golden_losses.json")
STEPS = 20
CONTEXT = 512
COLUMNS = ("loss", "balance_loss", "z_loss")
DESK = {"vocabulary": 1024, "layers": 4, "hidden_size": 32, "heads": 2, "kv_heads": 1, "head_size": 18,
        "experts": 64, "expert_width": 48, "tied_embeddings": False}  # fmt: skip
SMELT = {**DESK, "hidden_size": 28, "head_size": 12, "experts": 90, "expert_width": 36, "loop_start": 1,
         "loop_length": 2, "visits": 2}  # fmt: skip
MODELS = {  # the first two are H32-S85 of the desk study
    "baseline": DESK,
    "smelt": SMELT,
    "shared expert and tied embeddings": {**SMELT, "experts": 32, "shared_width": 48, "tied_embeddings": True},
    "three visits": {**SMELT, "experts": 32, "layers": 3, "loop_length": 1, "visits": 3},
}
RECIPE = {"steps": STEPS, "branch_steps": [STEPS], "decay_steps": 1, "learning_rate": 0.002, "warmup_steps": 5,
          "balance_loss": 1.0, "z_loss": 0.1}  # fmt: skip


def text(step: int, seed: int = 0) -> Batch:
    """A context: each segment walks over the vocabulary by steps that are mostly small."""
    rng = np.random.default_rng([seed, step])
    lengths = [31, 200, 5, 150, CONTEXT - 386]
    walks = [np.cumsum(rng.geometric(0.2, length)) * 7 + rng.integers(64) for length in lengths]
    return Batch(torch.from_numpy(np.concatenate(walks) % 1024), lengths)


def losses(model: dict[str, Any], **recipe: Any) -> dict[str, list[float]]:
    """COLUMNS of the log, one value a step."""
    run = {"run": "golden", "context": CONTEXT, "model": model, "training": {**RECIPE, **recipe}}
    trainer = Trainer(load(RunSettings, run))
    rows = []
    for step in range(STEPS):
        rate = stable_rate(step, trainer.settings)
        rows.append(train_step(trainer.network.model, trainer.network.adamw, text(step), rate, trainer.settings))
    return {name: [row[name] for row in rows] for name in COLUMNS}


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    found = {name: losses(model) for name, model in MODELS.items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
