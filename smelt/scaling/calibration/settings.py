"""Settings of the calibration of downstream scores. Needs no scipy."""

import dataclasses

from smelt.scaling.settings import Settings as FitSettings


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the calibration needs to know of the study, and its rules."""

    study: str
    reference: str  # architecture whose endpoints are fitted
    bootstrap_draws: int = FitSettings.bootstrap_draws
    seed: int = FitSettings.seed
    centred: tuple[str, ...] = ("core",)  # metrics whose tasks are centred by chance (Eq. 11)
    margin: float = 0.10  # by which the reference must beat chance for a pair to count, in these metrics:
    margin_metrics: tuple[str, ...] = ("mmlu",)
