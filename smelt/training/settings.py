"""The network and the recipe of one run, as its spec carries them. Needs no torch."""

import dataclasses

from smelt.errors import UserError
from smelt.model.settings import ModelSettings
from smelt.setting import setting

# The paper's stable phase of 196,075 steps, its six branch steps and its decays of 9,537 steps (Sec. 4.1).
PAPER_STEPS = 196_075
PAPER_BRANCHES = (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
PAPER_DECAY = 9_537


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Warm-up, stable phase and decay branches; a step reads `batch_contexts` packed contexts."""

    steps: int = setting("Optimizer steps of the stable phase.", minimum=1)
    branch_steps: tuple[int, ...] = setting(
        "Stable steps at which a decay branches off; the paper's proportions where left out.",
        optional=True,
        min_items=1,
        unique_items=True,
        each={"minimum": 1},
    )
    decay_steps: int = setting(
        "Steps of each cosine decay; the paper's proportion where left out.", optional=True, minimum=1
    )
    learning_rate: float = setting(
        "Peak learning rate, or one by architecture and scale, as {baseline: {H32: 0.02}}.",
        or_mapping=True,
        exclusive_minimum=0,
    )
    warmup_steps: int = setting("Steps of linear warm-up.", 5, minimum=0)
    batch_contexts: int = setting("Contexts in one step.", 1, minimum=1)
    final_lr_fraction: float = setting(
        "Learning rate towards which a decay goes, as a fraction of the rate where it branches off.", 0.0, minimum=0
    )
    beta1: float = setting("AdamW beta 1.", 0.9, minimum=0, exclusive_maximum=1)
    beta2: float = setting("AdamW beta 2.", 0.95, minimum=0, exclusive_maximum=1)
    weight_decay: float = setting("AdamW weight decay.", 0.1, minimum=0)
    gradient_clip: float = setting("Largest gradient norm.", 1.0, exclusive_minimum=0)
    balance_loss: float = setting("Weight of the load-balancing loss.", 0.01, minimum=0)
    z_loss: float = setting("Weight of the router z loss.", 1e-4, minimum=0)
    precision: str = setting(
        "Products of the experts on the CPU, all but the router's on a GPU.",
        "bfloat16",
        choices=("bfloat16", "float32"),
    )
    seed: int = 0
    processes: int = setting(
        "Processes that train a run together, one a core or a GPU; they share a step's contexts evenly "
        "(see docs/scale.md).",
        1,
        minimum=1,
    )
    micro_batch_contexts: int = setting(
        "Contexts that a process takes at a time, so that a large step needs little memory; 0 for all of its share.",
        0,
        minimum=0,
    )
    expert_parallel: bool = setting("Whether each process keeps experts of its own, to which tokens are sent.", False)
    device: str = setting(
        "Where a run trains; cuda is a GPU for each process, whose bits differ from the CPU's (see docs/scale.md).",
        "cpu",
        choices=("cpu", "cuda"),
    )
    activation_checkpointing: bool = setting(
        "On a GPU: run each block again in the backward pass, which needs less memory and a third more work.", False
    )

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
