"""The section `evaluation`: tasks, items and demonstrations."""

import dataclasses

from smelt.setting import setting
from smelt.study.sections.names import SEED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring:
    """Items and demonstrations of an evaluation set."""

    preset: str = setting(
        "How many items of each task: smoke, lite or full, each a part of the next.",
        choices=("smoke", "lite", "full"),
    )
    seeds: tuple[int, ...] = setting(
        "Seeds of the demonstrations; scores are averaged over them.", min_items=1, unique_items=True, each=SEED
    )
    shots: tuple[int, ...] = setting(
        "Numbers of demonstrations, as far as a task goes; empty for each task's own.",
        (),
        unique_items=True,
        each={"minimum": 0, "maximum": 32},
    )
    sampler: str = setting(
        "Choice of demonstrations: by seed and item (smelt), DCLM's own (dclm), or each number's the first of the next "
        "one's (nested).",
        "smelt",
        choices=("smelt", "dclm", "nested"),
    )


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The tasks that endpoints are scored on."""

    tasks: tuple[str, ...] = setting(
        "Tasks of config/tasks.yaml, or suites of them: desk (made here), core, mmlu; empty for none.",
        (),
        unique_items=True,
    )
    data: str = setting(
        "Folder of the tasks' item files, a path from the study file's folder; the desk suite needs none.", ""
    )
    truncation: str = setting(
        "What a prompt loses that is longer than a context: its oldest tokens but BOS, or whole demonstrations, oldest "
        "first.",
        "bos_left",
        choices=("bos_left", "whole_demos"),
    )
    baselines: str = setting(
        "DCLM's chance levels that scores are centred by; both Cores are printed.", "v2", choices=("v1", "v2")
    )
    all_endpoints: Scoring | None = setting(
        "What every endpoint is scored on; its scores are calibrated against the loss.", None
    )
    last_endpoint: Scoring | None = setting(
        "What the last endpoint of each run is scored on; the in-context sweep reads these.", None
    )
