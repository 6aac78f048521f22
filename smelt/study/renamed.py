"""Former keys of study files: each is answered by one line that names the new key."""

from collections.abc import Mapping
from typing import Any

from smelt.errors import UserError

TRAINING = {
    "final_rate": "final_lr_fraction",
    "clip": "gradient_clip",
    "recompute": "activation_checkpointing",
    "micro_contexts": "micro_batch_contexts",
    "checkpoint_steps": "save_interval",
    "shared_rate": "shared_learning_rate",
    "branches": "jobs: run (was together) or jobs: branch (was apart)",
}
# By section ("" for the study itself): the former key and what to write in its place.
RENAMED: dict[str, dict[str, str]] = {
    "": {"sweeps": "ablations", "plan": "cost_estimate", "watch": "monitoring"},
    "training": TRAINING,
    "tuning": {"rates": "learning_rates"},
    "grid": {"pinned": "geometry"},
    "evaluation": {"every": "all_endpoints", "final": "last_endpoint"},
    "scaling": {
        "budgets": "compute_budgets",
        "draws": "bootstrap_draws",
        "starts": "fit_starts",
        "deltas": "huber_deltas",
    },
}


def check_keys(config: Any) -> None:
    """Raise UserError, naming the new key, where a study file uses a former one; all of them in one line."""
    former = [
        f"{f'{section}.' if section else ''}{key} (write {RENAMED[name][key]})"
        for section, name, part in _sections(config)
        for key in part
        if key in RENAMED[name]
    ]
    if former:
        raise UserError(f"renamed keys: {', '.join(former)}")


def _sections(config: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(place in the file, name in RENAMED, content) of each section that may hold a former key."""
    if not isinstance(config, Mapping):
        return []
    named = [(name, name, config.get(name) if name else config) for name in RENAMED]
    for section in ("cells", "runs"):
        overrides = config.get(section)
        for name, part in overrides.items() if isinstance(overrides, Mapping) else ():
            named.append((f"{section}.{name}", "training", part))
    return [(place, name, part) for place, name, part in named if isinstance(part, Mapping)]
