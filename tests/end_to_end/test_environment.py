"""The lock, the conda environment and pyproject.toml name the same versions, and the lock is portable."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*/profile.yaml"))


def pins(requirements: list[str]) -> dict[str, str]:
    """Name -> version of requirements such as `numpy==2.4.6`, names in lower case with dashes."""
    found = {}
    for requirement in requirements:
        name, version = requirement.split(";")[0].strip().split("==")
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return pins([line.rstrip("\\") for line in lines if "==" in line and not line.lstrip().startswith(("#", "--"))])


def test_lock_holds_each_pin_but_torch(project: dict, lock: dict[str, str]) -> None:
    wanted = pins(project["dependencies"] + project["optional-dependencies"]["dev"])
    assert wanted.pop("torch") == "2.13.0"
    assert "torch" not in lock
    assert {name: lock.get(name) for name in wanted} == wanted


def test_conda_environment_says_the_same(project: dict) -> None:
    environment = yaml.safe_load((ROOT / "envs" / "smelt.yaml").read_text())
    (from_pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pins(from_pip) == pins(project["dependencies"])


def test_every_locked_package_has_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) > 50
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_lock_names_no_machine_and_no_cuda(lock: dict[str, str]) -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links|(^|\s)/\w", text)
    assert [name for name in lock if name.startswith(("nvidia", "cuda", "triton"))] == []


def test_lock_covers_what_torch_needs(lock: dict[str, str]) -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (torch,) = tool["uv"]["dependency-metadata"]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in torch["requires-dist"]}
    assert names <= lock.keys()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.parent.name)
def test_profile_options_exist(profile: Path) -> None:
    from snakemake.cli import get_argument_parser

    known = {option.lstrip("-") for action in get_argument_parser()._actions for option in action.option_strings}
    options = yaml.safe_load(profile.read_text())
    assert {option for option in options if not option.startswith(("slurm-", "kubernetes-"))} <= known
    # Of this machine a profile knows nothing; on a cluster it bounds what one job asks for.
    assert ("cores" in options) == ("executor" in options)
    assert "default-resources" not in options


@pytest.mark.parametrize("name", [path.parent.name for path in PROFILES])
def test_profiles_agree_on_what_reruns(name: str) -> None:
    texts = [(ROOT / "profiles" / each / "profile.yaml").read_text() for each in ("default", name)]
    default, other = map(yaml.safe_load, texts)
    assert {key: other.get(key) for key in default} == default
