"""The sections `training`, `tuning`, `monitoring` and `cluster`, beside the recipe of a run."""

import dataclasses

from smelt.setting import setting
from smelt.study.sections.names import POSITIVE


@dataclasses.dataclass(frozen=True)
class RunKeys:
    """What the study makes of a run's training settings; decides no bit of a step."""

    shared_learning_rate: bool = setting("Whether all architectures take the reference's learning rate.", False)
    save_interval: int = setting("Steps between resumable saves.", 50, unit="steps", minimum=1)


@dataclasses.dataclass(frozen=True)
class Jobs:
    """How training is divided among jobs, the same for all runs."""

    jobs: str = setting(
        "One job for each run, or one for its stable phase and one for each decay branch, to the same bytes (see "
        "docs/training.md).",
        "run",
        choices=("run", "branch"),
    )


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The learning rates of a study that tunes."""

    learning_rates: tuple[float, ...] | dict[str, tuple[float, ...]] = setting(
        "Peak learning rates, or lists by scale, numbered in this order, so that new ones go to the end; empty for a "
        "study that tunes nothing.",
        (),
        unique_items=True,
        each=POSITIVE,
    )


@dataclasses.dataclass(frozen=True)
class Monitoring:
    """What a training job shows; no result depends on it."""

    peak_flops: float = setting(
        "FLOP/s that a training job's processor can reach, of which its throughput is given as a share; 0 where not "
        "stated.",
        0,
        unit="FLOP/s",
        minimum=0,
    )
    tensorboard: bool = setting(
        "Whether runs write events for TensorBoard, under logs/training; needs the extra of that name.", False
    )


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What a scheduler is asked for; no result depends on it."""

    gpus: int = setting("GPUs of a node, above which no run may have processes; 0 if that is not known.", 0, minimum=0)
    hours: float = setting(
        "Longest run time of a job; a training that needs more goes on in the next one.",
        72,
        unit="hours",
        exclusive_minimum=0,
    )
