"""Settings of the held-out loss, as a job's spec carries them. Needs no torch."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    precision: str = "bfloat16"  # of the experts' products on the CPU, as in training
