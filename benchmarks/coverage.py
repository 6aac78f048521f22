"""How often the intervals of the gain contain the truth, on simulated grids.

The endpoints lie on the published surfaces of arXiv 2609.01343 with the published errors as noise, so that the
nine true gains are known. For each seed the whole stage runs: both surfaces are fitted and refitted on the
bootstrap's draws, and the intervals are read off them. With 200 seeds a sound 95 % interval misses about 10.

  python benchmarks/coverage.py [--seeds 200] [--draws 2000] [--correlation 0.8]
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from smelt.scaling.endpoints import simulate  # noqa: E402
from smelt.scaling.fitting import fit  # noqa: E402
from smelt.scaling.gains import gain  # noqa: E402
from smelt.surfaces import SMELT  # noqa: E402
from smelt.surfaces import gain as gain_between  # noqa: E402
from tests.scaling.published import RMSE, SPEC, SURFACES, VALUES, endpoint_rows, write_endpoints  # noqa: E402

BUDGETS = (1e20, 1e21, 1e22)
TARGET = 0.86  # share of the seeds, for each gain
KINDS = ("gain", "jackknife")  # bootstrap and jackknife interval
Place = tuple[float, str]


def truth() -> dict[Place, float]:
    """The gains of the published surfaces."""
    gains: dict[Place, float] = {}
    for label, value in VALUES.items():
        target, reference = (SMELT.slice(SURFACES[name], {"active": 1 - value}) for name in ("smelt", "baseline"))
        gains |= {(budget, label): float(gain_between(target, reference, budget)) for budget in BUDGETS}
    return dict(sorted(gains.items()))


def simulated(seed: int, correlation: float) -> list[dict[str, Any]]:
    """The grid with noise; `correlation` is the share of its variance that a cell's endpoints have in common."""
    surfaces = {
        name: {**dict(zip("EAKabc", values.tolist(), strict=True)), "rmse": RMSE[name]}
        for name, values in SURFACES.items()
    }
    settings = simulate.Settings(surfaces=surfaces, noise=1.0, seed=seed, correlation=correlation)
    return simulate.simulate(endpoint_rows(), settings)


def intervals(folder: Path, seed: int, settings: dict[str, Any], correlation: float) -> list[dict[str, Any]]:
    """The rows of gains of one seed."""
    text = json.dumps(settings | {"seed": seed})
    endpoints = write_endpoints(folder / "endpoints.parquet", simulated(seed, correlation))
    opening = ["--spec", text, "--endpoints", str(endpoints)]
    fitted = {name: str(folder / f"{name}.parquet") for name in ("coefficients", "draws", "surfaces-without")}
    with contextlib.redirect_stdout(None):
        fit.main([*opening, *options(fitted), "--residuals", str(folder / "residuals.parquet")])
    fitted["without"] = fitted.pop("surfaces-without")
    names = ("ce-gain", "allocation", "frontier", "gain-curve", "leave-one-out", "surface-pairs")
    gain.main([*opening, *options(fitted), *options({name: str(folder / f"{name}.parquet") for name in names})])
    return pq.read_table(folder / "ce-gain.parquet").to_pylist()


def options(paths: dict[str, str]) -> list[str]:
    return [part for name, path in paths.items() for part in (f"--{name}", path)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--correlation", type=float, default=0.0, help="share of the noise's variance within a cell")
    parser.add_argument("--resample", default="cells")
    arguments = parser.parse_args()
    settings = SPEC | {"bootstrap_draws": arguments.draws, "compute_budgets": list(BUDGETS)}
    settings |= {"resample": arguments.resample}
    true = truth()
    hits = {(kind, place): 0 for kind in KINDS for place in true}
    widths: dict[tuple[str, Place], list[float]] = {key: [] for key in hits}
    start, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            for row in intervals(Path(folder), seed, settings, arguments.correlation):
                place = row["budget_flops"], row["sparsity"]
                for kind in KINDS:
                    low, high = row[f"{kind}_low"], row[f"{kind}_high"]
                    if low is not None:
                        hits[kind, place] += low <= true[place] <= high
                        widths[kind, place].append(high - low)
    seconds = time.perf_counter() - start, time.process_time() - cpu
    report(true, hits, widths, arguments.seeds)
    print(f"{arguments.seeds} seeds, {arguments.draws} draws: {seconds[0]:.0f} s, {seconds[1]:.0f} s of CPU")
    short = [place for place in true if hits["gain", place] < TARGET * arguments.seeds]
    sys.exit(f"below {TARGET:.0%}: {short}" if short else 0)


def report(
    true: dict[Place, float],
    hits: dict[tuple[str, Place], int],
    widths: dict[tuple[str, Place], list[float]],
    seeds: int,
) -> None:
    """One line for each gain; a missing interval counts as a miss."""
    print(f"intervals that contain the truth, of {seeds}; widths are medians, in points")
    print("    C  sparsity  gain %  bootstrap  width  jackknife  width")
    for place, value in true.items():
        cells = []
        for kind in KINDS:
            middle = 100 * float(np.median(widths[kind, place] or [np.nan]))
            cells.append(f"{hits[kind, place]:9d}  {middle:5.1f}")
        print(f"{place[0]:5.0e}  {place[1]:>8}  {100 * value:6.2f}  {'  '.join(cells)}")


if __name__ == "__main__":
    main()
