"""What is checked before a study starts: the machine, and whose results root it is."""

import dataclasses
import shutil

import pytest

from smelt import preflight, study
from smelt.errors import UserError


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return study.read(study.find("smoke"))


def test_weights_are_counted_with_embedding_and_head(smoke):
    torch = pytest.importorskip("torch")
    from smelt.model.transformer import Transformer

    for run in smoke.trained:
        with torch.device("meta"):
            network = Transformer(run.model)
        assert preflight.disk(run) == 3 * 4 * sum(p.numel() for p in network.parameters())


def test_decays_apart_take_the_disk_of_their_checkpoints(smoke):
    for run in smoke.trained:
        assert preflight.disk(run, apart=True) == 4 * preflight.disk(run)


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


def test_a_root_refuses_another_study_of_the_same_name(smoke, tmp_path):
    preflight.claim_root(smoke)
    preflight.claim_root(smoke)
    copy = tmp_path / "mine.yaml"
    copy.write_text(smoke.path.read_text())
    mine = dataclasses.replace(smoke, path=copy)
    with pytest.raises(UserError, match=r"results/smoke/ holds the results of config/smoke\.yaml"):
        preflight.claim_root(mine)


def test_a_root_whose_study_file_is_gone_or_was_never_written_is_taken_over(smoke, tmp_path):
    copy = tmp_path / "mine.yaml"
    copy.write_text(smoke.path.read_text())
    preflight.claim_root(dataclasses.replace(smoke, path=copy))
    copy.unlink()
    preflight.claim_root(smoke)
    record = tmp_path / smoke.root / preflight.RECORD
    assert record.read_text() == "config/smoke.yaml\n"
    record.write_text("")  # a file that was cut off
    preflight.claim_root(smoke)
    assert record.read_text() == "config/smoke.yaml\n"


def test_a_dry_run_refuses_what_a_run_would(smoke, tmp_path):
    preflight.check_root(smoke)
    preflight.claim_root(smoke)
    copy = tmp_path / "mine.yaml"
    copy.write_text(smoke.path.read_text())
    with pytest.raises(UserError, match="has the same name"):
        preflight.check_root(dataclasses.replace(smoke, path=copy))


def test_a_misspelt_setting_of_the_command_line_does_not_choose_the_desk_study():
    assert study.chosen({}) == "desk"
    assert study.chosen({"study": "tune"}) == "tune"
    with pytest.raises(UserError, match=r"--config studdy: unknown; only study=NAME"):
        study.chosen({"studdy": "smoke"})
