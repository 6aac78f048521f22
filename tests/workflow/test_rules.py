"""Every rule has the form that its readers and Snakemake's triggers rely on, as Snakemake's own parser sees it."""

import re
from pathlib import Path

import pytest

from smelt.workflow import start
from tests.workflow.parsed import ROOT, rules

FILES = sorted((ROOT / "rules").rglob("*.smk"))
ORDER = ["input", "output", "log", "benchmark", "params", "threads", "retries", "resources", "conda", "shell"]
TRAIN = set(start.TRAINING)
COLLECT = {"all", "tables", "figures"}  # run no command
STUDIES = ("smoke", "published", "ablations", "paper")
RULES = rules()
JOBS = {name: rule for name, rule in RULES.items() if name not in COLLECT}
# Rules whose module has another name: several call one command, or a stage's module is its package's main one.
OTHER_NAMES = {
    "corpus_summary": "smelt.corpus.summary",
    "budget_tables": "smelt.budgets.table",
    "evaluation_packages": "smelt.corpus.sources.fetch",
    "icl_comparison": "smelt.evaluation.icl.comparison",
    **{
        f"{name}_tables": "smelt.reporting.tables"
        for name in ("scaling", "sensitivity", "subset", "calibration", "task")
    },
    "scaling_figures": "smelt.reporting.figures.scaling.draw",
    "subset_figures": "smelt.reporting.figures.subsets.draw",
    "ablation_figures": "smelt.reporting.figures.ablations",
    "downstream_figure": "smelt.reporting.figures.downstream.downstream",
    "icl_figure": "smelt.reporting.figures.downstream.icl",
    "calibration_figure": "smelt.reporting.figures.downstream.calibration",
    "learning_rate_figure": "smelt.reporting.figures.learning_rate",
    "paper_comparison": "smelt.reporting.paper.comparison",
}


def module(name: str) -> str:
    """The module that a rule's command runs."""
    command = RULES[name].shellcmd
    if name in TRAIN:  # which Python starts, or torchrun
        return f"smelt.training.{name}"
    return re.match(r"python -m (smelt(?:\.\w+)+) ", command)[1]


@pytest.mark.parametrize("study", STUDIES)
def test_the_rules_are_the_same_for_every_study(study):
    assert rules(study).keys() == RULES.keys()


@pytest.mark.parametrize("path", [ROOT / "Snakefile", *FILES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_says_what_goes_in_and_what_comes_out(path):
    assert re.match(r'"""\S?[^"]{40,}"""\n', path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_of_rules_is_a_room_of_the_package(path):
    parts = path.relative_to(ROOT / "rules").with_suffix("").parts
    room = ROOT.joinpath("smelt", *parts)
    assert parts == ("common",) or room.is_dir() or room.with_suffix(".py").is_file()


def test_every_file_is_included_and_nothing_is_included_on_a_condition():
    text = (ROOT / "Snakefile").read_text(encoding="utf-8")
    assert re.findall(r'^include: "(.*)"$', text, re.MULTILINE) == sorted(
        (path.relative_to(ROOT).as_posix() for path in FILES), key=text.index
    )
    for path in FILES:
        assert "include:" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_it_does(name):
    assert re.fullmatch(r"[A-Z][^\"]{10,}\.", RULES[name].docstring.strip())


@pytest.mark.parametrize("name", sorted(COLLECT))
def test_collect_rules_run_nothing(name):
    rule = RULES[name]
    assert rule.norun
    assert not rule.output
    assert not rule.shellcmd


def test_directives_stand_in_one_order():
    for path in FILES:
        for body in re.findall(r"^rule \w+:\n((?:    .*\n|\n)*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found = re.findall(r"^    (\w+):", body, re.MULTILINE)
            assert found == [word for word in ORDER if word in found]


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_asks_for_threads_memory_and_time(name):
    resources = RULES[name].resources
    assert {"mem_mb", "runtime", "_cores"} <= resources.keys()
    assert resources["_cores"].is_evaluable() == (name in TRAIN)  # else a number
    assert RULES[name].conda_env


@pytest.mark.parametrize("name", JOBS)
def test_logs_and_benchmarks_lie_together(name):
    (log,) = RULES[name].log
    assert re.fullmatch(r"results/smoke/logs/\w+/[^/]+\.log", str(log))
    assert re.fullmatch(r"results/smoke/benchmarks/\w+/[^/]+\.tsv", str(RULES[name].benchmark))


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_is_one_quoted_command(name):
    """One command, whose output goes to the log, and every value of which is quoted."""
    command = RULES[name].shellcmd.removeprefix("{resources.launched}")
    assert command.endswith(" > {log:q} 2>&1")
    assert not re.search(r"[;&|`$](?!1$)", command.removesuffix("2>&1"))
    assert [brace for brace in re.findall(r"{[^}]*}", command) if not brace.endswith(":q}")] in ([], ["{threads}"])


@pytest.mark.parametrize("name", JOBS)
def test_a_rule_is_named_after_the_module_that_it_runs(name):
    path = ROOT / Path(*module(name).split("."))
    assert path.with_suffix(".py").is_file()
    assert module(name) == OTHER_NAMES.get(name, module(name))
    assert name in OTHER_NAMES or module(name).split(".")[-1] == name


@pytest.mark.parametrize("name", JOBS)
def test_params_hold_nothing_that_goes_stale(name):
    """Snakemake compares params as a set of texts: the spec, the fingerprint of the module that runs, no more."""
    from smelt.spec import fingerprint

    params = dict(RULES[name].params.items())
    assert set(params) == {"spec", "code"}
    assert callable(params["spec"])
    assert params["code"] == fingerprint(module(name))
    assert "{params.spec:q}" in RULES[name].shellcmd


def test_rules_that_are_checked_before_a_start_exist():
    assert {*start.TRAINING, start.PLAN, start.REQUESTS, start.OWN} <= RULES.keys()
