"""What a bootstrap of fitted surfaces costs, against what others do, and whether every draw is at its minimum.

Two synthetic studies on the published grid (72 endpoints and six coefficients for each of two architectures): in
one the errors are independent, in the other the endpoints of a cell share four fifths of their variance. The
methods take turns, draw by draw the same resamples, on one thread; times are CPU seconds, those of the slow methods
extrapolated from their first draws.

  python -m benchmarks.fits [--parts compare,certify,sources,curve]

The recipe of the replication of Chinchilla (autograd, BFGS, one start) runs where `autograd` can be imported:
pip install --target DIR autograd, and PYTHONPATH=DIR.
"""

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded: the times are of one thread

import numpy as np
from scipy.optimize import minimize

from smelt.scaling.fitting import point_fit, refit, resampling
from smelt.scaling.fitting.fit import fit_surfaces
from smelt.scaling.gains.comparison import FittedSurface
from smelt.scaling.settings import Settings
from smelt.scaling.subsets import level_fits
from smelt.surfaces.catalogue import SMELT
from smelt.surfaces.form import Design
from smelt.surfaces.points import Array, Points

DELTA = 1e-3
TRUE = {
    "baseline": np.array([1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594]),
    "smelt": np.array([1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011]),
}
RMSE = {"baseline": 0.00554, "smelt": 0.00952}  # nats
SCALES = {"100M": 6.4e8, "200M": 1.33e9, "600M": 4.19e9, "1.6B": 1.018e10}
SPARSITIES = {"S85": 0.85, "S95": 0.947, "S97": 0.969}
STEPS = (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
SOURCES = 39
BEYOND = 1e-9  # relative excess of an objective that counts


class Case(NamedTuple):
    """A surface of a study: its points, the fit of all of them and the weights of each draw."""

    points: Points
    design: Design
    theta: Array
    drawn: Array


def settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {
        "study": "benchmark",
        "reference": "baseline",
        "sparsity_values": SPARSITIES,
        "fit_starts": 16,
    }
    return Settings(**(values | changes))


def points(name: str, seed: int, shared: float, seeds: int = 1, first: int = 0) -> Points:
    """Endpoints around the published surface, `seeds` of each; `shared` is what a cell has in common."""
    random = np.random.default_rng([seed, list(TRUE).index(name)])
    rows = []
    for scale, flops in SCALES.items():
        for sparsity, value in SPARSITIES.items():
            common = random.standard_normal()
            flops_here = flops * (1 + 0.01 * random.random())
            for step in STEPS * seeds:
                error = np.sqrt(1 - shared) * random.standard_normal() + np.sqrt(shared) * common
                rows.append((scale, sparsity, flops_here, 1 - value, (step + 9537) * 256 * 4096.0, RMSE[name] * error))
    scales, sparsities, *numbers = (np.array(column) for column in zip(*rows, strict=True))
    variables = dict(zip(("flops", "active", "tokens"), numbers, strict=False))
    loss = SMELT.predict(TRUE[name], variables) + numbers[-1]
    return Points(name, first + np.arange(loss.size), np.full(loss.size, name), scales, sparsities, loss, variables)


def case(one: Points, draws: int) -> Case:
    chosen = settings(bootstrap_draws=draws)
    design = SMELT.design(one)
    theta = point_fit.fit(one, SMELT, design, chosen).theta
    drawn = resampling.draw_weights({"one": one}, chosen)["one"]
    return Case(one, design, theta, drawn[refit.identified(one, design, drawn)])


# The methods: each takes a case and the number of draws it runs, and returns the objective of each.


def three_starts(one: Case, draws: int) -> Array:
    return refit.refit(one.theta, one.design, one.drawn[:draws], settings()).minimum.objective


def warm_start(one: Case, draws: int) -> Array:
    return refit.refit(one.theta, one.design, one.drawn[:draws], settings(), starts=1).minimum.objective


def scipy_tight(one: Case, draws: int) -> Array:
    return np.array([point_fit.lbfgsb(one.theta, one.design, weight, DELTA)[1] for weight in one.drawn[:draws]])


def replication(one: Case, draws: int) -> Array:
    """One start at a rounded answer, raw coordinates, the resampled points written out, BFGS by autograd."""
    import autograd  # type: ignore[import-not-found]
    import autograd.numpy as anp  # type: ignore[import-not-found]

    def loss(theta: Any, flops: Any, active: Any, tokens: Any, losses: Any) -> Any:
        log_e, log_a, log_k, a, b, c = theta
        predicted = anp.log(
            anp.exp(log_a + b * anp.log(active) - a * anp.log(flops))
            + anp.exp(log_k - c * anp.log(tokens))
            + anp.exp(log_e)
        )
        rest = anp.log(losses) - predicted
        inside = anp.abs(rest) <= DELTA
        return anp.sum(anp.where(inside, 0.5 * rest**2, DELTA * (anp.abs(rest) - 0.5 * DELTA)))

    start = np.concatenate([np.log(TRUE[one.points.architecture][:3]), TRUE[one.points.architecture][3:]])
    slope, ends = autograd.grad(loss), []
    for weight in one.drawn[:draws].astype(int):
        rows = np.repeat(np.arange(weight.size), weight)
        data = tuple(column[rows] for column in (*one.points.variables.values(), one.points.loss))
        end = minimize(loss, start, args=data, jac=slope, method="BFGS", options={"maxiter": 10_000})
        ends.append(end.fun / DELTA**2)
    return np.array(ends)


class Method(NamedTuple):
    name: str
    run: Callable[[Case, int], Array]
    draws: int  # that it runs at most


METHODS = (
    Method("Newton, three starts", three_starts, 10**9),
    Method("Newton, one warm start", warm_start, 10**9),
    Method("L-BFGS-B, tight, one warm start", scipy_tight, 200),
    Method("replication: autograd, BFGS, one start", replication, 60),
)
STUDIES = (("independent errors", 11, 0.0), ("errors shared within cells", 26, 0.8))


def compare(draws: int) -> None:
    there = importlib.util.find_spec("autograd") is not None
    if not there:
        print("autograd cannot be imported: the recipe of the replication is left out")
    methods = METHODS if there else METHODS[:-1]
    for title, seed, shared in STUDIES:
        cases = [case(points(name, seed, shared), draws) for name in TRUE]
        spent, excess = dict.fromkeys(METHODS, 0.0), {method: np.empty(0) for method in methods}
        for one in cases:  # the methods take turns
            best = np.empty(0)
            for method in methods:
                count = min(len(one.drawn), method.draws)
                start = time.process_time()
                objectives = method.run(one, count)
                spent[method] += (time.process_time() - start) * len(one.drawn) / count
                best = best if best.size else objectives
                excess[method] = np.append(excess[method], objectives / best[:count] - 1)
        print(f"\n{title}: {draws} draws x {len(cases)} surfaces, CPU seconds")
        for method in methods:
            ratios = [spent[method] / spent[other] for other in METHODS[:2]]
            above = excess[method]
            print(
                f"  {method.name:40}{spent[method]:9.2f}   {ratios[0]:7.1f} x three starts, {ratios[1]:7.1f} x one;"
                f" objective above that of three starts: median {np.median(above):.1e}, worst {above.max():.1e},"
                f" in {int((above > BEYOND).sum())} of {above.size}"
            )


def certify(draws: int) -> None:
    """Every draw against the best of twelve tight starts of the reference solver."""
    chosen, worst, better, fits = settings(), -np.inf, 0, 0
    print("\nagainst the best of 12 tight starts of L-BFGS-B")
    for title, seed, shared in STUDIES:
        for name in TRUE:
            one = case(points(name, seed, shared), draws)
            minimum = refit.refit(one.theta, one.design, one.drawn, chosen).minimum
            single = refit.refit(one.theta, one.design, one.drawn, chosen, starts=1)
            starts = [*refit.starts_around(one.theta, one.design), *point_fit.random_starts(one.design, 9)]
            ends = [[point_fit.lbfgsb(start, one.design, weight, DELTA)[1] for start in starts] for weight in one.drawn]
            best = np.min(ends, axis=1)
            excess, lowest = minimum.objective / best - 1, np.minimum(best, minimum.objective)
            missed = int((single.minimum.objective / lowest - 1 > BEYOND).sum())
            worst, better, fits = max(worst, excess.max()), better + int((excess < -BEYOND).sum()), fits + excess.size
            print(
                f"  {title}, {name}: {excess.size} draws, worst {excess.max():+.1e},"
                f" above {BEYOND:g} in {int((excess > BEYOND).sum())}, not converged {int((~minimum.converged).sum())};"
                f" one warm start: {single.misses} improved by other draws, {missed} missed"
            )
    print(f"  all {fits}: worst {worst:+.1e}; lower than all twelve in {better}")


def sources(draws: int) -> None:
    """All sources of both architectures refitted with the exponents of each draw of the whole loss."""
    chosen = settings(bootstrap_draws=draws)
    endpoints = {name: points(name, 5, 0.5, first=72 * index) for index, name in enumerate(TRUE)}
    start = time.process_time()
    fitted = fit_surfaces(endpoints, chosen)
    print(f"\nthe fit stage, {draws} draws x 2 surfaces, all checks included: {time.process_time() - start:.2f} s")
    surfaces = [
        FittedSurface(endpoints[name], SMELT, one.fit.values, "none", "", one.drawn.draws)
        for name, one in fitted.items()
        if one.fit is not None
    ]
    table, random = np.concatenate([one.loss for one in endpoints.values()]), np.random.default_rng(3)
    losses = {
        place: table * random.uniform(0.6, 1.4) + 0.004 * random.standard_normal(table.size) for place in range(SOURCES)
    }
    start = time.process_time()
    level_fits.refit(surfaces, losses, chosen)
    spent = time.process_time() - start
    fits = SOURCES * len(surfaces) * draws
    print(f"{SOURCES} sources x 2 architectures x {draws} draws: {spent:.2f} s, {1e6 * spent / fits:.1f} us a fit")


def curve() -> None:
    """The cost against the number of draws, and against endpoints per cell."""
    print("\ncost of one surface, three starts a draw")
    for draws, seeds in ((1_000, 1), (3_000, 1), (10_000, 1), (30_000, 1), (100_000, 1), (2_000, 4), (2_000, 16)):
        one = case(points("smelt", 11, 0.0, seeds), draws)
        start = time.process_time()
        three_starts(one, draws)
        spent = time.process_time() - start
        print(
            f"  {draws:7d} draws, {6 * seeds:3d} endpoints a cell: {spent:7.2f} s, {1e6 * spent / draws:6.0f} us a draw"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--certify", type=int, default=1000, help="draws of each of four surfaces")
    parser.add_argument("--sources", type=int, default=10_000, help="draws of the refits of the sources")
    parser.add_argument("--parts", default="compare,certify,sources,curve")
    arguments = parser.parse_args()
    parts = {
        "compare": lambda: compare(arguments.draws),
        "certify": lambda: certify(arguments.certify),
        "sources": lambda: sources(arguments.sources),
        "curve": curve,
    }
    for name in arguments.parts.split(","):
        parts[name]()


if __name__ == "__main__":
    main()
