"""Warm-up, stable, decay: the learning rate as a pure function of the step.

There is no scheduler state that a resumed run could lose.
"""

import math

from smelt.training.settings import TrainingSettings


def stable_rate(step: int, settings: TrainingSettings) -> float:
    """Learning rate of stable step `step` (from 0): linear warm-up, then constant."""
    return settings.learning_rate * min(1.0, (step + 1) / (settings.warmup_steps + 1))


def decay_rate(step: int, branch_step: int, settings: TrainingSettings) -> float:
    """Learning rate of decay step `step` (from 0) of the branch that branches off at `branch_step`.

    A cosine from the stable rate at the branch to `final_lr_fraction` of it. Its ends belong to no step: the
    first lies below the stable rate and the last above the end, where an update would do nothing.
    """
    peak = stable_rate(branch_step - 1, settings)
    end = peak * settings.final_lr_fraction
    return end + (peak - end) * 0.5 * (1 + math.cos(math.pi * (step + 1) / (settings.decay_steps + 1)))
