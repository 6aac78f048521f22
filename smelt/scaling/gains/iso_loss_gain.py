"""The table of iso-loss gains: of each cell, and pooled by scale, by sparsity and over all cells, at each horizon.

Reads results/scaling/endpoints.parquet; writes iso_loss_gain.parquet. The log ratio m of a pair
(smelt.scaling.gains.iso_loss) is averaged over the seeds of a cell, then over cells. Cells of one scale share learning
rates and shapes, so that their errors are not independent: of the t interval over cells and the one over the means of
scales, the wider one counts.

`resolved` holds for the whole table: in at most 5 % of the studies without any true gain is a row resolved. The gain
over all cells at the last horizon is tested first, of all architectures together by Holm's correction. The other
pooled rows of an architecture are tested, again by Holm, only where that gain is resolved (serial gatekeeping).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from smelt import tables
from smelt.artifacts import field
from smelt.errors import command
from smelt.job import read_job
from smelt.labels import RUN_KEYS
from smelt.scaling.endpoints.table import select_sparsities
from smelt.scaling.gains.iso_loss import pair_rows
from smelt.scaling.gains.iso_loss_settings import Settings
from smelt.statistics import TInterval, holm, t_interval
from smelt.surfaces.points import Array

MODULE = "smelt.scaling.gains.iso_loss_gain"
LEVEL = 0.05  # chance of any resolved row in a table without a true gain

ISO_LOSS_GAIN = pa.schema(
    [
        field("architecture", pa.string(), "architecture whose gain it is"),
        field("reference", pa.string(), "architecture that it is compared with"),
        field("kind", pa.string(), "what is averaged: all cells, those of a sparsity or scale, a cell's pairs"),
        field("scale", pa.string(), "label of the scale; missing where scales are pooled"),
        field("sparsity", pa.string(), "label of the sparsity; missing where sparsities are pooled"),
        field("seed", pa.int32(), "seed of the pair; missing where several are averaged"),
        field("horizon", pa.int32(), "number of the endpoint in its run; the last ones have the highest"),
        field("branch_step", pa.int32(), "stable step at which the branch leaves; missing where cells differ"),
        field("tokens", pa.int64(), "D of the architecture's endpoints; missing where cells differ"),
        field("loss", pa.float64(), "held-out loss in nats, mean over seeds, then cells"),
        field("loss_reference", pa.float64(), "the reference's held-out loss in nats, mean over seeds, then cells"),
        field("gain", pa.float64(), "iso-loss gain: share of training compute saved at equal loss and fixed size"),
        field("gain_low", pa.float64(), "low end of its 95 % interval, the wider one of those over cells and scales"),
        field("gain_high", pa.float64(), "high end of its 95 % interval"),
        field("unit", pa.string(), "what the interval takes as independent: cells, scales or seeds"),
        field("cells_low", pa.float64(), "low end of the 95 % t interval over cells"),
        field("cells_high", pa.float64(), "high end of the 95 % t interval over cells"),
        field("scales_low", pa.float64(), "low end of the 95 % t interval over means of scales"),
        field("scales_high", pa.float64(), "high end of the 95 % t interval over means of scales"),
        field("multiplier", pa.float64(), "C of the reference over C of the architecture at equal loss"),
        field("cells", pa.int32(), "cells averaged"),
        field("pairs", pa.int32(), "pairs of runs averaged"),
        field("endpoints", pa.int32(), "endpoints of both architectures, on all of these pairs' curves"),
        field("s_convention", pa.string(), "convention of S; this gain uses the label of a sparsity alone"),
        field("censored", pa.int32(), "pairs of which only a bound is known"),
        field("bound", pa.string(), "of a censored pair: whether the gain is at least or at most this; else missing"),
        field("p_value", pa.float64(), "of the two-sided t test against no gain, the larger of cells and scales"),
        field("resolved", pa.bool_(), "whether the sign is established, all rows of the table taken together"),
        field("reason", pa.string(), "why a value is missing or not resolved, and what to know of it"),
    ]
)

POOLS = {"all": [], "sparsity": ["sparsity"], "scale": ["scale"]}  # kind of a pooled row -> what its cells share
KINDS = [*POOLS, "cell", "pair"]
BOUNDS = {1: "at least", 0: None, -1: "at most"}
ONE_SCALE = "cells of one scale share a learning rate and shapes, so their interval establishes no sign"
ONE_CELL = "one cell, whose learning rate and shape may be off, establishes no sign"


def analyse(endpoints: pd.DataFrame, reference: str, s_convention: str) -> pd.DataFrame:
    """Rows of ISO_LOSS_GAIN: by architecture, kind (all, sparsity, scale, cell; pair, of cells with several), horizon.

    `endpoints` has the columns of endpoints.parquet. An architecture without a pair has one row, with the reason. The
    table is empty where there is only the reference.
    """
    table = pooled(pair_rows(endpoints, reference))
    table = table.assign(reference=reference, s_convention=s_convention, resolved=resolved(table))
    rows = [row | {"reason": why} for row, why in zip(tables.rows(table), _reasons(table), strict=True)]
    return tables.from_rows(_with_unpaired(rows, endpoints, reference, s_convention), ISO_LOSS_GAIN)


def pooled(pairs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `analyse` from those of pair_rows, all but reference, s_convention, resolved and reason."""
    pairs = pairs.assign(kind="pair", cells=1, pairs=1, censored=(pairs["bound"] != 0).astype(np.int64))
    cells = _of_seeds(_summary(pairs, ["architecture", "scale", "sparsity", "horizon"]))
    parts = [_pool(cells, names).assign(kind=kind) for kind, names in POOLS.items()]
    keys = ["architecture", "scale", "sparsity"]
    repeated = pairs.merge(cells.loc[cells["pairs"] > 1, keys].drop_duplicates(), on=keys)
    table = pd.concat([part for part in (*parts, cells, repeated) if len(part)] or parts, ignore_index=True)
    unknown = (table["censored"] > 0) & (table["bound"] == 0)  # a mean over pairs of which some are bounded
    mean = tables.numbers(table, "log_ratio") + np.where(unknown, np.nan, 0.0)
    table = table.assign(gain=gain_of(mean), multiplier=np.exp(mean), bound=table["bound"].map(BOUNDS))
    table = tables.from_arrow(tables.to_arrow(table.reindex(columns=ISO_LOSS_GAIN.names), ISO_LOSS_GAIN))
    order: dict[str, Any] = {"kind": table["kind"].map(KINDS.index)}
    order |= {name: pd.factorize(table[name])[0] for name in ("architecture", "sparsity", "scale")}  # as they appear
    order |= {name: tables.numbers(table, name) for name in ("seed", "horizon")}
    by = ["architecture", "kind", "sparsity", "scale", "seed", "horizon"]
    return table.loc[pd.DataFrame(order).sort_values(by, kind="stable").index].reset_index(drop=True)


def gain_of(log_ratio: Any) -> Any:
    """The gain of m, a fraction: Eq. 5."""
    return 0.0 - np.expm1(-log_ratio)  # never -0.0


def _summary(members: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Means and sums over the members with the same keys; of some columns the value where all have the same."""
    groups = members.groupby(list(keys), sort=False)
    summed = groups[["pairs", "cells", "censored", "endpoints"]].sum()
    means = groups[["loss", "loss_reference", "log_ratio"]].mean()
    common: dict[str, Any] = {
        name: groups[name].first().where(groups[name].nunique(dropna=False) == 1).astype("Int64")
        for name in ("branch_step", "tokens", "seed")
    }
    common |= {"bound": groups["bound"].first()}  # of a single member
    common |= {"spread": groups["log_ratio"].std(), "members": groups.size()}
    return pd.concat([summed, means], axis=1).assign(**common).reset_index()


def _spread(summaries: pd.DataFrame) -> tuple[Array, NDArray[np.int64]]:
    """Standard deviation of m over the members of each row and their number, both (rows,)."""
    return tables.numbers(summaries, "spread"), summaries["members"].to_numpy(np.int64)


def _of_seeds(cells: pd.DataFrame) -> pd.DataFrame:
    """The summaries of cells with the interval over their seeds, or where there is one pair its bound."""
    mean = np.where(cells["censored"] > 0, np.nan, tables.numbers(cells, "log_ratio"))
    over_seeds = t_interval(mean, *_spread(cells))
    return cells.assign(
        **_ends("gain", over_seeds),
        kind="cell",
        cells=1,
        bound=cells["bound"].where(cells["pairs"] == 1, 0),
        unit=_where(~np.isnan(over_seeds.low), "seeds"),
    )


def _pool(cells: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Means over the cells that share `names`, with the t intervals over cells and over the means of scales."""
    keys = ["architecture", *names, "horizon"]
    pool = _summary(cells, keys)
    by_scale = _summary(_summary(cells, list(dict.fromkeys([*keys, "scale"]))), keys)
    mean = np.where(pool["censored"] > 0, np.nan, tables.numbers(pool, "log_ratio"))
    over_cells = t_interval(mean, *_spread(pool))
    over_scales = t_interval(mean, *_spread(by_scale))  # around the mean over cells
    several = (by_scale["members"] > 1).to_numpy()
    widths = [one.high - one.low for one in (over_cells, over_scales)]
    by_scales = several & ~(widths[0] > widths[1])
    wider = TInterval(*(np.where(by_scales, *ends) for ends in zip(over_scales, over_cells, strict=True)))
    unit = _where(~np.isnan(wider.low), np.where(by_scales, "scales", "cells"))
    p_value = np.where(several, np.fmax(over_cells.p_two_sided, over_scales.p_two_sided), np.nan)
    ends = _ends("cells", over_cells) | _ends("scales", over_scales) | _ends("gain", wider)
    return pool.assign(**ends, seed=None, bound=0, unit=unit, p_value=p_value)


def _where(known: NDArray[np.bool_], words: Any) -> pd.Series:
    """Words where they are known, (rows,), missing elsewhere."""
    return pd.Series(words, index=range(known.size), dtype=object).where(known, None)


def _ends(name: str, interval: TInterval) -> dict[str, Array]:
    """The ends of intervals of m as gains."""
    return {f"{name}_low": gain_of(interval.low), f"{name}_high": gain_of(interval.high)}


def resolved(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows of `pooled` establish a sign, (rows,), by Holm's correction behind the gate of `_gates`."""
    gates = _gates(table)
    p_values = tables.numbers(table, "p_value")
    found = np.zeros(len(table), dtype=bool)
    found[gates] = np.array(holm(p_values[gates].tolist())) < LEVEL
    opened = table["architecture"].isin(table["architecture"][found]).to_numpy(dtype=bool)
    further = opened & ~gates & ~np.isnan(p_values)
    found[further] = np.array(holm(p_values[further].tolist())) < LEVEL
    return found


def _gates(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The row of each architecture that is tested first: all cells at the last horizon, where it has a p-value."""
    last = table.groupby("architecture", sort=False)["horizon"].transform("max") == table["horizon"]
    return ((table["kind"] == "all") & last & table["p_value"].notna()).to_numpy(dtype=bool)


def _reasons(table: pd.DataFrame) -> list[str | None]:
    """Why rows are not resolved or lack their mean."""
    gates = _gates(table)
    opened = set(table["architecture"][gates & table["resolved"].to_numpy(dtype=bool)])
    return [
        None if row["resolved"] else _reason(row, gate or row["architecture"] in opened)
        for row, gate in zip(tables.rows(table), gates, strict=True)
    ]


def _reason(row: dict[str, Any], tested: bool) -> str:
    if row["bound"]:
        side = "architecture" if row["bound"] == "at least" else "reference"
        return f"the {side}'s first endpoint is below this loss already, so the gain is {row['bound']} this"
    if row["censored"]:
        return f"no mean: of {row['censored']} of {row['pairs']} pairs only a bound is known at this horizon"
    if row["cells"] == 1:
        return ONE_CELL
    if row["p_value"] is None:
        return ONE_SCALE
    if not tested:
        return "not tested: the gain over all cells at the last horizon is not resolved"
    if row["p_value"] < LEVEL:
        return "the interval leaves out zero, but not with all rows of the table counted together (Holm)"
    return "the interval spans zero"


def _with_unpaired(
    rows: list[dict[str, Any]], endpoints: pd.DataFrame, reference: str, s_convention: str
) -> list[dict[str, Any]]:
    """The rows with what they leave out: runs without a partner, and a row for an architecture without a pair."""
    runs = endpoints[list(RUN_KEYS)].drop_duplicates()
    places = {
        str(name): set(own.drop(columns="architecture").itertuples(index=False, name=None))
        for name, own in runs.groupby("architecture", sort=False)
    }
    beside = places.pop(reference, set())
    for name, own in places.items():
        if not own & beside:
            why = f"no pair: {name} and {reference} have no cell and seed in common"
            row = dict.fromkeys(ISO_LOSS_GAIN.names) | dict.fromkeys(("cells", "pairs", "endpoints", "censored"), 0)
            row |= {"architecture": name, "reference": reference, "kind": "all", "s_convention": s_convention}
            rows.append(row | {"resolved": False, "reason": why})
        elif count := len(own ^ beside):
            remark = f"runs of {name} and {reference} without a partner, left out: {count}"
            for row in rows:
                if (row["architecture"], row["kind"]) == (name, "all"):
                    row["reason"] = "; ".join(filter(None, [row["reason"], remark]))
    return rows


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, Settings, ["endpoints"], ["out"])
    settings, path = job.settings, job.path("endpoints")
    endpoints = select_sparsities(tables.read(path), path, settings.reference, settings.fit_sparsities)
    table = analyse(endpoints, settings.reference, settings.s_convention)
    job.write("out", tables.to_arrow(table, ISO_LOSS_GAIN))


if __name__ == "__main__":
    command(main)
