"""The execution plan: what a looped architecture does, as a list of steps.

This is the only file that knows what looping means. The network, the budgets, the KV cache and the
probes walk the plan; a parameter count takes each layer of the plan once.
"""

import dataclasses
import math

from smelt.model.settings import ModelSettings


@dataclasses.dataclass(frozen=True)
class Step:
    """One execution of one layer."""

    layer: int  # which physical layer, from 0
    visit: int  # which pass through it, from 0
    residual_scale: float  # factor on what each sublayer writes to the residual stream (Eq. 8, 9)
    kv_slot: int  # where this step keeps its keys and values; each step has its own


def plan(settings: ModelSettings) -> tuple[Step, ...]:
    """The steps in their order: layers before the span, the whole span `visits` times, the rest."""
    start, end = settings.loop_start, settings.loop_start + settings.loop_length
    inside = range(start, end)
    order = [(layer, 0, 1.0) for layer in range(start)]
    order += [(layer, visit, 1.0 / settings.visits) for visit in range(settings.visits) for layer in inside]
    order += [(layer, 0, 1.0) for layer in range(end, settings.layers)]
    return tuple(Step(layer, visit, scale, slot) for slot, (layer, visit, scale) in enumerate(order))


def middle_span(layers: int, share: float) -> tuple[int, int]:
    """The middle `share` of the layers as [start, end); an odd layer left over goes behind the span."""
    length = math.floor(share * layers + 0.5)
    start = (layers - length) // 2
    return start, start + length
