"""The study of a grid: the runs that it trains, from its scales, sparsities, architectures and seeds.

Each architecture is matched to the reference while the study is read, so that a run's geometry is a value of its
job's spec.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from smelt.budgets.lattice import Lattice
from smelt.budgets.ledger import experts_for_sparsity, fully_active
from smelt.budgets.match import Problem, Tolerance
from smelt.budgets.matching import coarsest, fixed_geometry
from smelt.errors import UserError
from smelt.labels import CONTROL, labelled_sparsity
from smelt.model.execution import middle_span
from smelt.model.settings import ModelSettings
from smelt.study import ablations, recipes, tasks
from smelt.study.base import Study
from smelt.study.recipes import Run

SHORTEST_SEGMENT = 16  # tokens; no context is shorter either
# Messages for keys that only endpoint studies accept.
ENDPOINTS_ONLY = {
    "reference": "the reference of a grid is its first architecture; take the key out",
    "sparsities": "the sparsities of a grid are those of grid.sparsities; take the key out",
}


@dataclasses.dataclass(frozen=True)
class GridStudy(Study):
    """A validated study that trains what it fits."""

    kind = "grid"

    def check(self) -> None:
        """Match every cell and read every recipe. Raises UserError on a mistake in the grid."""
        for key, message in ENDPOINTS_ONLY.items():
            if self.config["scaling"][key]:
                raise UserError(f"scaling.{key}: {message}")
        ablations.check(self.config, self.networks)
        tasks.check(self)

    @property
    def scores(self) -> str:
        """The file of downstream scores: that of the study's evaluation where it has one, else the one it names."""
        if tasks.calibrated(self):
            return f"{self.root}/evaluation/calibration_scores.parquet"
        return super().scores

    @property
    def branch_jobs(self) -> bool:
        """Whether each decay branch is a job of its own."""
        return bool(self.config["training"]["jobs"] == "branch")

    @property
    def reference(self) -> str:
        return next(iter(self.config["grid"]["architectures"]))

    @property
    def attention_keys(self) -> float:
        return float(self.config["grid"]["attention_keys"])

    @functools.cached_property
    def sparsity_values(self) -> dict[str, float]:
        """S at which the frontiers are compared, by label: that of the entry, else the percentage in the label."""
        return {label: _sparsity(label, entry) for label, entry in self.config["grid"]["sparsities"].items()}

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """All runs of the grid by id, controls among them; matching takes milliseconds a cell."""
        runs = {run.id: run for run in self._runs()}
        if not runs:
            raise UserError("grid: no cell is left; take entries out of grid.exclude")
        if not any(run.trained for run in runs.values()):
            raise UserError("grid: no cell that is trained is left; take entries out of grid.exclude")
        recipes.check_recipes(self.config, list(runs.values()))
        self._check_corpus()
        self._check_grid(runs)
        return runs

    @property
    def trained(self) -> list[Run]:
        """The runs of the default targets."""
        return [run for run in self.runs.values() if run.trained]

    @property
    def networks(self) -> dict[tuple[str, str, str], ModelSettings]:
        """The trained networks by (architecture, scale, sparsity), whatever their seeds."""
        return {(run.architecture, run.scale, run.sparsity): run.model for run in self.trained}

    def control(self, scale: str) -> ModelSettings:
        """The fully active control of the reference at a scale: F0 and N0 of Eq. 1."""
        return fully_active(self._reference(scale, self.config["grid"]["active_experts"]))

    def own_control(self, run: Run) -> ModelSettings | None:
        """The S = 0 network of the run's own architecture, where the grid has one; none for the reference."""
        if run.architecture == self.reference or CONTROL not in self.config["grid"]["sparsities"]:
            return None
        if f"{run.architecture}-{run.scale}-{CONTROL}" in self.config["grid"]["exclude"]:
            return None
        return self._model(run.architecture, run.scale, CONTROL)

    def _runs(self) -> Iterator[Run]:
        self._check_names()
        self._check_loops()
        recipes.check_rates(self.config)
        swept, seeds = recipes.by_scale(self.config, "tuning.learning_rates"), recipes.by_scale(self.config, "seeds")
        for names in self._network_names():
            model, trained = self._model(*names), self.config["grid"]["sparsities"][names[2]]["trained"]
            rates: list[tuple[int | None, float | None]] = [*enumerate(swept[names[1]], start=1)] or [(None, None)]
            for seed in seeds[names[1]]:
                for number, rate in rates:
                    recipe = recipes.recipe(self.config, names, self.reference, seed, rate)
                    yield Run(*names, seed, number, model, recipe.training, recipe.save_interval, trained)

    def _network_names(self) -> Iterator[tuple[str, str, str]]:
        """Architecture, scale and sparsity of each network that is not left out, cell by cell."""
        grid = self.config["grid"]
        for scale in grid["scales"]:
            for label in grid["sparsities"]:
                for architecture in grid["architectures"]:
                    if not {f"{scale}-{label}", f"{architecture}-{scale}-{label}"} & set(grid["exclude"]):
                        yield architecture, scale, label

    def _reference(self, scale: str, experts: int) -> ModelSettings:
        """The reference architecture at a scale with some number of experts."""
        grid = self.config["grid"]
        return ModelSettings(
            vocabulary=self.config["corpus"]["vocabulary"],
            experts=experts,
            active_experts=grid["active_experts"],
            tied_embeddings=grid["tied_embeddings"],
            **grid["scales"][scale],
        )

    def _sparse(self, scale: str, label: str) -> ModelSettings:
        """The reference architecture at a scale and a sparsity."""
        sparsity = self.config["grid"]["sparsities"][label]
        if "experts" in sparsity:
            return self._reference(scale, sparsity["experts"])
        control = self._reference(scale, self.config["grid"]["active_experts"])
        experts = experts_for_sparsity(control, sparsity["sparsity"], self.attention_keys)
        return dataclasses.replace(control, experts=experts)

    def _model(self, architecture: str, scale: str, label: str) -> ModelSettings:
        """The network of an architecture in a cell: the reference, or the model matched to it."""
        grid = self.config["grid"]
        loop = grid["architectures"][architecture]
        try:
            reference = self._sparse(scale, label)
            tolerance, lattice = Tolerance(**grid["tolerance"]), Lattice(grid["multiple"], grid["shape"])
            layers = loop.get("layers", reference.layers)
            start, end = _span(loop["span"], layers)
            span = (start, end - start, loop["visits"])
            problem = Problem(reference, *span, self.attention_keys, tolerance, lattice, layers)
            if sizes := self.geometry(architecture, scale, label):
                return fixed_geometry(problem, sizes).model
            return coarsest(problem).model
        except UserError as error:
            raise UserError(f"grid, {architecture} of cell {scale}-{label}: {error}") from None

    def geometry(self, architecture: str, scale: str, label: str) -> dict[str, int]:
        """The fixed geometry of a run, by size; empty where its sizes are solved for."""
        entry = self.config["grid"]["geometry"].get(f"{architecture}-{scale}-{label}", {})
        return {name: size for name, size in entry.items() if name != "note"}

    def note(self, run: Run) -> str | None:
        """The study's note on a run with a fixed geometry."""
        entry = self.config["grid"]["geometry"].get(f"{run.architecture}-{run.cell}", {})
        return entry.get("note")

    def _check_names(self) -> None:
        """Raise UserError where `exclude` or `geometry` names no cell or run of the grid."""
        grid = self.config["grid"]
        cells = [f"{scale}-{label}" for scale in grid["scales"] for label in grid["sparsities"]]
        runs = [f"{architecture}-{cell}" for architecture in grid["architectures"] for cell in cells]
        if unknown := sorted(set(grid["exclude"]) - {*cells, *runs}):
            raise UserError(
                f"grid.exclude: {unknown[0]!r} is no cell and no run; a cell is SCALE-SPARSITY, as H64-S95, and a run "
                "ARCHITECTURE-SCALE-SPARSITY"
            )
        for name in grid["geometry"]:
            if name not in runs:
                raise UserError(f"grid.geometry: {name!r} is no run; a run is ARCHITECTURE-SCALE-SPARSITY")
            if name in runs[: len(cells)]:
                raise UserError(f"grid.geometry.{name}: the geometry of the reference is that of grid.scales")

    def _check_loops(self) -> None:
        """Raise UserError where the reference is looped, or another architecture has a span without visits."""
        grid = self.config["grid"]
        for name, loop in grid["architectures"].items():
            key = f"grid.architectures.{name}"
            if name == self.reference and (loop["visits"] > 1 or loop["span"]):
                raise UserError(f"{key}: the first is the reference, which is never looped; take visits and span out")
            if name == self.reference and "layers" in loop:
                raise UserError(f"{key}: the first is the reference, whose layers are those of grid.scales")
            for scale in grid["scales"].values():
                _check_loop(key, loop, loop.get("layers", scale["layers"]))

    def _check_corpus(self) -> None:
        corpus = self.config["corpus"]
        if corpus["weights"] and not corpus["megabytes"]:
            raise UserError("corpus.weights: all text is taken as it is where megabytes is 0; give corpus.megabytes")
        if corpus["segment_tokens"] and not SHORTEST_SEGMENT <= corpus["segment_tokens"] <= corpus["context"]:
            raise UserError(
                f"corpus.segment_tokens: {corpus['segment_tokens']} is no length of a segment in a context of"
                f" {corpus['context']} tokens; give {SHORTEST_SEGMENT} to {corpus['context']}, or 0 for the whole"
                " context"
            )

    def _check_grid(self, runs: Mapping[str, Run]) -> None:
        seen: dict[Any, Run] = {}
        for run in runs.values():
            first = seen.setdefault((run.architecture, run.seed, run.rate, run.model, run.training), run)
            if first is not run:
                raise UserError(f"grid: the cells {first.cell} and {run.cell} are the same network; keep one of them")
        control, active = self.config["grid"]["sparsities"].get(CONTROL, {}), self.config["grid"]["active_experts"]
        if (control and control.get("experts", active) != active) or control.get("sparsity", 0.0) != 0:
            raise UserError(f"grid.sparsities.S0: the fully active control; give it experts: {active}")
        scaling = self.config["scaling"]
        if unknown := set(scaling["fit_sparsities"]) - {run.sparsity for run in runs.values() if run.trained}:
            raise UserError(f"scaling.fit_sparsities: {sorted(unknown)[0]!r} is no sparsity that the grid trains")
        branches = len(next(iter(runs.values())).training.branch_steps)
        if scaling["skip_branches"] >= branches:
            raise UserError(f"scaling.skip_branches: {scaling['skip_branches']} leaves none of {branches} branches")


def _ends(span: float | list[int], layers: int) -> tuple[int, int]:
    """The looped layers as [start, end), from these or from the share of the layers in the middle."""
    start, end = span if isinstance(span, list) else middle_span(layers, span)
    return start, end


def _span(span: float | list[int], layers: int) -> tuple[int, int]:
    """The looped layers as [start, end). Raises UserError where they lie outside the layers."""
    start, end = _ends(span, layers)
    if not start <= end <= layers:
        raise UserError(f"span [{start}, {end}) lies outside the layers; its ends must lie within 0 and {layers}")
    return (start, end) if end > start else (0, 0)  # where an empty span starts decides nothing


def _check_loop(key: str, loop: Mapping[str, Any], layers: int) -> None:
    span, visits = loop["span"], loop["visits"]
    start, end = _ends(span, layers)
    if visits > 1 and start == end:
        what = f"the span {span} holds none of the {layers} layers" if span else "no span is given"
        advice = "give `span: 0.5` for the middle half, or [start, end), or take visits out"
        raise UserError(f"{key}: visits is {visits} but {what}; {advice}")
    if visits == 1 and start != end:
        raise UserError(f"{key}: a span is given but visits is 1; give `visits: 2`, or take the span out")


def _sparsity(label: str, entry: Mapping[str, Any]) -> float:
    value = entry.get("sparsity", labelled_sparsity(label))
    assert value is not None, label  # the schema allows no label of another form
    return float(value)
