"""The studies through the profiles of clusters, as dry runs: what would be submitted, and what each job asks for."""

import importlib.util
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow.parsed import ROOT, rules

RULES = rules()
PLUGINS = {"slurm": "snakemake_executor_plugin_slurm", "kubernetes": "snakemake_executor_plugin_kubernetes"}
RULE = re.compile(r"^ *rule (\w+):$")


def profile(name: str) -> dict:
    return yaml.safe_load((ROOT / "profiles" / name / "profile.yaml").read_text())


def planned(name: str, study: str, *options: str) -> tuple[list[dict[str, str]], float]:
    """The jobs of a dry run through a profile, rule, wildcards and resources of each, and its seconds of processor."""
    if importlib.util.find_spec(PLUGINS[name]) is None:
        pytest.skip(f'the plugin is not installed: pip install -e ".[{name}]"')
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--forceall", "--workflow-profile", f"profiles/{name}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [*command, *options, "--config", f"study={study}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    found: list[dict[str, str]] = []
    for line in result.stdout.splitlines() + result.stderr.splitlines():
        if rule := RULE.match(line):
            found.append({"rule": rule[1]})
        elif found and (field := re.match(r"^ +(wildcards|resources): (.*)$", line)):
            found[-1] |= dict(pair.split("=", 1) for pair in field[2].split(", ") if "=" in pair)
    return [job for job in found if job["rule"] != "all"], seconds


def test_groups_name_rules_that_exist() -> None:
    assert set(profile("slurm")["groups"]) <= RULES.keys()
    assert set(profile("kubernetes")["set-resources"]) <= RULES.keys()


def test_both_clusters_group_the_same() -> None:
    assert profile("kubernetes")["groups"] == profile("slurm")["groups"]


def test_short_rules_of_the_last_stages_are_grouped() -> None:
    """What follows the fit is seconds of work; a rule that is added there belongs to a group."""
    stages = [ROOT / "rules" / stage for stage in ("scaling", "reporting")]
    short = {
        name for name, rule in RULES.items() if any(Path(rule.snakefile).is_relative_to(stage) for stage in stages)
    }
    assert len(short) > 15
    alone = {"tables", "figures"}  # they run where Snakemake does
    assert short - alone <= set(profile("slurm")["groups"])


@pytest.mark.slow
def test_smoke_study_asks_for_no_gpu() -> None:
    found, _ = planned("slurm", "smoke")
    assert len(found) > 30
    assert all("gpu" not in job for job in found)
    assert all(int(job["runtime"]) <= 240 and int(job["mem_mb"]) <= 4000 for job in found)


@pytest.mark.slow
def test_paper_study_plans_its_jobs_in_seconds() -> None:
    found, seconds = planned("slurm", "paper")
    of = {rule: [job for job in found if job["rule"] == rule] for rule in {job["rule"] for job in found}}
    apart = "stable" in of
    assert len(of["stable" if apart else "train"]) == 32
    assert len(of.get("decay", [])) == (192 if apart else 0)
    for job in [*of["stable"], *of["decay"]] if apart else of["train"]:
        assert int(job["gpu"]) == 8
        assert 100 <= int(job["runtime"]) <= 72 * 60
        assert 16_000 <= int(job["mem_mb"]) <= 1_000_000
    assert all("gpu" not in job for rule in of if rule not in ("train", "stable", "decay") for job in of[rule])
    # Beside other processes the same work takes more of the processor's time, up to half as much again here.
    assert seconds < (15 if os.getloadavg()[0] <= 1 else 25)


@pytest.mark.slow
def test_smoke_study_plans_on_kubernetes(tmp_path: Path) -> None:
    """With a folder in place of the object store, which a dry run would ask what it holds."""
    if importlib.util.find_spec("snakemake_storage_plugin_fs") is None:
        pytest.skip('the plugin is not installed: pip install -e ".[scratch]"')
    store = tmp_path / "store"
    table = store / "config" / "sources" / "desk.tsv"
    table.parent.mkdir(parents=True)
    table.write_bytes((ROOT / "config" / "sources" / "desk.tsv").read_bytes())
    (tmp_path / "profile.yaml").write_text(
        f"default-storage-prefix: {store}\ncontainer-image: registry.example/smelt:1\n"
    )
    options = ("--profile", str(tmp_path), "--default-storage-provider", "fs")
    found, _ = planned("kubernetes", "smoke", *options)
    assert len(found) > 30
    assert all("gpu" not in job for job in found)
