"""Settings of the evaluation, as the jobs' specs carry them. Needs no torch."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    precision: str = "bfloat16"  # of the experts' products on the CPU, as in training


@dataclasses.dataclass(frozen=True)
class ScoringSettings:
    """Of the scores on downstream tasks."""

    context: int  # tokens of a packed row
    precision: str = "bfloat16"
