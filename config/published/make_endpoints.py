"""Write endpoints.csv: F, S and D of the endpoints of arXiv 2609.01343, without losses.

  python config/published/make_endpoints.py

From the geometry of its networks (tests/budgets/paper_family.csv) and its recipe, with 392 keys charged to a query,
the number that reproduces its printed budgets. S_own takes N0 / F0 of Eq. 1 from each architecture's own S = 0
network, as the paper's column of S does, and S_baseline from the baseline's, as its Eq. 1 says.
"""

import csv
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from smelt.budgets.ledger import budget  # noqa: E402
from smelt.model.settings import ModelSettings  # noqa: E402

KEYS = 392
VOCABULARY, VISITS = 128256, {"baseline": 1, "smelt": 2}
BRANCHES = (10_000, 20_000, 50_000, 100_000, 150_000, 196_075)
DECAY_TOKENS, BATCH, CONTEXT = 10_000_000_000, 256, 4096
# N0 / F0 of SMELT's S = 0 networks. What is printed of them leaves their geometry open (the one in the family misses
# the last digit of S at 200M), so this is the middle of what their printed N and F and the printed S allow.
OWN_CONTROL = {"100M": 0.145129, "200M": 0.150869, "600M": 0.153537, "1.6B": 0.158703}
FAMILY = ROOT / "tests/budgets/paper_family.csv"
GEOMETRY = {field.name for field in dataclasses.fields(ModelSettings)}


def rows() -> Iterator[dict[str, Any]]:
    """Every sparse endpoint: architecture by scale by sparsity by branch."""
    with FAMILY.open(encoding="utf-8", newline="") as file:
        family = list(csv.DictReader(file))
    networks = {(row["architecture"], row["scale"], row["sparsity"]): _model(row) for row in family}
    for (architecture, scale, label), model in networks.items():
        if label == "0":
            continue
        cost = budget(model, KEYS)
        longer = budget(dataclasses.replace(model, layers=model.layers + model.loop_length), KEYS)
        control = budget(networks["baseline", scale, "0"], KEYS)
        ratio = control.params / control.flops_per_token
        own = OWN_CONTROL[scale] if architecture == "smelt" else ratio
        for branch in BRANCHES:
            yield {
                "architecture": architecture,
                "scale": scale,
                "sparsity": f"S{label}",
                "branch_step": branch,
                "tokens": branch * BATCH * CONTEXT + DECAY_TOKENS,
                "flops_per_token": cost.flops_per_token,
                "S_own": f"{1 - own * cost.flops_per_token / cost.params:.6f}",
                "S_baseline": f"{1 - ratio * cost.flops_per_token / cost.params:.6f}",
                "S_nominal": int(label) / 100,
                "params": cost.params,
                "active_params": cost.active_params,
                "looped_params": longer.active_params - cost.active_params,
                "visits": model.visits,
                "expansion": model.experts / model.active_experts,
            }


def _model(row: dict[str, str]) -> ModelSettings:
    geometry = {name: int(value) for name, value in row.items() if name in GEOMETRY}
    return ModelSettings(vocabulary=VOCABULARY, visits=VISITS[row["architecture"]], **geometry)


def main(path: Path) -> None:
    """Write the table."""
    found = list(rows())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main(Path(__file__).with_name("endpoints.csv"))
