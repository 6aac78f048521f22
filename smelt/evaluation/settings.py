"""Settings of the evaluation, as the jobs' specs carry them. Needs no torch."""

import dataclasses

from smelt.setting import setting


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Of every evaluation of a network."""

    precision: str = setting(
        "Products of the experts on the CPU, as in training.", "bfloat16", choices=("bfloat16", "float32")
    )


@dataclasses.dataclass(frozen=True)
class ScoringSettings:
    """Of the scores on downstream tasks."""

    context: int  # tokens of a packed row
    precision: str = EvaluationSettings.precision
