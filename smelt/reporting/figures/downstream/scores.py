"""What the figure of downstream scores shows: for each band the first metric that has a score, or why none has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from smelt.reporting.style import panels
from smelt.reporting.style.labels import Row

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
    rows: Sequence[Row]
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


def bands_of(read: Mapping[str, Sequence[Row]]) -> list[Shown]:
    """Core, Completion and MMLU. `read` holds the rows of core, completion and mmlu.parquet."""
    # Core's error and the other columns are under one of the two sets of chance levels: so is the Core that is shown.
    core = [row | {"core": row[f"core_{row['baselines']}"]} for row in read["core"]]
    return [_shown(CORE, core), _shown(COMPLETION, read["completion"]), _shown(MMLU, read["mmlu"])]


def _shown(choices: Sequence[Metric], rows: Sequence[Row]) -> Shown:
    for metric in choices:
        mine = rows if metric.only is None else [row for row in rows if row[metric.only[0]] == metric.only[1]]
        if found := [row for row in mine if row[metric.column] is not None]:
            return _comparable(metric, found)
    reasons = dict.fromkeys(row["reason"] for row in rows if row["reason"])
    return Shown(choices[0], [], "; ".join(reasons) or "no endpoint was scored")


def _comparable(metric: Metric, rows: Sequence[Row]) -> Shown:
    """The rows that are over the most tasks: parts may differ in the numbers of demonstrations, and so in tasks."""
    if metric.over is None:
        return Shown(metric, rows, "")
    column, of = metric.over
    most = max(row[column] for row in rows)
    fewer = {row["part"]: f"{row[column]} of {row[of]}" for row in rows if row[column] < most}
    left_out = [f"{PARTS[part]}, over {count} tasks" for part, count in fewer.items()]
    return Shown(metric, [row for row in rows if row[column] == most], "", left_out)


def title(one: Shown) -> str:
    """The metric's name, and how many of the tasks it is over where some are missing."""
    if one.metric.over is None:
        return one.metric.name
    tasks, of = (one.rows[0][name] for name in one.metric.over)
    return one.metric.name if tasks == of else f"{one.metric.name}, over {tasks} of {of} tasks"


def chance(one: Shown) -> float | None:
    """The score of random answers as it is shown; None where there is none."""
    if one.metric.table == "core":
        return 0.0
    known = [row for row in one.rows if one.metric.table == "mmlu" and row["centred"] not in (None, 1.0)]
    if not known:
        return None
    accuracy, centred = known[0]["accuracy"], known[0]["centred"]
    return one.metric.factor * float((accuracy - centred) / (1 - centred))


def rested(shown: Sequence[Shown], part: str) -> str:
    """What the scores of one part rest on: items, choice of demonstrations, seeds."""
    found = {one.metric.table: [row for row in one.rows if row["part"] == part] for one in shown}
    rows = [row for group in found.values() for row in group]
    presets, samplers = (", ".join(sorted({row[name] for row in rows})) for name in ("preset", "sampler"))
    counts = [_counted(found["core"], _tasks_of_core(found["core"])), _counted(found["mmlu"], "MMLU")]
    items = ", ".join(count for count in counts if count)
    said = f"{PARTS[part]}: preset {presets}" + (f" ({items})" if items else "")
    return f"{said}, sampler {samplers}, {panels.seeds(row['evaluation_seeds'] for row in rows)}"


def _tasks_of_core(rows: Sequence[Row]) -> str:
    """What the items in the table of Core are of."""
    core, other = any(row["tasks"] for row in rows), any(row["other_tasks"] for row in rows)
    return "Core and the own suite" if core and other else "Core" if core else "the own suite"


def _counted(rows: Sequence[Row], of: str) -> str:
    """How many items an endpoint is scored on."""
    counts = sorted({row["items"] for row in rows if row["items"]})
    return f"{' or '.join(f'{count:,}' for count in counts)} items of {of}" if counts else ""


def words(shown: Sequence[Shown]) -> Iterable[str]:
    """What else the caption says of the scores."""
    if levels := sorted({row["baselines"] for one in shown if one.metric.table == "core" for row in one.rows}):
        yield f"centred by chance levels {', '.join(levels)}"
    if left_out := dict.fromkeys(text for one in shown for text in one.left_out):
        yield f"not shown: {'; '.join(left_out)}"
    if any(row[one.metric.error] for one in shown for row in one.rows):
        yield "bars: one standard error over evaluation seeds, which knows nothing of items or training seeds"
