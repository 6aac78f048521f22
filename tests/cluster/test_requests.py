"""What training jobs ask a scheduler for follows from the study's plan."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from smelt import cluster, study
from smelt.budgets.ledger import budget
from smelt.errors import UserError
from smelt.grid import GridStudy

CONFIG = Path(study.CONFIG)


@pytest.fixture(scope="module")
def paper() -> GridStudy:
    return study.read(CONFIG / "paper.yaml")


def changed(tmp_path: Path, name: str, **sections: dict) -> GridStudy:
    config = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())
    config["corpus"]["sources"] = str(CONFIG.parent / config["corpus"]["sources"])
    for section, value in sections.items():
        config[section] = config.get(section, {}) | value
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return study.read(path)


def test_a_study_without_gpus_asks_for_none() -> None:
    smoke = study.read(CONFIG / "smoke.yaml")
    for run in smoke.trained:
        asked = cluster.training(smoke, run, "run")
        assert asked.gpu is None
        assert 500 < asked.mem_mb < 3000
        assert 15 <= asked.runtime <= 30


def test_parts_of_a_run_add_up(paper: GridStudy) -> None:
    """FLOPs of all jobs of a run are those of its tokens: 205.6 billion stable and six decays of 10."""
    for run in paper.trained:
        parts = cluster.job_flops(paper, run, "stable") + 6 * cluster.job_flops(paper, run, "decay")
        assert parts == pytest.approx(cluster.job_flops(paper, run, "run"))
        found = budget(run.model, paper.attention_keys)
        tokens = (196075 + 6 * 9537) * 256 * 4096
        assert parts == pytest.approx(tokens * (found.flops_per_token + found.head_flops_per_token))


def test_paper_asks_for_what_a_node_has(paper: GridStudy) -> None:
    stable = {run.id: cluster.training(paper, run, "stable") for run in paper.trained}
    decay = {run.id: cluster.training(paper, run, "decay") for run in paper.trained}
    assert {asked.gpu for asked in stable.values()} <= {1, 2, 4, 8}
    # The plan's 860 GPU-hours for four runs of 100M baselines, 77 % of them stable, in half as long again on four GPUs.
    assert stable["baseline-100M-S85"].gpu == 4
    assert stable["baseline-100M-S85"].runtime == pytest.approx(860 / 4 * 0.774 / 4 * 1.5 * 60 + 15, rel=0.02)
    # Seven GPUs are the least that hold the largest state; one holds a small one for a decay of a few hours.
    assert (decay["baseline-1.6B-S97"].gpu, decay["baseline-100M-S0"].gpu) == (8, 1)
    assert max(asked.runtime for asked in stable.values()) == 72 * 60
    assert max(asked.mem_mb for asked in stable.values()) < 1_000_000
    for run in paper.trained:
        assert decay[run.id].gpu <= stable[run.id].gpu


def test_later_attempts_ask_for_more(paper: GridStudy) -> None:
    run = next(run for run in paper.trained if run.id == "smelt-100M-S85")
    first, second, third = (cluster.training(paper, run, "decay", attempt) for attempt in (1, 2, 3))
    assert second.mem_mb == pytest.approx(1.5 * first.mem_mb, abs=2)
    assert third.mem_mb == pytest.approx(2 * first.mem_mb, abs=2)
    assert (second.runtime, third.runtime) == (2 * first.runtime, 3 * first.runtime)
    assert first.gpu == second.gpu
    # Not beyond the longest job.
    assert cluster.training(paper, run, "stable", attempt=6).runtime == 72 * 60


def test_shorter_jobs_take_more_gpus(tmp_path: Path, paper: GridStudy) -> None:
    short = changed(tmp_path, "paper", cluster={"gpus": 8, "hours": 24})
    run = next(run for run in short.trained if run.id == "baseline-100M-S85")
    assert cluster.training(short, run, "stable").gpu == 8
    assert cluster.training(short, run, "stable").runtime == pytest.approx(24 * 60, rel=0.25)


def test_a_node_too_small_is_an_error(tmp_path: Path) -> None:
    small = changed(tmp_path, "paper", cluster={"gpus": 4})
    run = next(run for run in small.trained if run.id == "baseline-1.6B-S97")
    with pytest.raises(UserError, match=r"cluster\.gpus: the state of baseline-1\.6B-S97 needs 7 GPUs"):
        cluster.training(small, run, "stable")


def test_a_shard_grows_with_its_tokens(paper: GridStudy) -> None:
    smoke = study.read(CONFIG / "smoke.yaml")
    assert cluster.shard(smoke) == cluster.Request(None, 1001, 11)
    assert cluster.shard(paper).mem_mb > 5 * cluster.shard(smoke).mem_mb
    assert cluster.shard(paper, 2).runtime == pytest.approx(2 * cluster.shard(paper).runtime, abs=1)


def test_settings_decide_no_spec(tmp_path: Path) -> None:
    """A key of the scheduler in a job's spec would train it again."""
    from smelt import jobs

    one, other = study.read(CONFIG / "paper.yaml"), changed(tmp_path, "paper", cluster={"gpus": 8, "hours": 9})
    for run, same in zip(one.trained, other.trained, strict=True):
        assert jobs.training(one, run) == jobs.training(other, same)
        assert dataclasses.asdict(run) == dataclasses.asdict(same)
