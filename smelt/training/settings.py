"""The network and the recipe of one run, as its spec carries them. Needs no torch."""

import dataclasses

from smelt.errors import UserError
from smelt.model.settings import ModelSettings

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
    final_lr_fraction: float = 0.0  # fraction of the peak towards which a decay goes
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    gradient_clip: float = 1.0  # gradient norm
    balance_loss: float = 0.01  # weights of the auxiliary losses
    z_loss: float = 1e-4
    precision: str = "bfloat16"  # of the experts' products on the CPU, of all but the router's on a GPU
    seed: int = 0
    processes: int = 1  # that train the run, one a core or a GPU
    micro_batch_contexts: int = 0  # of a step, that one process takes at a time; 0 for its whole share
    expert_parallel: bool = False  # whether each process keeps experts of its own
    device: str = "cpu"  # or "cuda": a GPU for each process
    activation_checkpointing: bool = False  # on a GPU: keep only each block's input

    def __post_init__(self) -> None:
        if list(self.branch_steps) != sorted(set(self.branch_steps)):
            raise UserError(f"branch_steps must grow from one to the next, not {list(self.branch_steps)}")
        if self.branch_steps[-1] > self.steps:
            raise UserError(
                f"branch step {self.branch_steps[-1]} lies beyond the stable phase of {self.steps} steps; "
                "raise training.steps or lower training.branch_steps"
            )
        if self.batch_contexts % (self.processes * max(1, self.micro_batch_contexts)):
            raise UserError(
                f"a step's {self.batch_contexts} contexts (training.batch_contexts) do not go evenly into "
                f"{self.processes} processes that take {max(1, self.micro_batch_contexts)} at a time; change "
                "training.processes or training.micro_batch_contexts"
            )
        if self.expert_parallel and self.processes == 1:
            raise UserError("training.expert_parallel needs training.processes above 1; leave one of them out")
        if self.activation_checkpointing and self.device == "cpu":
            raise UserError("training.activation_checkpointing needs training.device: cuda; leave one of them out")

    @property
    def micro_batch(self) -> int:
        """Contexts that one process takes at a time."""
        return self.micro_batch_contexts or self.batch_contexts // self.processes

    @property
    def distributed(self) -> bool:
        """Whether smelt.training.backends.distributed trains the run; smelt.training.backends.single otherwise."""
        return self.processes > 1 or self.micro_batch_contexts > 0


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """What decides the bits of a training job: the spec of train, stable, decay and join."""

    run: str  # id of the run, which every artifact of it carries
    context: int  # tokens of a packed context
    model: ModelSettings
    training: TrainingSettings
    branch: int = 0  # number of the branch that the job decays, from 1; 0 for other jobs


def paper_branches(steps: int) -> tuple[int, ...]:
    """Branch steps of a stable phase of `steps` steps in the paper's proportions, rounded, each at least 1."""
    return tuple(sorted({max(1, round(branch * steps / PAPER_STEPS)) for branch in PAPER_BRANCHES}))


def paper_decay(steps: int) -> int:
    """Steps of a decay in the paper's proportion, at least 1."""
    return max(1, round(PAPER_DECAY * steps / PAPER_STEPS))
