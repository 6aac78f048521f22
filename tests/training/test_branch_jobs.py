"""A stable phase and decays that are jobs of their own: the bytes of one job, however they were stopped."""

import copy
import shutil

import pyarrow.parquet as pq
import pytest

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.training.launch import STOPPED
from tests.training.branch_jobs import BranchJobs, Killed, at_step, kill, request_stop
from tests.training.conftest import SPEC, write_shard

STEPS, DECAY = SPEC["training"]["steps"], SPEC["training"]["decay_steps"]


def with_training(**training) -> dict:
    return {**SPEC, "training": {**SPEC["training"], **training}}


@pytest.fixture(scope="session")
def finished(tmp_path_factory, shards) -> BranchJobs:
    """An undisturbed run of SPEC. Only read it."""
    run = BranchJobs(tmp_path_factory.mktemp("branch_jobs") / "run", shards, SPEC)
    run.run()
    return run


@pytest.fixture
def branch_jobs(tmp_path, shards) -> BranchJobs:
    return BranchJobs(tmp_path / "run", shards, copy.deepcopy(SPEC))


def test_both_forms_are_the_same_bytes(whole, finished):
    assert finished.outputs() == whole.outputs()
    origin = read_provenance(finished.folder / "log.parquet")
    assert origin["spec"] == SPEC
    assert "+" not in origin["code"]  # all parts are of the same code


def test_parts_say_what_they_came_from(finished):
    origin = read_provenance(finished.folder / "decay-2.parquet")
    assert {"stable-2.safetensors", "shard-00000.parquet"} == set(origin["inputs"])
    assert [row["step"] for row in pq.read_table(finished.folder / "decay-2.parquet").to_pylist()] == [9, 10, 11]


def resumed(run: BranchJobs, step: int, act) -> None:
    """All jobs of a run, of which the one that takes the `step`-th step is stopped there and started again."""
    code = None
    with at_step(step, act):
        for job in [run.stable, *(lambda b=branch: run.decay(b) for branch in range(1, len(run.branches) + 1))]:
            try:
                job()
            except (Killed, SystemExit) as error:
                code = getattr(error, "code", STOPPED)
                job()
    assert code == STOPPED
    run.join()


@pytest.mark.parametrize(("step", "act"), [(7, kill), (STEPS + 2, kill), (8, request_stop)])  # at any step: below, slow
def test_a_stopped_job_resumes_to_the_same_bytes(branch_jobs, whole, step, act):
    resumed(branch_jobs, step, act)
    assert branch_jobs.outputs() == whole.outputs()


@pytest.mark.slow
@pytest.mark.parametrize("act", [kill, request_stop])
def test_a_job_that_is_stopped_at_any_step_resumes_to_the_same_bytes(tmp_path, shards, whole, act):
    for step in range(1, STEPS + len(SPEC["training"]["branch_steps"]) * DECAY + 1):
        run = BranchJobs(tmp_path / str(step), shards, SPEC)
        resumed(run, step, act)
        assert run.outputs() == whole.outputs(), step


@pytest.mark.slow
@pytest.mark.parametrize("act", [kill, request_stop])
def test_one_job_that_is_stopped_at_any_step_resumes_to_the_same_bytes(whole, job, act):
    for step in range(1, STEPS + len(SPEC["training"]["branch_steps"]) * DECAY + 1):
        run = job(str(step))
        with at_step(step, act), pytest.raises((Killed, SystemExit)):
            run.run()
        run.run()
        assert run.outputs() == whole.outputs(), step


def test_a_branch_more_trains_no_stable_step_that_is_kept(branch_jobs, shards, tmp_path):
    """Between two others: from the checkpoint before it to where it branches off, and from none again."""
    branch_jobs.run()
    branch_jobs.delete_outputs()
    branch_jobs.spec = with_training(branch_steps=[3, 5, 8, 12])
    with at_step(0, kill) as taken:
        branch_jobs.stable()
        assert taken == [2]
        for branch in (1, 2, 3, 4):
            branch_jobs.decay(branch)
        assert taken == [2 + 3 * DECAY]  # the first decay is the same, the others have another number
    branch_jobs.join()
    fresh = BranchJobs(tmp_path / "fresh", shards, branch_jobs.spec)
    fresh.run()
    assert branch_jobs.outputs() == fresh.outputs()


def test_a_job_on_the_same_bytes_trains_nothing(branch_jobs):
    branch_jobs.run()
    before = branch_jobs.outputs()
    branch_jobs.delete_outputs()
    with at_step(0, kill) as taken:
        branch_jobs.run()
    assert taken == [0]
    assert branch_jobs.outputs() == before


def test_a_longer_phase_goes_on_where_the_shorter_one_ended(branch_jobs, shards, tmp_path):
    """Also where it reads a shard more."""
    branch_jobs.shards = {**shards, "stable": shards["stable"][:1]}
    branch_jobs.spec = with_training(steps=8, branch_steps=[3, 8])
    branch_jobs.run()
    branch_jobs.delete_outputs()
    branch_jobs.shards, branch_jobs.spec = shards, with_training(steps=12, branch_steps=[3, 8, 12])
    with at_step(0, kill) as taken:
        branch_jobs.stable()
    assert taken == [4]
    for branch in (1, 2, 3):
        branch_jobs.decay(branch)
    branch_jobs.join()
    fresh = BranchJobs(tmp_path / "fresh", shards, branch_jobs.spec)
    fresh.run()
    assert branch_jobs.outputs() == fresh.outputs()


def test_other_text_or_another_recipe_starts_again(branch_jobs, shards, tmp_path):
    branch_jobs.stable()
    other = write_shard(tmp_path / "other/shard-00000.parquet", 8, 77)
    for change in (
        {"shards": {**shards, "stable": [other, shards["stable"][1]]}},
        {"spec": with_training(gradient_clip=0.5)},
    ):
        vars(branch_jobs).update(change)
        with at_step(0, kill) as taken:
            branch_jobs.stable()
        assert taken == [STEPS], change


def test_what_was_kept_after_a_stop_is_of_the_text_that_it_read(branch_jobs, shards, tmp_path):
    """Asked to end in the very step that reaches a branch step, the job that resumes takes none before it keeps it."""
    with at_step(8, request_stop), pytest.raises(SystemExit):
        branch_jobs.stable()
    branch_jobs.stable()
    other = write_shard(tmp_path / "other/shard-00000.parquet", 8, 77)
    branch_jobs.shards = {**shards, "stable": [other, shards["stable"][1]]}
    with at_step(0, kill) as taken:
        branch_jobs.stable()
    assert taken == [STEPS]


def test_a_truncated_checkpoint_is_an_error_of_the_decay_and_trained_again_by_the_phase(branch_jobs, whole):
    branch_jobs.stable()
    path = branch_jobs.folder / "stable-2.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])  # a link: what is kept is truncated too
    with pytest.raises(UserError, match=f"^{path}: truncated or foreign checkpoint .*delete it and run again"):
        branch_jobs.decay(2)
    path.unlink()
    with at_step(0, kill) as taken:
        branch_jobs.run()
    assert taken[0] - 3 * DECAY == 5  # from step 3 to step 8
    assert branch_jobs.outputs() == whole.outputs()


def test_a_truncated_save_is_one_clear_error(branch_jobs):
    with at_step(6, kill), pytest.raises(Killed):
        branch_jobs.stable()
    (save,) = branch_jobs.folder.glob("state/stable/*/checkpoint.pt")
    save.write_bytes(save.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"truncated or foreign checkpoint .* delete it"):
        branch_jobs.stable()


def test_the_checkpoint_of_another_step_is_an_error(branch_jobs):
    branch_jobs.stable()
    (branch_jobs.folder / "stable-1.safetensors").unlink()
    (branch_jobs.folder / "stable-3.safetensors").rename(branch_jobs.folder / "stable-1.safetensors")
    with pytest.raises(UserError, match="the checkpoint of step 12, and branch 1 branches off at 3; delete it"):
        branch_jobs.decay(1)


def test_the_checkpoint_of_another_network_is_an_error(branch_jobs, shards, tmp_path):
    other = BranchJobs(tmp_path / "other", shards, {**SPEC, "model": {**SPEC["model"], "experts": 10}})
    other.stable()
    (other.folder / "stable-1.safetensors").rename(branch_jobs.folder / "stable-1.safetensors")
    with pytest.raises(UserError, match="the checkpoint of another network than the spec's"):
        branch_jobs.decay(1)


def test_parts_of_another_recipe_are_not_joined(branch_jobs):
    branch_jobs.run()
    branch_jobs.spec = with_training(branch_steps=[3, 7, 12])
    with pytest.raises(UserError, match=r"decays branch off at steps \[3, 8, 12\] and the spec says \[3, 7, 12\]"):
        branch_jobs.join()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 200])
def test_a_full_disk_is_one_clear_error(branch_jobs, whole, limit):
    """With room for neither a save nor a checkpoint, or for saves alone."""
    result = branch_jobs.command("stable", branch_jobs.stable_arguments(), limit=limit)
    assert result.returncode == 1
    assert "error: the disk is full" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(branch_jobs.folder.glob("*.*"))
    branch_jobs.stable()
    result = branch_jobs.command("decay", branch_jobs.decay_arguments(1), limit=limit // 5)
    assert (result.returncode, "Traceback" in result.stderr) == (1, False), result.stderr
    assert "error: the disk is full" in result.stderr
    branch_jobs.run()
    assert branch_jobs.outputs() == whole.outputs()


def test_parts_of_another_run_are_refused(finished, tmp_path, shards):
    """A checkpoint, and the log of a decay, in another run's place."""
    other = BranchJobs(tmp_path / "other", shards, {**SPEC, "run": "smelt-H24-S85"})
    other.folder.mkdir(exist_ok=True)
    for name in ("stable-1.safetensors", "stable.parquet", *(f"decay-{branch}.parquet" for branch in (1, 2, 3))):
        shutil.copy2(finished.folder / name, other.folder)
    for job, file in ((lambda: other.decay(1), "stable-1.safetensors"), (other.join, "stable.parquet")):
        with pytest.raises(UserError, match=rf"{file}: this is of run smelt-H16-S85, expected run smelt-H24-S85"):
            job()
