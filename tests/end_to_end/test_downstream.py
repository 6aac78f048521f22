"""Downstream tasks from the study file to tables and figures, on the finished smoke study."""

import csv

import pytest

EVALUATION = {
    "tasks": ["dyck_languages", "last_word"],
    "all_endpoints": {"preset": "smoke", "shots": [0, 4], "seeds": [0, 1]},
    "last_endpoint": {"preset": "smoke", "shots": [0, 4], "seeds": [0, 1], "sampler": "nested"},
}
DOWNSTREAM = """calibration calibration_figure calibration_tables core downstream_figure generate icl_comparison
icl_figure last_word requests score task_scores task_tables""".split()


def rows(workspace, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((workspace.results / f"tables/{name}.csv").open()))


def test_asking_for_tasks_trains_nothing(workspace):
    workspace.change(evaluation=EVALUATION)
    assert sorted({job.split()[0] for job in workspace.waiting()}) == DOWNSTREAM


@pytest.mark.slow
def test_scores_reach_tables_and_figures_and_a_new_seed_costs_what_is_new(workspace):
    workspace.change(evaluation=EVALUATION)
    workspace.finish()
    assert workspace.waiting() == []
    core, completion = rows(workspace, "core"), rows(workspace, "completion")
    assert len(core) == 6 * 3 + 6  # every branch of six runs, and the last one again
    assert all(row["core_v2"] == "" and "no Core task was scored" in row["reason"] for row in core)
    own = [row for row in completion if row["suite"] == "desk"]
    assert len(own) == len(core)
    assert all(float(row["nats_per_token"]) > 0 and row["tasks"] == "2" for row in own)
    assert {row["metric"] for row in rows(workspace, "wins")} == {"desk completion", "desk"}
    assert all(row["reason"] or row["p_value"] for row in rows(workspace, "icl"))
    for figure in ("downstream", "icl", "calibration"):
        assert (workspace.results / f"figures/{figure}.svg").stat().st_size > 0

    workspace.change(evaluation={**EVALUATION, "all_endpoints": {**EVALUATION["all_endpoints"], "seeds": [0, 1, 2]}})
    assert {job.split()[0] for job in workspace.waiting()} >= {"requests", "score", "core"}
    workspace.finish()
    log = (workspace.results / "logs/evaluation/smelt-H16-S85_scores.log").read_text()
    assert log.count("48 contexts kept, 12 to score") == 3  # at each of three endpoints, one seed more of twelve items
