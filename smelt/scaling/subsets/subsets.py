"""CE gain on parts of the text: each source, each category, and quartiles of the sources by the reference's loss.

Reads endpoints, coefficients, draws, surfaces_without and source_losses.parquet; writes subsets.parquet. A part of the
text has too little data for all coefficients, so the exponents are those of the fit on the whole loss, and only
(E, A, K) are refitted, for each architecture, by the same objective; in each bootstrap draw the exponents are the
draw's own and the cells come up as often as in it. The loss of a category, as of the whole, is the mean over its
sources.

A quartile has no surface of its own: in each matched pair the sources are ranked by the reference's loss and split
into four groups of near-equal size, the sources' gains are averaged within a group, and then over the pairs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from smelt import artifacts, tables
from smelt.artifacts import field
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import KEYS, Row
from smelt.scaling.endpoints.table import read_points
from smelt.scaling.fitting.intervals import MOST_EXCLUDED, UsableDraws, supported
from smelt.scaling.gains import joint, leave_one_out
from smelt.scaling.gains.comparison import Comparison, budgets, pairing, sentence
from smelt.scaling.gains.frontiers import FittedSurface, Frontier, labels, read_surfaces
from smelt.scaling.gains.gain import CE_GAIN
from smelt.scaling.gains.leave_one_out import Jackknife
from smelt.scaling.settings import Settings
from smelt.scaling.subsets import level_fits, matched_pairs
from smelt.surfaces import frontier
from smelt.surfaces.catalogue import LEVELS
from smelt.surfaces.points import Array

QUARTILES = 4

_SHARED = ("architecture", "reference", "budget_flops", "sparsity", "S", "gain", "gain_low", "gain_high", "multiplier")
_SUPPORT = ("endpoints", "draws", "s_convention", "window", "resolved", "reason")
SUBSETS = pa.schema(
    [
        field("kind", pa.string(), "source, category, quartile or all"),
        field("subset", pa.string(), "its name; Q1 has the sources with the lowest loss of the reference"),
        field("category", pa.string(), "category of a source; missing for the other kinds"),
        field("sources", pa.int32(), "sources averaged; of a quartile, the most in any pair"),
        *(CE_GAIN.field(name) for name in (*_SHARED, *_SUPPORT)),
        *(
            field(f"{name}{end}", pa.float64(), f"refitted {name} of the {whose}; a quartile has none")
            for end, whose in (("", "architecture"), ("_reference", "reference"))
            for name in LEVELS
        ),
    ]
)


class Subset(NamedTuple):
    """A part of the text: the places of its sources among all."""

    kind: str
    name: str
    category: str | None
    places: tuple[int, ...]


class Gain(NamedTuple):
    """A subset's row; its gain in each draw, the draws that count, and without each scale (or nothing of these)."""

    row: dict[str, Any]
    drawn: Array | None
    usable: UsableDraws | None
    by_scale: Jackknife | None


def parts(sources: Sequence[tuple[str, str]]) -> list[Subset]:
    """The whole, the categories and the sources, by name, of (source, category)."""
    categories = sorted({category for _, category in sources})
    return [
        Subset("all", "all", None, tuple(range(len(sources)))),
        *(
            Subset("category", name, None, tuple(i for i, (_, category) in enumerate(sources) if category == name))
            for name in categories
        ),
        *(Subset("source", name, category, (i,)) for i, (name, category) in enumerate(sources)),
    ]


def check_sources(losses: pd.DataFrame, path: Path) -> list[tuple[str, str]]:
    """(source, category) of all sources, in the order of the rows of each endpoint.

    Raises UserError where an endpoint has other sources than the first.
    """
    groups = losses.groupby(list(KEYS), sort=False)[["source", "category"]]
    sources: list[tuple[str, str]] = []
    for endpoint, part in groups:
        labels = list(part.itertuples(index=False, name=None))
        sources = sources or labels
        if labels != sources:
            name, category = sorted(set(labels) ^ set(sources))[0]
            raise UserError(
                f"{path}: source {name!r} ({category}) is not in all endpoints alike (see "
                f"{', '.join(map(str, endpoint))}); evaluate all runs on the same held-out sample"
            )
    return sources


def gain_of(comparison: Comparison, budget: float) -> Gain:
    """The gain between the refitted surfaces of one subset, with the doubts that hold for the whole loss too."""
    row: dict[str, Any] = {"window": comparison.compute_window(budget), "draws": 0}
    doubts = list(comparison.invalid_because)
    if doubts:
        return Gain(row | {"resolved": False, "reason": sentence(doubts)}, None, None, None)
    log_multiplier = comparison.log_multiplier(budget)
    row |= {"gain": float(frontier.gain_of(log_multiplier)), "window": comparison.window(budget)}
    if np.isfinite(log_multiplier):
        row["multiplier"] = float(np.exp(min(log_multiplier, frontier.LARGEST)))
    else:
        doubts.append(f"the frontier cannot be inverted: {comparison.reference.name} never reaches this loss")
    usable, gains = comparison.usable, comparison.drawn_gains(budget)
    row["gain_low"], row["gain_high"] = usable.interval(gains)
    row["draws"] = usable.count
    far = comparison.extrapolated_because(budget) if row["window"] == frontier.EXTRAPOLATED else []
    doubts += [*([*far, *doubtful(row)] if usable.enough else []), *usable.unresolved_because]
    by_scale = leave_one_out.over_scales(comparison, budget)
    doubts += by_scale.unresolved_because
    row |= {"resolved": not doubts, "reason": sentence([*doubts, *(usable.caveats if usable.enough else [])])}
    return Gain(row, gains, usable, by_scale)


def doubtful(row: Mapping[str, Any]) -> list[str]:
    """Why the interval of a gain does not establish its sign."""
    return ["the interval spans zero"] if row["gain_low"] <= 0 <= row["gain_high"] else []


def shares(pairs: pd.DataFrame, losses: Array) -> Array:
    """(quartiles, sources): the share of each source in each quartile, a mean over the pairs; rows sum to 1.

    `losses` are those of the endpoints, (positions, sources); in each pair those of its first endpoint are ranked.
    """
    share = np.zeros((QUARTILES, losses.shape[1]))
    for reference in pairs["first"]:
        order = np.argsort(losses[reference], kind="stable")
        for quartile, members in enumerate(np.array_split(order, QUARTILES)):
            share[quartile, members] += 1 / members.size
    return share / len(pairs)


def quartile_row(share: Array, gains: Sequence[Gain], names: Sequence[str]) -> dict[str, Any]:
    """The gain of one quartile from the gains of all sources and their shares in it, (sources,).

    Sources without a gain are left out and named; above MOST_EXCLUDED of the quartile there is no gain.
    """
    windows = [gain.row["window"] for gain, part in zip(gains, share, strict=True) if part > 0]
    row: dict[str, Any] = {"window": frontier.weakest(*windows), "draws": 0, "resolved": False}
    known = np.array([gain.drawn is not None for gain in gains])
    lost = float(share[~known].sum())
    missing = [name for name, there, part in zip(names, known, share, strict=True) if part > 0 and not there]
    notes = [f"left out, without a gain: {', '.join(missing)} ({100 * lost:.3g} % of the quartile)"] if missing else []
    if lost > MOST_EXCLUDED:
        reasons = list(dict.fromkeys(str(gain.row["reason"]) for gain in gains if gain.drawn is None))
        if len(reasons) > 1 or known.any():
            reasons = [f"{len(missing)} of its sources, {100 * lost:.3g} % of the quartile, have no gain"]
        return row | {"reason": sentence(reasons)}
    part = share * known / (1 - lost)
    row["gain"] = float(sum(weight * gain.row["gain"] for weight, gain in zip(part, gains, strict=True) if weight))
    if row["gain"] < 1:
        row["multiplier"] = 1 / (1 - row["gain"])
    used = [(weight, gain) for weight, gain in zip(part, gains, strict=True) if weight > 0]
    usable = np.logical_and.reduce([gain.usable.usable for _, gain in used if gain.usable is not None])
    support = supported({"lack the gain of a source": ~usable})
    drawn = sum(weight * gain.drawn for weight, gain in used if gain.drawn is not None)
    row["gain_low"], row["gain_high"] = support.interval(np.asarray(drawn))
    row["draws"] = support.count
    if support.enough:
        of_sources = [why for _, gain in used if gain.usable for why in gain.usable.unresolved_because]
        far = ["the gain of a source is extrapolated"] if row["window"] == frontier.EXTRAPOLATED else []
        doubts = far + doubtful(row) + list(dict.fromkeys(of_sources))
        notes += support.caveats
    else:
        doubts = support.unresolved_because
    doubts = [*doubts, *_over_scales(row["gain"], used).unresolved_because]
    return row | {"resolved": not doubts, "reason": sentence([*doubts, *notes])}


def _over_scales(gain: float, used: Sequence[tuple[float, Gain]]) -> Jackknife:
    """The jackknife over scales of a mean gain of sources, each with its weight; of gains, not of logs."""
    found = [(weight, one.by_scale) for weight, one in used if one.by_scale is not None]
    if wrong := [by_scale.missing_because for _, by_scale in found if by_scale.missing_because]:
        return Jackknife(gain, np.empty(0), wrong[0], logs=False)
    left_out = [weight * frontier.gain_of(by_scale.left_out) for weight, by_scale in found]
    return Jackknife(gain, np.sum(left_out, axis=0), "", logs=False)


def analyse(
    surfaces: Sequence[FittedSurface],
    sources: Sequence[tuple[str, str]],
    losses: Array,
    endpoints: pd.DataFrame,
    settings: Settings,
) -> list[dict[str, Any]]:
    """Rows of SUBSETS.

    `losses` are (endpoints of the table, sources), NaN where an endpoint has none; `endpoints` are those that form
    matched pairs, their index being the position in the table.
    """
    if len(surfaces) == 1:
        return []  # a gain compares two
    subsets = parts(sources)
    refitted = level_fits.refit(surfaces, {part: _means(losses, part) for part in subsets}, settings)
    places = [(budget, label) for budget in budgets(surfaces, settings) for label in labels(surfaces, settings)]
    verdicts = joint.verdicts({one.name: one.points for one in surfaces}, settings)
    rows = []
    for which, target in enumerate(surfaces[1:], start=1):
        pairs = matched_pairs.matched(endpoints, target.name, settings.reference)
        compared = {
            (part, label): Comparison(*(Frontier(of_part[index], label, settings) for index in (which, 0)))
            for part, of_part in refitted.items()
            for label in labels(surfaces, settings)
        }
        for budget, label in places:
            about = _about(target, surfaces[0], budget, label, settings)
            unpaired = pairing(target, surfaces[0], settings)[0]
            gains = {part: gain_of(compared[part, label], budget) for part in subsets}
            found = [
                _named(part) | _levels(refitted[part][which], refitted[part][0]) | gains[part].row for part in subsets
            ]
            single = [gains[part] for part in subsets if part.kind == "source"]
            found += _quartiles(pairs, losses, single, [name for name, _ in sources])
            rows += [about | _doubted(row, unpaired, verdicts[target.name].unresolved_because) for row in found]
    return rows


def _doubted(row: Row, unpaired: Sequence[str], undecided: Sequence[str]) -> Row:
    """A row with what makes all intervals of its comparison doubtful, and with the verdict on the whole loss."""
    if not (unpaired or undecided) or row.get("gain") is None:
        return row
    return row | {"resolved": False, "reason": sentence([*unpaired, *filter(None, [row["reason"]]), *undecided])}


def _means(losses: Array, part: Subset) -> Array:
    """The loss of a subset at each endpoint of the table, NaN where it has none (such take no part in the fit)."""
    places = list(part.places)
    return np.array([row[places].mean() for row in losses])


def _about(
    target: FittedSurface, reference: FittedSurface, budget: float, label: str, settings: Settings
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SUBSETS.names)
    row |= {"architecture": target.name, "reference": reference.name, "budget_flops": budget, "sparsity": label}
    row |= {"S": settings.sparsity_values[label], "s_convention": settings.s_convention}
    return row | {"endpoints": target.points.rows.size + reference.points.rows.size}


def _named(part: Subset) -> dict[str, Any]:
    return {"kind": part.kind, "subset": part.name, "category": part.category, "sources": len(part.places)}


def _levels(target: FittedSurface, reference: FittedSurface) -> dict[str, Any]:
    return {
        f"{name}{end}": None if surface.values is None else float(surface.values[index])
        for end, surface in (("", target), ("_reference", reference))
        for index, name in enumerate(LEVELS)
    }


def _quartiles(pairs: pd.DataFrame, losses: Array, gains: Sequence[Gain], names: Sequence[str]) -> list[dict[str, Any]]:
    """The quartiles' own columns; without pairs or with fewer sources than quartiles, why there is none."""
    sizes = [members.size for members in np.array_split(np.arange(len(names)), QUARTILES)]
    wrong = "no matched pair" if pairs.empty else f"{len(names)} sources, fewer than quartiles" if not sizes[-1] else ""
    share = None if wrong else shares(pairs, losses)
    rows = []
    for place, size in enumerate(sizes):
        row = {"kind": "quartile", "subset": f"Q{place + 1}", "sources": size}
        if share is None:
            missing = {"draws": 0, "resolved": False, "reason": wrong}
            rows.append(row | missing | {"window": frontier.weakest(*(one.row["window"] for one in gains))})
        else:
            rows.append(row | quartile_row(share[place], gains, names))
    return rows


def main(argv: Sequence[str]) -> None:
    reads = ["endpoints", "coefficients", "draws", "without", "sources"]
    job = read_job("smelt.scaling.subsets.subsets", __doc__, argv, Settings, reads, ["out"])
    settings, path = job.settings, job.path("endpoints")
    points = read_points(path, settings)
    surfaces = read_surfaces(points, settings, *(job.path(name) for name in ("coefficients", "draws", "without")))
    endpoints = matched_pairs.read_endpoints(path, settings)
    losses = tables.read(job.path("sources"))
    matched_pairs.check_covered(endpoints, losses, job.path("sources"))
    sources = check_sources(losses, job.path("sources"))
    by_endpoint = matched_pairs.loss_matrix(losses, tables.read(path, KEYS))
    job.write("out", artifacts.table(analyse(surfaces, sources, by_endpoint, endpoints, settings), SUBSETS))


if __name__ == "__main__":
    command(main)
