"""Put the log of a run together from those of its stable phase and its decays: the log that one job would write.

Reads the run's whole spec, the parts that smelt.training.{stable,decay} wrote, and where these came from.
"""

from collections.abc import Sequence

from smelt.artifacts import read_provenance, read_table, table, write_table
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.labels import check_run
from smelt.training.settings import RunSettings
from smelt.training.steps.log import LOG, joined, joined_origin

MODULE = "smelt.training.join"


def main(argv: Sequence[str]) -> None:
    job = read_job(MODULE, __doc__, argv, RunSettings, ["stable", "decays*"], ["out"])
    parts = [job.path("stable"), *job.paths("decays")]
    stable, *decays = (read_table(part).to_pylist() for part in parts)
    for part, rows in zip(parts, [stable, *decays], strict=True):
        check_run(part, (row["run"] for row in rows), job.settings.run)
    starts = [rows[0]["step"] - 1 if rows else None for rows in decays]
    branch_steps = list(job.settings.training.branch_steps)
    if starts != branch_steps:
        raise UserError(
            f"{job.path('stable').parent}: decays branch off at steps {starts} and the spec says {branch_steps}; "
            "delete the logs of the decays there and run again"
        )
    origin = joined_origin(job.spec, [read_provenance(part) for part in parts])
    write_table(table(joined(stable, decays), LOG), job.path("out"), origin)


if __name__ == "__main__":
    command(main)
