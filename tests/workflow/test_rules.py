"""Every rule has the form that its readers and Snakemake's triggers rely on."""

import ast
import re
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT

FILES = sorted((ROOT / "rules").rglob("*.smk"))
RULE = re.compile(r"^rule (\w+):\n((?:    .*\n|\n)*)", re.MULTILINE)
DIRECTIVE = re.compile(r"^    (\w+):", re.MULTILINE)
ORDER = ["input", "output", "log", "benchmark", "params", "threads", "retries", "resources", "conda", "shell"]
PROCESSES = "processes"  # a function of the run
TRAIN = {"train", "stable", "decay"}
COLLECT = {"tables", "figures"}  # run no command
RULES = {name: body for path in FILES for name, body in RULE.findall(path.read_text(encoding="utf-8"))}
JOBS = {name: body for name, body in RULES.items() if name not in COLLECT}


def directive(body: str, name: str) -> str:
    """What stands under a directive, on its own line or below; empty where there is none."""
    found = re.search(rf"^    {name}:(.*\n(?:        .*\n|\n)*)", body, re.MULTILINE)
    return found[1] if found else ""


def shell(body: str) -> str:
    """The command of a rule."""
    return ast.literal_eval(f"({directive(body, 'shell')})")


def test_every_rule_was_found():
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    assert len(RULES) == len(re.findall(r"^\s*(?:use )?(?:rule|checkpoint)\b.*:", text, re.MULTILINE))
    assert RULES.keys() > COLLECT
    assert len(JOBS) >= 15


@pytest.mark.parametrize("path", [ROOT / "Snakefile", *FILES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_says_what_goes_in_and_what_comes_out(path):
    assert re.match(r'"""\S?[^"]{40,}"""\n', path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_of_rules_is_a_stage_or_what_rules_share(path):
    """In a stage's folder stand its rules for one kind of study, or one form of the stage."""
    if path.parent.name == "rules":
        assert path.stem in ("common", "grid") or (ROOT / "smelt" / path.stem).is_dir()
    else:
        assert (ROOT / "rules" / f"{path.parent.name}.smk").is_file()
        assert path.stem in ("trained", "own", "simulated", "scored", "run", "branch", "data", "downstream")


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_it_does(name):
    assert re.match(r'    """[A-Z][^"]{10,}\."""\n', RULES[name])


@pytest.mark.parametrize("name", sorted(COLLECT))
def test_collect_rules_run_nothing(name):
    assert DIRECTIVE.findall(RULES[name]) == ["input"]


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_says_all_in_one_order(name):
    found = DIRECTIVE.findall(JOBS[name])
    assert found == [word for word in ORDER if word in found]
    assert {"output", "log", "benchmark", "params", "threads", "resources", "conda", "shell"} <= set(found)


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_asks_for_threads_memory_and_time(name):
    threads = directive(JOBS[name], "threads").strip()
    assert threads.isdigit() or (name in TRAIN and threads == PROCESSES)
    resources = directive(JOBS[name], "resources")
    for resource in ("mem_mb", "runtime"):  # a number, or a function of the wildcards, made by one or not
        assert re.search(rf"^ +{resource}=\w+(\([^()]*\))?,$", resources, re.MULTILINE)


@pytest.mark.parametrize("name", JOBS)
def test_logs_and_benchmarks_lie_together(name):
    for kind, ending in (("log", "log"), ("benchmark", "tsv")):
        assert re.search(rf'f"{{RESULTS}}/{kind}s/\w+/[^"]+\.{ending}"', directive(JOBS[name], kind))


def check_text(command: str) -> None:
    """One command, whose output goes to the log, and every value of which is quoted."""
    assert command.endswith(" > {log:q} 2>&1")
    assert not re.search(r"[;&|`$](?!1$)", command.removesuffix("2>&1"))
    assert [brace for brace in re.findall(r"{[^}]*}", command) if not brace.endswith(":q}")] in ([], ["{threads}"])


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_is_one_quoted_command(name):
    command = shell(JOBS[name])
    if name in TRAIN:  # which Python starts, or torchrun
        module = re.search(r"launched=launched\(\"(.*)\"\),", directive(JOBS[name], "resources"))[1]
        command = command.replace("{resources.launched}", f"python -m {module}")
    module = re.match(r"python -m (smelt(?:\.\w+)+) ", command)[1]
    check_text(command)
    # The module exists, and the job reruns when the code that it reaches changes, not that of another.
    assert (ROOT / Path(*module.split("."))).with_suffix(".py").is_file()
    assert re.search(r"^        code=fingerprint\(\"(.*)\"\),$", directive(JOBS[name], "params"), re.M)[1] == module
    # Settings reach it as one text.
    assert ("{params.spec:q}" in command) == bool(re.search(r"^        spec=", directive(JOBS[name], "params"), re.M))


@pytest.mark.parametrize("name", JOBS)
def test_params_hold_nothing_that_goes_stale(name):
    """Snakemake compares params as a set of texts: only the spec, the fingerprint and a place among the results."""
    params = re.findall(r"^        (\w+)=(.*),$", directive(JOBS[name], "params"), re.MULTILINE)
    assert len(params) == len(directive(JOBS[name], "params").strip().splitlines())
    for key, value in params:
        assert key in ("spec", "code") or value.startswith('f"{RESULTS}/')


def test_training_runs_on_one_thread():
    """Its bits depend on it; several processes have one each."""
    assert {directive(JOBS[name], "threads").strip() for name in TRAIN} == {PROCESSES}
    assert directive(JOBS["evaluate"], "threads").strip() == "1"
