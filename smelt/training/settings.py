"""The recipe of one run, as its spec carries it. Needs no torch."""

import dataclasses

from smelt.errors import UserError

# The paper's stable phase of 196,075 steps, its six branch steps and its decays of 9,537 steps (Sec. 4.1).
PAPER_STEPS = 196_075
PAPER_BRANCHES = (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
PAPER_DECAY = 9_537


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Warm-up, stable phase and decay branches; a step reads `batch_contexts` packed contexts."""

    steps: int  # of the stable phase
    branch_steps: tuple[int, ...]  # stable steps after which a decay branches off
    decay_steps: int
    learning_rate: float  # peak
    warmup_steps: int = 5
    batch_contexts: int = 1
    final_rate: float = 0.0  # fraction of the peak towards which a decay goes
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0  # gradient norm
    balance_loss: float = 0.01  # weights of the auxiliary losses
    z_loss: float = 1e-4
    precision: str = "bfloat16"  # of the experts' products on the CPU
    seed: int = 0

    def __post_init__(self) -> None:
        if list(self.branch_steps) != sorted(set(self.branch_steps)):
            raise UserError(f"branch_steps must grow from one to the next, not {list(self.branch_steps)}")
        if self.branch_steps[-1] > self.steps:
            raise UserError(
                f"branch step {self.branch_steps[-1]} lies beyond the stable phase of {self.steps} steps; "
                "raise training.steps or lower training.branch_steps"
            )


def paper_branches(steps: int) -> tuple[int, ...]:
    """Branch steps of a stable phase of `steps` steps in the paper's proportions, rounded, each at least 1."""
    return tuple(sorted({max(1, round(branch * steps / PAPER_STEPS)) for branch in PAPER_BRANCHES}))


def paper_decay(steps: int) -> int:
    """Steps of a decay in the paper's proportion, at least 1."""
    return max(1, round(PAPER_DECAY * steps / PAPER_STEPS))
