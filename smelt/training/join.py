"""Put the log of a run together from those of its stable phase and its decays: the log that one job would write.

Reads the run's whole spec, the parts that smelt.training.{stable,decay} wrote, and where these came from.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from smelt.artifacts import read_provenance, read_table, table, write_table
from smelt.errors import UserError, command
from smelt.labels import check_run
from smelt.training.steps.log import LOG, joined, joined_origin

MODULE = "smelt.training.join"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument(
        "--spec", required=True, help="canonical JSON of the whole run: {run, context, model, training}"
    )
    parser.add_argument("--stable", type=Path, required=True, help="log of the stable phase")
    parser.add_argument("--decays", type=Path, nargs="+", required=True, help="log of each decay, by branch")
    parser.add_argument("--out", type=Path, required=True, help="the training log (Parquet)")
    told = parser.parse_args(argv)

    spec = json.loads(told.spec)
    parts = [told.stable, *told.decays]
    stable, *decays = (read_table(part).to_pylist() for part in parts)
    for part, rows in zip(parts, [stable, *decays], strict=True):
        check_run(part, (row["run"] for row in rows), spec["run"])
    leave = [rows[0]["step"] - 1 if rows else None for rows in decays]
    if leave != spec["training"]["branch_steps"]:
        raise UserError(
            f"{told.decays[0].parent}: decays leave after steps {leave} and the spec says "
            f"{spec['training']['branch_steps']}; delete the logs of the decays there and run again"
        )
    origin = joined_origin(spec, [read_provenance(part) for part in parts])
    write_table(table(joined(stable, decays), LOG), told.out, origin)


if __name__ == "__main__":
    command(main)
