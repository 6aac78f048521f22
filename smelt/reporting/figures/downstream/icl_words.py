"""The words of the figure of the in-context sweep: titles, what the tests say, and what all of it rests on."""

from collections.abc import Iterator, Mapping

import pandas as pd

from smelt.reporting.style import messages, panels
from smelt.reporting.style.labels import Row, groups
from smelt.tables import rows as rows_of

AVERAGES = ("average", "average without Dyck")


def averages(curves: Mapping[str, pd.DataFrame]) -> list[str]:
    """The averages that differ: without a Dyck task the second is the first again."""
    known = [name for name in AVERAGES if name in curves]
    counts = {curves[name]["tasks"].iloc[0] for name in known}
    return known if len(counts) == len(known) else known[:1]


def titled(task: str, rows: pd.DataFrame) -> str:
    """A panel's title."""
    if task in AVERAGES:
        count = rows["tasks"].iloc[0]
        return task.replace("average", f"average of {count} task{'s' if count > 1 else ''}", 1)
    return task.replace("_", " ").replace("bigbench", "BIG-bench")


def verdicts(rows: pd.DataFrame, curve: pd.DataFrame, width: int) -> list[str]:
    """What the tests say of each architecture but the reference, in lines of at most about `width` letters."""
    lines: list[str] = []
    if len(rows[["difference", "reason"]].drop_duplicates()) == 1 and rows["difference"].isna().all():
        return messages.wrapped(f"no test: {rows['reason'].iloc[0]}", width, 2).splitlines()
    for row in rows_of(rows.sort_values("architecture", kind="stable")):
        name = f"{row['architecture']}: " if len(rows) > 1 else ""
        if row["difference"] is None:
            lines += messages.wrapped(f"{name}no test: {row['reason']}", width, 2).splitlines()
            continue
        error = f" ± {100 * row['difference_se']:.1f}" if row["difference_se"] is not None else ""
        lines.append(f"{name}{100 * row['difference']:+.1f}{error} points at {row['shots']}")
        lines += messages.wrapped("  ".join(_p(row)), width).splitlines()
        cells = curve["cells"].max()
        if row["cells"] < cells:
            lines.append(f"(in {row['cells']} of {cells} cells)")
    return lines


def _p(row: Row) -> Iterator[str]:
    """The p-values of a row, over evaluation seeds and over items: both after Holm's correction where it has one."""
    if row["p_holm"] is not None:
        yield f"p\u00a0(Holm)\u00a0{row['p_holm']:.2g}" + ("*" if row["resolved"] else "")
    elif row["p_two_sided"] is not None:
        yield f"p\u00a0{row['p_two_sided']:.2g}"
    items = row["item_p"] if row["item_p_holm"] is None else row["item_p_holm"]
    if items is not None:
        yield f"p\u00a0(items)\u00a0{items:.2g}"


def caption(sweep: pd.DataFrame, icl: pd.DataFrame, asked: Mapping[str, str]) -> Iterator[str]:
    """What the scores rest on, and what they cannot say."""
    yield ", ".join(f"{name} {value}" for name, value in asked.items())
    scored = sweep[sweep["score"].notna()]
    if scored.empty:
        return
    yield from _items(icl[~icl["task"].isin(AVERAGES) & (icl["items"] > 0)])
    yield f"means over {scored['cells'].max()} cells"
    yield panels.seeds(scored["evaluation_seeds"].dropna())
    if (scored["score_se"] > 0).any():
        yield "bars: one standard error over evaluation seeds"
    if icl["difference"].notna().any():
        yield "differences at most demonstrations, over the cells in which both beat chance"
        yield "p: two-sided sign flips over evaluation seeds, p (items): over items; of tasks after Holm's correction"
    if icl["resolved"].any():
        yield "*: resolved, as both are below 0.05"
    if (icl["training_seeds"] == 1).any():
        yield "one training seed per cell: p does not cover the spread of training seeds"
    yield from _least(icl)
    yield from _lacking(scored)
    if (sweep["score"].isna() & sweep["shots"].notna()).any():
        yield "averages stop where a task has no score"
    if missing := [task for task, rows in groups(sweep, "task") if rows["score"].isna().all()]:
        yield f"without a score: {', '.join(missing)}"


def _items(rows: pd.DataFrame) -> Iterator[str]:
    counts = sorted(set(rows["items"]))
    if counts:
        yield f"{counts[0]:,}{f' to {counts[-1]:,}' if len(counts) > 1 else ''} items per task"


def _lacking(scored: pd.DataFrame) -> Iterator[str]:
    """The tasks whose prompts hold fewer demonstrations than the axis says, or were cut; the table has the numbers."""
    lacking = (scored["truncated_share"] > 0) | (scored["mean_demonstrations"] < scored["shots"])
    tasks = scored[lacking.fillna(False) & ~scored["task"].isin(AVERAGES)]["task"].unique()
    if len(tasks):
        yield f"prompts cut or short of demonstrations: {', '.join(tasks)} (tables/sweep.csv says how much)"


def _least(icl: pd.DataFrame) -> Iterator[str]:
    """The smallest p-values that so many seeds and tasks can give."""
    tested = icl[icl["p_value"].notna()]
    if tested.empty:
        return
    # Of the rows with the fewest seeds, those with the most patterns of signs reach the smallest p.
    fewest = rows_of(tested.sort_values(["evaluation_seeds", "patterns"], ascending=[True, False]).head(1))[0]
    seeds, least = fewest["evaluation_seeds"], min(1.0, 2 / fewest["patterns"])
    family = tested.groupby("architecture")["p_holm"].count().max()
    after = f", {min(1.0, least * family):.2g} after Holm over {family} tasks" if family > 1 else ""
    yield f"{seeds} evaluation seed{'s' if seeds > 1 else ''}: smallest attainable p {least:.2g}{after}"
