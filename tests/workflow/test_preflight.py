"""What is checked before a study starts: the machine, and whose results root it is."""

import shutil

import pytest

from smelt.errors import UserError
from smelt.study import load
from smelt.workflow import preflight, results_root


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return load.read(load.find("smoke"))


def test_weights_are_counted_with_embedding_and_head(smoke):
    torch = pytest.importorskip("torch")
    from smelt.model.transformer import Transformer

    for run in smoke.trained:
        with torch.device("meta"):
            network = Transformer(run.model)
        assert preflight.disk(run) == 3 * 4 * sum(p.numel() for p in network.parameters())


def test_decays_apart_take_the_disk_of_their_checkpoints(smoke):
    for run in smoke.trained:
        assert preflight.disk(run, branch_jobs=True) == 4 * preflight.disk(run)


def test_too_little_disk_says_how_much_is_needed(smoke, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 10**8, 10**8))
    with pytest.raises(
        UserError, match=r"study smoke needs 0\.3 GiB of disk under results/smoke/ and 0\.1 GiB are free"
    ):
        preflight.check_machine(smoke, smoke.trained, 2)


def test_too_little_memory_says_to_take_fewer_cores(smoke, monkeypatch):
    monkeypatch.setattr(preflight, "_available_memory", lambda: 10**9)
    with pytest.raises(UserError, match=r"memory to train 2 runs at a time .* fewer --cores"):
        preflight.check_machine(smoke, smoke.trained, 2)
    preflight.check_machine(smoke, [], 2)  # nothing is left to train


def test_a_machine_that_does_not_tell_its_memory_is_trusted(smoke, monkeypatch):
    monkeypatch.setattr(preflight, "_available_memory", lambda: None)
    preflight.check_machine(smoke, smoke.trained, 2)


@pytest.fixture
def copied(smoke, tmp_path):
    """`copied("a.yaml")` is the smoke study in a file of its own, with a name that no study of config/ has."""

    def copy(file, name="mine"):
        path = tmp_path / file
        path.write_text(smoke.path.read_text().replace("name: smoke", f"name: {name}"))
        return load.read(path)

    return copy


def test_a_root_refuses_another_study_of_the_same_name(copied):
    mine, other = copied("mine.yaml"), copied("other.yaml")
    results_root.claim_root(mine)
    results_root.claim_root(mine)
    with pytest.raises(
        UserError, match=r"results/mine/ holds the results of .*/mine\.yaml, and .*/other\.yaml has the"
    ):
        results_root.claim_root(other)


def test_a_root_that_is_no_folder_is_one_error(copied, tmp_path):
    mine, results = copied("mine.yaml"), tmp_path / "results"
    results.symlink_to("elsewhere")
    with pytest.raises(UserError, match=r"^results is a link to elsewhere, which does not exist; make that folder, or"):
        results_root.claim_root(mine)
    results.unlink()
    results.write_text("a file")
    with pytest.raises(UserError, match=r"^results is no folder, and the results of the study go there; move it away"):
        results_root.claim_root(mine)
    results.unlink()
    results.mkdir()
    (results / "mine").write_text("a file")
    with pytest.raises(UserError, match=r"^results/mine is no folder"):
        results_root.check_root(mine)


def test_a_root_may_be_a_link_to_a_folder(copied, tmp_path):
    (tmp_path / "large").mkdir()
    (tmp_path / "results").symlink_to("large")
    results_root.claim_root(copied("mine.yaml"))
    assert (tmp_path / "large/mine/study").is_file()


@pytest.mark.parametrize("name", ["smoke", "desk"])
def test_the_name_of_a_study_of_config_is_taken(copied, tmp_path, name):
    """Also before that one has any results, which would go to the same folder."""
    with pytest.raises(UserError, match=rf"mine\.yaml: name: {name} is that of config/{name}\.yaml, .* another name"):
        results_root.check_root(copied("mine.yaml", name))
    results_root.check_root(copied("mine.yaml", "tasks"))  # config/tasks.yaml is no study


def test_a_root_whose_study_file_is_gone_or_was_never_written_is_taken_over(copied, tmp_path):
    gone, mine = copied("gone.yaml"), copied("mine.yaml")
    results_root.claim_root(gone)
    gone.path.unlink()
    results_root.claim_root(mine)
    record = tmp_path / mine.root / results_root.RECORD
    assert record.read_text() == f"{mine.path}\n"
    record.write_text("")  # a file that was cut off
    results_root.claim_root(mine)
    assert record.read_text() == f"{mine.path}\n"


def test_a_root_records_a_study_of_config_from_the_workflow_s_folder(smoke, tmp_path):
    results_root.claim_root(smoke)
    assert (tmp_path / smoke.root / results_root.RECORD).read_text() == "config/smoke.yaml\n"


def test_a_dry_run_refuses_what_a_run_would(copied):
    mine, other = copied("mine.yaml"), copied("other.yaml")
    results_root.check_root(mine)
    results_root.claim_root(mine)
    with pytest.raises(UserError, match="has the same name"):
        results_root.check_root(other)


def test_a_misspelt_setting_of_the_command_line_does_not_choose_the_desk_study():
    assert load.chosen({}) == "desk"
    assert load.chosen({"study": "tune"}) == "tune"
    with pytest.raises(UserError, match=r"--config studdy: unknown; only study=NAME"):
        load.chosen({"studdy": "smoke"})
