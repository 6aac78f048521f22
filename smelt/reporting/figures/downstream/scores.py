"""What the figure of downstream scores shows: for each band the first metric that has a score, or why none has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from smelt.reporting.style import panels
from smelt.reporting.style.labels import groups
from smelt.tables import rows as rows_of

PARTS = {"all_endpoints": "every endpoint", "last_endpoint": "last endpoints"}


class Metric(NamedTuple):
    """A column of a table and how it is shown."""

    table: str
    name: str
    unit: str
    column: str
    error: str  # column of its standard error
    factor: float = 1.0
    over: tuple[str, str] | None = None  # columns of the tasks averaged and of those there are
    only: tuple[str, str] | None = None  # a column of text and its value


class Shown(NamedTuple):
    """A band: the metric and its rows, or why there are none."""

    metric: Metric
    rows: pd.DataFrame
    missing: str
    left_out: Sequence[str] = ()  # parts that are over fewer tasks, and so cannot be compared


POINTS, NATS, SHARE = "centred score (points)", "nats per token", "accuracy (%)"
CORE = (
    Metric("core", "Core", POINTS, "core", "core_se", 100, ("tasks", "of")),
    Metric("core", "the study's own suite", POINTS, "other_score", "other_se", 100, ("other_tasks", "other_of")),
)
COMPLETION = tuple(
    Metric("completion", name, NATS, "nats_per_token", "nats_se", 1, ("tasks", "of"), ("suite", suite))
    for name, suite in (("Completion", "core"), ("Completion of the study's own suite", "desk"))
)
MMLU = tuple(
    Metric("mmlu", name, SHARE, "accuracy", "accuracy_se", 100, None, ("task", task))
    for name, task in (("MMLU", "mmlu"), ("MMLU in its standard form", "mmlu_standard"))
)


def bands_of(read: Mapping[str, pd.DataFrame]) -> list[Shown]:
    """Core, Completion and MMLU. `read` holds the tables core, completion and mmlu."""
    # Core's error and the other columns are under one of the two sets of chance levels: so is the Core that is shown.
    core = read["core"]
    core = core.assign(core=core["core_v1"].where(core["baselines"] == "v1", core["core_v2"]))
    return [_shown(CORE, core), _shown(COMPLETION, read["completion"]), _shown(MMLU, read["mmlu"])]


def _shown(choices: Sequence[Metric], rows: pd.DataFrame) -> Shown:
    for metric in choices:
        selected = rows if metric.only is None else rows[rows[metric.only[0]] == metric.only[1]]
        scored = selected[selected[metric.column].notna()]
        if not scored.empty:
            return _comparable(metric, scored)
    return Shown(choices[0], rows.head(0), "; ".join(rows["reason"].dropna().unique()) or "no endpoint was scored")


def _comparable(metric: Metric, rows: pd.DataFrame) -> Shown:
    """The rows that are over the most tasks: parts may differ in the numbers of demonstrations, and so in tasks."""
    if metric.over is None:
        return Shown(metric, rows, "")
    column, of = metric.over
    most = rows[column].max()
    fewer = groups(rows[rows[column] < most], "part")
    last = {part: rows_of(fewer_rows.tail(1))[0] for part, fewer_rows in fewer}
    left_out = [f"{PARTS[part]}, over {row[column]} of {row[of]} tasks" for part, row in last.items()]
    return Shown(metric, rows[rows[column] == most], "", left_out)


def title(one: Shown) -> str:
    """The metric's name, and how many of the tasks it is over where some are missing."""
    if one.metric.over is None:
        return one.metric.name
    tasks, of = (one.rows[name].iloc[0] for name in one.metric.over)
    return one.metric.name if tasks == of else f"{one.metric.name}, over {tasks} of {of} tasks"


def chance(one: Shown) -> float | None:
    """The score of random answers as it is shown; None where there is none."""
    if one.metric.table == "core":
        return 0.0
    if one.metric.table != "mmlu":
        return None
    known = one.rows[one.rows["centred"].notna() & (one.rows["centred"] != 1.0)]
    if known.empty:
        return None
    accuracy, centred = known["accuracy"].iloc[0], known["centred"].iloc[0]
    return one.metric.factor * float((accuracy - centred) / (1 - centred))


def rested(shown: Sequence[Shown], part: str) -> str:
    """What the scores of one part rest on: items, choice of demonstrations, seeds."""
    scored = {one.metric.table: one.rows[one.rows["part"] == part] for one in shown}
    rows = pd.concat([table[["preset", "sampler", "evaluation_seeds"]] for table in scored.values()])
    presets, samplers = (", ".join(sorted(set(rows[name]))) for name in ("preset", "sampler"))
    counts = [_counted(scored["core"], _tasks_of_core(scored["core"])), _counted(scored["mmlu"], "MMLU")]
    items = ", ".join(count for count in counts if count)
    seeds = panels.seeds(rows["evaluation_seeds"].dropna())
    said = f"{PARTS[part]}: preset {presets}" + (f" ({items})" if items else "")
    return f"{said}, sampler {samplers}, {seeds}"


def _tasks_of_core(rows: pd.DataFrame) -> str:
    """What the items in the table of Core are of."""
    core, other = (bool((rows[name] > 0).any()) for name in ("tasks", "other_tasks"))
    return "Core and the study's own suite" if core and other else "Core" if core else "the study's own suite"


def _counted(rows: pd.DataFrame, of: str) -> str:
    """How many items an endpoint is scored on."""
    counts = sorted(set(rows["items"][rows["items"] > 0]))
    return f"{' or '.join(f'{count:,}' for count in counts)} items of {of}" if counts else ""


def words(shown: Sequence[Shown]) -> Iterable[str]:
    """What else the caption says of the scores."""
    if levels := sorted({level for one in shown if one.metric.table == "core" for level in one.rows["baselines"]}):
        yield f"centred by chance levels {', '.join(levels)}"
    if left_out := dict.fromkeys(text for one in shown for text in one.left_out):
        yield f"not shown: {'; '.join(left_out)}"
    if any((one.rows[one.metric.error] > 0).any() for one in shown):
        yield "bars: one standard error over evaluation seeds, without the spread of items and training seeds"
