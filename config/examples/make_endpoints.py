"""Write endpoints.csv, the example of a file of endpoints: the published study's, with noise of the published RMSE.

python config/examples/make_endpoints.py
"""

import csv
import dataclasses
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))

from smelt.scaling.endpoints import simulate, user_table  # noqa: E402
from smelt.study import load as study  # noqa: E402

COLUMNS = ("architecture", "cell", "flops_per_token", "tokens", "S", "loss", "source")


def main(path: Path) -> None:
    """Write the table."""
    published = study.read(study.find("published"))
    settings = dataclasses.replace(published.simulation, noise=1.0)
    given = user_table.read(FOLDER.parent / "published/endpoints.csv", settings.s_convention, losses=False)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in simulate.simulate(given.rows, settings):
            cell = f"{row['scale']}-{row['sparsity']}"
            numbers = {"flops_per_token": f"{row['flops_per_token']:.0f}", "loss": f"{row['loss']:.4f}"}
            source = f"{row['source']}, with noise"
            writer.writerow({**row, **numbers, "cell": cell, "source": source})


if __name__ == "__main__":
    main(FOLDER / "endpoints.csv")
