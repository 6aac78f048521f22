"""The words of the figure of the in-context sweep: titles, what the tests say, and what all of it rests on."""

from collections.abc import Iterator, Mapping, Sequence

from smelt.reporting.style import messages, panels
from smelt.reporting.style.labels import Row, grouped

AVERAGES = ("average", "average without Dyck")


def averages(curves: Mapping[str, Sequence[Row]]) -> list[str]:
    """The averages that differ: without a Dyck task the second is the first again."""
    known = [name for name in AVERAGES if name in curves]
    counts = {curves[name][0]["tasks"] for name in known}
    return known if len(counts) == len(known) else known[:1]


def titled(task: str, rows: Sequence[Row]) -> str:
    """A panel's title."""
    if task in AVERAGES:
        count = rows[0]["tasks"]
        return task.replace("average", f"average of {count} task{'s' if count > 1 else ''}", 1)
    return task.replace("_", " ").replace("bigbench", "BIG-bench")


def verdicts(rows: Sequence[Row], curve: Sequence[Row], width: int) -> list[str]:
    """What the tests say of each architecture but the reference, in lines of at most about `width` letters."""
    lines: list[str] = []
    if len({(row["difference"], row["reason"]) for row in rows}) == 1 and rows[0]["difference"] is None:
        return messages.wrapped(f"no test: {rows[0]['reason']}", width, 2).splitlines()
    for row in sorted(rows, key=lambda row: row["architecture"]):
        name = f"{row['architecture']}: " if len(rows) > 1 else ""
        if row["difference"] is None:
            lines += messages.wrapped(f"{name}no test: {row['reason']}", width, 2).splitlines()
            continue
        error = f" ± {100 * row['difference_se']:.1f}" if row["difference_se"] is not None else ""
        lines.append(f"{name}{100 * row['difference']:+.1f}{error} points at {row['shots']}")
        lines += messages.wrapped("  ".join(_p(row)), width).splitlines()
        cells = max(one["cells"] for one in curve)
        if row["cells"] < cells:
            lines.append(f"(in {row['cells']} of {cells} cells)")
    return lines


def _p(row: Row) -> Iterator[str]:
    """The p-values of a row, over evaluation seeds and over items: both after Holm's correction where it has one."""
    if row["p_holm"] is not None:
        yield f"p\u00a0(Holm)\u00a0{row['p_holm']:.2g}" + ("*" if row["resolved"] else "")
    elif row["p_value"] is not None:
        yield f"p\u00a0{row['p_value']:.2g}"
    items = row["item_p"] if row["item_p_holm"] is None else row["item_p_holm"]
    if items is not None:
        yield f"p\u00a0(items)\u00a0{items:.2g}"


def caption(sweep: Sequence[Row], icl: Sequence[Row], asked: Mapping[str, str]) -> Iterator[str]:
    """What the scores rest on, and what they cannot say."""
    yield ", ".join(f"{name} {value}" for name, value in asked.items())
    scored = [row for row in sweep if row["score"] is not None]
    if not scored:
        return
    tasks = [row for row in icl if row["task"] not in AVERAGES and row["items"]]
    yield from _items(tasks)
    yield f"means over {max(row['cells'] for row in scored)} cells"
    yield panels.seeds(row["evaluation_seeds"] for row in scored)
    if any(row["score_se"] for row in scored):
        yield "bars: one standard error over evaluation seeds"
    if any(row["difference"] is not None for row in icl):
        yield "differences at most demonstrations, over the cells in which both beat chance"
        yield "p: one-sided sign flips over evaluation seeds, p (items): over items; of tasks after Holm's correction"
    if any(row["resolved"] for row in icl):
        yield "*: resolved, as both are below 0.05"
    if any(row["training_seeds"] == 1 for row in icl):
        yield "one training seed a cell: no p knows what another would give"
    yield from _least(icl)
    yield from _lacking(scored)
    if any(row["score"] is None and row["shots"] is not None for row in sweep):
        yield "an average ends where not all of its tasks go on"
    names = {task for task, rows in grouped(sweep, "task").items() if all(row["score"] is None for row in rows)}
    if missing := [task for task in dict.fromkeys(row["task"] for row in sweep) if task in names]:
        yield f"without a score: {', '.join(missing)}"


def _items(rows: Sequence[Row]) -> Iterator[str]:
    counts = sorted({row["items"] for row in rows})
    if counts:
        yield f"{counts[0]:,}{f' to {counts[-1]:,}' if len(counts) > 1 else ''} items a task"


def _lacking(scored: Sequence[Row]) -> Iterator[str]:
    """The tasks whose prompts hold fewer demonstrations than the axis says, or were cut; the table has the numbers."""
    lacking = [row for row in scored if row["truncated_share"] or row["mean_demonstrations"] < row["shots"]]
    if tasks := dict.fromkeys(row["task"] for row in lacking if row["task"] not in AVERAGES):
        yield f"prompts cut or short of demonstrations: {', '.join(tasks)} (tables/sweep.csv says how much)"


def _least(icl: Sequence[Row]) -> Iterator[str]:
    """The smallest p-values that so many seeds and tasks can give."""
    tested = [row for row in icl if row["p_value"] is not None]
    if not tested:
        return
    seeds, least = min((row["evaluation_seeds"], 1 / row["patterns"]) for row in tested)
    family = max(sum(row["p_holm"] is not None for row in rows) for rows in grouped(tested, "architecture").values())
    after = f", nor below {min(1.0, least * family):.2g} after Holm over {family} tasks" if family > 1 else ""
    yield f"{seeds} evaluation seed{'s' if seeds > 1 else ''}: p cannot fall below {least:.2g}{after}"
