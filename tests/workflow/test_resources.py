"""What training jobs ask a scheduler for follows from the study's plan."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from smelt.budgets.ledger import budget
from smelt.budgets.plan import plan_rows
from smelt.errors import UserError
from smelt.study import load as studies
from smelt.study.grid import GridStudy
from smelt.workflow import resources, specs

CONFIG = Path(studies.CONFIG)


@pytest.fixture(scope="module")
def paper() -> GridStudy:
    return studies.read(CONFIG / "paper.yaml")


def changed(tmp_path: Path, name: str, **sections: dict) -> GridStudy:
    config = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())
    config["corpus"]["sources"] = str(CONFIG.parent / config["corpus"]["sources"])
    for section, value in sections.items():
        config[section] = config.get(section, {}) | value
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return studies.read(path)


def test_a_study_without_gpus_asks_for_none() -> None:
    smoke = studies.read(CONFIG / "smoke.yaml")
    for run in smoke.trained:
        asked = resources.training(smoke, run, "run")
        assert asked.gpu is None
        assert 500 < asked.mem_mb < 3000
        assert 15 <= asked.runtime <= 30


def test_parts_of_a_run_add_up(paper: GridStudy) -> None:
    """FLOPs of all jobs of a run are those of its tokens: 205.6 billion stable and six decays of 10."""
    for run in paper.trained:
        parts = resources.job_flops(paper, run, "stable") + 6 * resources.job_flops(paper, run, "decay")
        assert parts == pytest.approx(resources.job_flops(paper, run, "run"))
        found = budget(run.model, paper.attention_keys)
        tokens = (196075 + 6 * 9537) * 256 * 4096
        assert parts == pytest.approx(tokens * (found.flops_per_token + found.head_flops_per_token))


def test_paper_asks_for_a_gpu_a_process(paper: GridStudy) -> None:
    stable = {run.id: resources.training(paper, run, "stable") for run in paper.trained}
    decay = {run.id: resources.training(paper, run, "decay") for run in paper.trained}
    assert {asked.gpu for asked in (*stable.values(), *decay.values())} == {8}
    # The plan's 860 GPU-hours for four runs of 100M baselines, 77 % of them stable, half as long again on eight GPUs.
    assert stable["baseline-100M-S85"].runtime == pytest.approx(860 / 4 * 0.774 / 8 * 1.5 * 60 + 15, rel=0.02)
    assert max(asked.runtime for asked in stable.values()) == 72 * 60
    assert max(asked.runtime for asked in decay.values()) < 24 * 60
    # Eight processes, and the state of the largest run while it is saved: 12 bytes of 54 billion parameters.
    assert stable["baseline-1.6B-S97"].mem_mb == pytest.approx(8 * 16_000 + 12 * 54_200, rel=0.02)


def test_a_study_on_the_cpu_asks_for_no_gpu_whatever_the_node_has(tmp_path: Path) -> None:
    cpu = changed(tmp_path, "smoke", cluster={"gpus": 8})
    asked = resources.training(cpu, cpu.trained[0], "run")
    assert (asked.gpu, asked) == (None, resources.training(studies.read(CONFIG / "smoke.yaml"), cpu.trained[0], "run"))


def test_a_study_on_a_gpu_asks_for_it_whether_or_not_the_node_is_known(tmp_path: Path) -> None:
    one = changed(tmp_path, "smoke", training={"device": "cuda"})
    together, apart = (resources.training(one, one.trained[0], part) for part in ("run", "stable"))
    assert together.gpu == 1
    assert together.mem_mb > apart.mem_mb > 16_000  # a branch returns to a copy, which is on the host


def test_later_attempts_ask_for_more(paper: GridStudy) -> None:
    run = next(run for run in paper.trained if run.id == "smelt-100M-S85")
    first, second, third = (resources.training(paper, run, "decay", attempt) for attempt in (1, 2, 3))
    assert second.mem_mb == pytest.approx(1.5 * first.mem_mb, abs=2)
    assert third.mem_mb == pytest.approx(2 * first.mem_mb, abs=2)
    assert (second.runtime, third.runtime) == (2 * first.runtime, 3 * first.runtime)
    assert first.gpu == second.gpu
    # Not beyond the longest job.
    assert resources.training(paper, run, "stable", attempt=6).runtime == 72 * 60


def test_a_node_too_small_is_an_error(tmp_path: Path) -> None:
    small = changed(tmp_path, "paper", cluster={"gpus": 4})
    with pytest.raises(UserError, match=r"8 processes, each with a GPU, and a node has 4 \(cluster\.gpus\)"):
        resources.training(small, small.trained[0], "stable")


def test_a_run_that_its_gpus_do_not_hold_is_an_error(tmp_path: Path) -> None:
    large = changed(tmp_path, "paper", cells={"1.6B-S97": {"micro_batch_contexts": 32}})
    run = next(run for run in large.trained if run.id == "baseline-1.6B-S97")
    with pytest.raises(UserError, match=r"needs about 179 GB on each of 8 GPUs, which have 141 .*micro_batch_contexts"):
        resources.training(large, run, "stable")


def test_bytes_of_a_gpu_hold_what_the_plan_says(paper: GridStudy) -> None:
    """Beyond the plan's, which has one context: more contexts, and a residual stream of float32."""
    rows = {row["run"]: row for row in plan_rows(specs.plan(paper))}
    for run in paper.trained:
        one = dataclasses.replace(run, training=dataclasses.replace(run.training, micro_batch_contexts=1))
        planned = rows[run.id]
        slices = planned["state_bytes"] / 8 + planned["checkpointed_bytes"] + planned["logit_bytes"]
        assert slices < resources.gpu_bytes(paper, one) <= resources.gpu_bytes(paper, run) < 1.41e11


def test_a_shard_grows_with_its_tokens(paper: GridStudy) -> None:
    smoke = studies.read(CONFIG / "smoke.yaml")
    assert resources.shard(smoke) == resources.Request(None, 1001, 11)
    assert resources.shard(paper).mem_mb > 5 * resources.shard(smoke).mem_mb
    assert resources.shard(paper, 2).runtime == pytest.approx(2 * resources.shard(paper).runtime, abs=1)


def test_settings_decide_no_spec(tmp_path: Path) -> None:
    """A key of the scheduler in a job's spec would train it again."""
    one, other = studies.read(CONFIG / "paper.yaml"), changed(tmp_path, "paper", cluster={"gpus": 8, "hours": 9})
    for run, same in zip(one.trained, other.trained, strict=True):
        assert specs.training(one, run) == specs.training(other, same)
        assert dataclasses.asdict(run) == dataclasses.asdict(same)
