"""The sections `grid` and `ablations`: which networks are trained, and which of them make a curve."""

import dataclasses
from collections.abc import Mapping

from smelt.budgets.match import Tolerance
from smelt.model.settings import ModelSettings
from smelt.setting import setting
from smelt.study.sections.names import NAMES, RUN


@dataclasses.dataclass(frozen=True)
class Architecture:
    """An execution plan."""

    visits: int = setting("Passes through each layer of the span.", ModelSettings.visits, minimum=1)
    layers: int | None = setting(
        "Physical layers, where they are not the reference's; matched on all three budgets like a loop.",
        None,
        minimum=1,
    )
    span: tuple[int, int] | float = setting(
        "Looped layers as [start, end), or the share of the layers looped in the middle.",
        0.0,
        minimum=0,
        maximum=1,
        each={"minimum": 0},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a layer."""

    hidden_size: int = setting("Width of the residual stream.", minimum=1)
    heads: int = setting("Query heads.", minimum=1)
    kv_heads: int = setting("Key and value heads.", minimum=1)
    head_size: int = setting("Width of a head; even, as RoPE turns pairs.", minimum=2, multiple_of=2)
    expert_width: int = setting("Inner width of a SwiGLU expert.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale(Sizes):
    """Geometry of the reference architecture."""

    layers: int = setting("Physical layers.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry(Sizes):
    """Geometry of one run that is not solved for."""

    experts: int = setting("Experts of a layer.", minimum=1)
    shared_width: int | None = setting(
        "Inner width of a SwiGLU that every token passes; left out means none.", None, minimum=0
    )
    note: str | None = setting("What the table of budgets says of the run.", None)


@dataclasses.dataclass(frozen=True)
class Sparsity:
    """A sparsity, by itself or by the reference's number of experts."""

    sparsity: float | None = setting(
        "S of Eq. 1; the number of experts is solved for it.", None, minimum=0, exclusive_maximum=1
    )
    experts: int | None = setting("Number of experts of the reference.", None, minimum=1)
    trained: bool = setting("Whether the default targets train these cells (controls: false).", True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The networks of a study that trains."""

    architectures: Mapping[str, Architecture] = setting(
        "Execution plans, each matched to the first one, which is the reference and is never looped.",
        {"baseline": {}, "smelt": {"visits": 2, "span": 0.5}},
        min_properties=1,
        names=NAMES,
    )
    scales: Mapping[str, Scale] = setting(
        "Geometry of the reference architecture at each scale.",
        min_properties=1,
        names=("^[A-Za-z0-9.]+$", "a label is letters, digits and points, as 1.6B"),
    )
    sparsities: Mapping[str, Sparsity] = setting(
        "Compute-equivalent sparsities, by label. S0 is the fully active control.",
        min_properties=1,
        names=("^S[0-9]{1,2}([.][0-9]+)?$", "a label is S and the percentage, as S95"),
        alternatives=("sparsity", "experts"),
    )
    active_experts: int = setting("Experts that each token is routed to.", ModelSettings.active_experts, minimum=1)
    tied_embeddings: bool = setting(
        "Whether the LM head shares the embedding's weights (neither enters F or N).", ModelSettings.tied_embeddings
    )
    attention_keys: float = setting(
        "Mean number of keys charged to a query in the FLOPs of attention.", unit="keys", exclusive_minimum=0
    )
    tolerance: Mapping[str, float] = setting(
        "Largest mismatch accepted on each budget, as a fraction.", {}, of=(Tolerance,)
    )
    geometry: Mapping[str, Geometry] = setting(
        f"Sizes of single runs, by {RUN}, in place of those that would be solved for; held to the tolerance too.", {}
    )
    exclude: tuple[str, ...] = setting(f"Cells left out, as SCALE-SPARSITY, and single runs, as {RUN}.", ())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A curve of an ablation."""

    architectures: tuple[str, ...] = setting(
        "Architectures of the grid, in the order of the table's rows.", min_items=1, unique_items=True
    )
    reference: str = setting("Architecture of the line that the others are compared with; empty takes the first.", "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ablation:
    """Trained networks that differ along one axis."""

    axis: str = setting(
        "What its points differ in: layers inside the span (a number or a percentage), physical or executed layers, "
        "or visits.",
        choices=("looped", "span_pct", "layers", "executed_layers", "visits"),
    )
    sparsities: tuple[str, ...] = setting(
        "Sparsities at which it is made; empty means all in which a line's reference is trained.",
        (),
        unique_items=True,
    )
    lines: Mapping[str, Line] = setting("The curves, by name.", min_properties=1, names=NAMES)
