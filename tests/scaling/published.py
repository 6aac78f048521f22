"""The published surfaces of arXiv 2609.01343, its grid, and synthetic studies made from them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from smelt.artifacts import table
from smelt.scaling.endpoints.table import ENDPOINTS
from smelt.surfaces.points import VARIABLES, Array, Points

# The paper's table of coefficients: E, A, K, a, b, c.
SURFACES: dict[str, Array] = {
    "baseline": np.array([1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594]),
    "smelt": np.array([1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011]),
}
RMSE = {"baseline": 0.00554, "smelt": 0.00952}  # of its fits, nats
VALUES = {"S85": 0.85, "S95": 0.95, "S97": 0.97}
STEPS = (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
DECAY, BATCH, CONTEXT = 9_537, 256, 4096
# scale, sparsity: F (FLOPs per token) and S of the baseline, then of smelt, at 392 keys per query.
GRID = {
    ("100M", "S85"): ((632862720, 0.859732), (647792640, 0.868000)),
    ("100M", "S95"): ((638023680, 0.952326), (657745920, 0.954974)),
    ("100M", "S97"): ((643829760, 0.972443), (668943360, 0.973789)),
    ("200M", "S85"): ((1316782080, 0.843138), (1344854016, 0.845951)),
    ("200M", "S95"): ((1328578560, 0.945958), (1366751232, 0.946976)),
    ("200M", "S97"): ((1341849600, 0.968646), (1391385600, 0.969048)),
    ("600M", "S85"): ((4159733760, 0.844509), (4188856320, 0.850751)),
    ("600M", "S95"): ((4187258880, 0.946604), (4289241600, 0.947072)),
    ("600M", "S97"): ((4218224640, 0.969108), (4348028160, 0.969233)),
    ("1.6B", "S85"): ((10119168000, 0.845284), (10114917120, 0.846352)),
    ("1.6B", "S95"): ((10172252160, 0.946971), (10210717440, 0.947550)),
    ("1.6B", "S97"): ((10231971840, 0.969370), (10318492800, 0.969618)),
}
Grid = Mapping[tuple[str, str], Sequence[tuple[float, float]]]
SPEC = {"study": "paper", "reference": "baseline", "sparsity_values": VALUES, "bootstrap_draws": 60, "fit_starts": 8}


def part(scales: int, sparsities: int) -> Grid:
    """The first `scales` scales and `sparsities` sparsities of the grid."""
    names = list(dict.fromkeys(scale for scale, _ in GRID))[:scales]
    labels = list(VALUES)[:sparsities]
    return {cell: values for cell, values in GRID.items() if cell[0] in names and cell[1] in labels}


def surface_loss(values: Array, flops: float, value: float, tokens: float) -> float:
    """Eq. 2 in nats, written out once more: `value` is S."""
    E, A, K, a, b, c = map(float, values)
    return E + A * (1 - value) ** b * flops**-a + K * tokens**-c


def endpoint_rows(
    grid: Grid = GRID,
    surfaces: Mapping[str, Array] = SURFACES,
    noise: float = 0.0,
    seed: int = 0,
    steps: Sequence[int] = STEPS,
    nominal: Mapping[str, float] = VALUES,
) -> list[dict[str, Any]]:
    """Endpoints on the surfaces, with `noise` x the published RMSE around them."""
    random = np.random.default_rng(seed)
    rows = []
    for place, (name, surface) in enumerate(surfaces.items()):
        for (scale, sparsity), budgets in grid.items():
            flops, value = budgets[min(place, 1)]
            for step in steps:
                tokens = (step + DECAY) * BATCH * CONTEXT
                loss = surface_loss(surface, flops, value, tokens)
                loss += noise * RMSE.get(name, 0.01) * random.normal()
                values: tuple[Any, ...] = (name, scale, sparsity, 0, step, tokens, float(flops), float(flops) * tokens)
                values += (value, loss, loss, "trained", int(flops), 512)
                row = dict(zip(ENDPOINTS.names, values, strict=False))
                rows.append(dict.fromkeys(ENDPOINTS.names) | row | {"S_nominal": nominal[sparsity]})
    return rows


def points(rows: Sequence[Mapping[str, Any]], architecture: str) -> Points:
    """The points of one architecture."""
    mine = [row for row in rows if row["architecture"] == architecture]
    columns = {key: np.array([row[key] for row in mine]) for key in ENDPOINTS.names}
    known = {name: key for name, key in VARIABLES.items() if not any(value is None for value in columns[key])}
    return Points(
        architecture,
        np.arange(len(mine)),
        columns["architecture"],
        columns["scale"],
        columns["sparsity"],
        columns["loss"],
        {"active": 1 - columns["S"], **{name: columns[key].astype(np.float64) for name, key in known.items()}},
    )


def write_endpoints(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A table of endpoints."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows, ENDPOINTS), path)
    return path


def run_stage(folder: Path, rows: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, list[dict[str, Any]]]:
    """Run the commands of the stage on endpoints; return the rows of each artifact under its name."""
    from smelt.scaling.fitting import fit
    from smelt.scaling.gains import gain

    text = json.dumps(SPEC | changes)
    paths = {name: folder / f"{name}.parquet" for name in ("coefficients", "draws", "surfaces_without", "residuals")}
    answers = {
        name: folder / f"{name}.parquet"
        for name in ("ce_gain", "allocation", "frontier", "gain_curve", "leave_one_out", "surface_pairs")
    }
    endpoints = write_endpoints(folder / "endpoints.parquet", rows)
    fit.main(["--spec", text, "--endpoints", str(endpoints), *_options(paths)])
    read = {"endpoints": endpoints, "coefficients": paths["coefficients"], "draws": paths["draws"]}
    read["without"] = paths["surfaces_without"]
    gain.main(["--spec", text, *_options(read), *_options(answers)])
    return {name: pq.read_table(path).to_pylist() for name, path in (paths | answers).items()}


def _options(paths: Mapping[str, Path]) -> list[str]:
    return [part for name, path in paths.items() for part in (f"--{name.replace('_', '-')}", str(path))]


def write_losses(path: Path, run: str, branches: Mapping[int, Mapping[str, Sequence[Any]]]) -> Path:
    """A file of a run's held-out losses: branch step -> columns document, source, tokens, loss."""
    rows = [
        {
            "run": run,
            "branch": branch,
            "branch_step": step,
            "document": document,
            "piece": 0,
            "source": source,
            "category": "Code",
            "tokens": tokens,
            "document_tokens": tokens,
            "loss": loss,
        }
        for branch, (step, columns) in enumerate(branches.items(), start=1)
        for document, source, tokens, loss in zip(
            *(columns[key] for key in ("document", "source", "tokens", "loss")), strict=True
        )
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path
