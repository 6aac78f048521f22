"""What people read agrees with the files that it speaks of."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def test_the_manual_of_the_study_file_is_current():
    manual = runpy.run_path(str(ROOT / "docs/make_study.py"))["manual"]()
    assert (ROOT / "docs/study.md").read_text() == manual, "run: python docs/make_study.py"


@pytest.mark.parametrize("name", ["hour", "night"])
def test_the_longer_studies_have_the_grid_of_the_desk_study(name):
    desk, longer = (yaml.safe_load((ROOT / f"config/{study}.yaml").read_text())["grid"] for study in ("desk", name))
    desk.pop("attention_keys"), longer.pop("attention_keys")  # measured on each study's own text
    matched, longer_matched = desk.pop("geometry"), longer.pop("geometry")  # matched at these keys
    assert longer_matched.keys() == matched.keys()
    assert longer == desk


def test_the_tuning_study_sweeps_the_desk_study_s_networks():
    desk, tune = (yaml.safe_load((ROOT / f"config/{study}.yaml").read_text()) for study in ("desk", "tune"))
    assert tune["corpus"] == desk["corpus"]
    for key in ("architectures", "scales", "tied_embeddings", "attention_keys", "tolerance"):
        assert tune["grid"][key] == desk["grid"][key]
    assert tune["training"]["steps"] == desk["training"]["steps"]


def test_files_that_the_documents_link_to_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
