"""Studies whose endpoints are given: what they are read as, and every mistake as one line that names the key."""

from pathlib import Path

import pytest
import yaml

from smelt.errors import UserError
from smelt.spec import plain
from smelt.study import load as studies
from smelt.study.schema import study_schema
from smelt.workflow import preflight, results_root, scaling_specs

EXAMPLE = studies.CONFIG / "examples"
TEXT = (EXAMPLE / "endpoints.csv").read_text(encoding="utf-8")
LINES = TEXT.splitlines()


def kept(*parts: str) -> str:
    """The example's endpoints whose line holds one of some texts."""
    return "\n".join([LINES[0], *(line for line in LINES[1:] if any(part in line for part in parts))])


@pytest.fixture
def read(tmp_path):
    """`read(changes)` is the example study with keys set or (None) taken out, its endpoints those of `content`."""

    def changed(changes=None, content=TEXT):
        config = yaml.safe_load((EXAMPLE / "own.yaml").read_text(encoding="utf-8")) | (changes or {})
        (tmp_path / "endpoints.csv").write_text(content, encoding="utf-8")
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in config.items() if value is not None}))
        return studies.read(path)

    return changed


def test_the_example_is_read_as_it_says():
    study = studies.read(EXAMPLE / "own.yaml")
    assert (study.kind, study.name, study.root) == ("endpoints", "own", "results/own")
    assert study.table == str(EXAMPLE / "endpoints.csv") or study.table == "config/examples/endpoints.csv"
    assert len(study.given.rows) == 144
    assert {row["source"] for row in study.given.rows} == {"simulated from the published surfaces, with noise"}
    told = scaling_specs.fits(study)
    assert (told.s_convention, told.reference) == ("given", "baseline")
    assert told.sparsity_values == {"S85": 0.85, "S95": 0.95, "S97": 0.97}
    assert plain(scaling_specs.own_endpoints(study)) == {}


def test_the_published_study_is_simulated():
    study = studies.read(studies.find("published"))
    assert (study.kind, study.s_convention, study.reference) == ("simulation", "own", "baseline")
    assert {row["source"] for row in study.given.rows} == {"simulated from the published surfaces"}
    told = plain(scaling_specs.simulated_endpoints(study))
    assert "noise" not in told  # its default
    assert "endpoints" not in told


def test_its_table_is_named_from_the_working_directory_where_it_lies_inside(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read().table == "endpoints.csv"
    monkeypatch.chdir("/")
    assert Path(read().table) == Path(str(tmp_path / "endpoints.csv").lstrip("/"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read().table == str(tmp_path / "endpoints.csv")


def test_its_root_is_claimed_as_any_other(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    preflight.check_machine(read(), [], 2)
    results_root.claim_root(read())
    assert (tmp_path / "results/own/study").read_text() == f"{tmp_path / 'mine.yaml'}\n"


def test_the_reference_is_the_only_one_the_one_named_or_baseline(read):
    assert read({"scaling": {}}).reference == "baseline"
    assert read({"scaling": {"reference": "smelt"}}).reference == "smelt"
    assert read({"scaling": {}}, kept("smelt,")).reference == "smelt"
    with pytest.raises(UserError, match=r"scaling\.reference: the key is missing; of mine, smelt it names the one"):
        read({"scaling": {}}, TEXT.replace("baseline", "mine"))


def test_sparsities_can_be_compared_elsewhere(read):
    study = read({"scaling": {"sparsities": {"S95": 0.945}}})
    assert scaling_specs.fits(study).sparsity_values == {"S85": 0.85, "S95": 0.945, "S97": 0.97}
    assert scaling_specs.own_endpoints(study) == scaling_specs.own_endpoints(read())


MISTAKES = [
    ({"corpus": {}}, r"corpus: no part of a study with endpoints; take it out, or endpoints$"),
    ({"seeds": [0]}, r"seeds: no part of a study with endpoints; take it out, or endpoints$"),
    (
        {"simulation": {"endpoints": "x.csv", "surfaces": {}}},
        r"(simulation|endpoints): no part of a study with (endp|sim)",
    ),
    ({"endpoints": None}, r"the study: the key 'corpus' is missing"),
    ({"endpoints": "none.csv"}, r"/none\.csv: no such file; the path is taken from the folder of the study file"),
    ({"endpoint": "x.csv"}, r"the study: unknown key 'endpoint'; did you mean 'endpoints'\?"),
    ({"scaling": {"reference": "dense"}}, r"scaling\.reference: no endpoint of 'dense'; known are baseline, smelt"),
    ({"scaling": {"sparsities": {"S80": 0.8}}}, r"scaling\.sparsities: no 'S80' in .*; known are S85, S95, S97"),
    ({"scaling": {"fit_sparsities": ["S80"]}}, r"scaling\.fit_sparsities: .* has no 'S80' but \['S85', 'S95', 'S97'\]"),
    ({"scaling": {"skip_branches": 6}}, r"no endpoint is left to fit; lower scaling\.skip_branches"),
    ({"scaling": {"surface": "looped_depth"}}, r"scaling\.surface: 'looped_depth' needs active_params, looped_params"),
    ({"scaling": {"surface": "mine"}}, r"scaling\.surface: 'mine' is not one of"),
    ({"scaling": {"huber_deltas": [0]}}, r"scaling\.huber_deltas\.0: 0 is less than or equal to the minimum of 0"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_names_the_key_and_the_fix(read, tmp_path, changes, message):
    with pytest.raises(UserError, match=message) as error:
        read(changes)
    assert str(error.value).startswith(f"{tmp_path / 'mine.yaml'}: ")
    assert "\n" not in str(error.value)


def test_a_mistake_in_the_scores_shows_while_the_study_is_read(read, tmp_path):
    """And not in the job that calibrates them, after the fits."""
    head = "architecture,scale,sparsity,branch_step,metric,score,higher_is_better\n"
    scores = tmp_path / "scores.csv"
    with pytest.raises(UserError, match=r"scores: no file .*scores\.csv; the path is taken from the folder"):
        read({"scores": "scores.csv"})
    scores.write_text(f"{head}smelt,100M,S85,1,core,0.2,true\n")
    assert read({"scores": "scores.csv"}).scores == str(scores)
    scores.write_text(f"{head}smelt,100M,S85,1,core,0.2,true\nsmelt,100M,S86,1,core,0.2,true\n")
    with pytest.raises(UserError, match=r"mine\.yaml: .*scores\.csv: row 3 .*, column sparsity: no endpoint is archit"):
        read({"scores": "scores.csv"})
    scores.write_text(f"{head.replace(',score', '')}smelt,100M,S85,1,core,true\n")
    with pytest.raises(UserError, match=r"scores\.csv: the column 'score' is missing"):
        read({"scores": "scores.csv"})


def test_what_a_simulation_rules_out_names_the_simulation(tmp_path):
    """And not endpoints, which are not there."""
    config = yaml.safe_load(studies.find("published").read_text(encoding="utf-8")) | {"seeds": [0]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match=r"seeds: no part of a study with simulation; take it out, or simulation$"):
        studies.read(tmp_path / "mine.yaml")


def test_fewer_endpoints_than_coefficients(read):
    few = kept("smelt,", "baseline,100M-S85", "baseline,1.6B-S97")
    lines = few.splitlines()
    short = [line for line in lines if "baseline" not in line or "20485760000" in line]
    with pytest.raises(
        UserError, match=r"2 endpoints of baseline to fit, fewer than the 6 coefficients of the surface smelt; add endp"
    ):
        read({}, "\n".join(short))
    one = kept("100M-S85").splitlines()
    assert read({}, "\n".join(one)).kind == "endpoints"  # b is held: six endpoints for five coefficients
    with pytest.raises(UserError, match="4 endpoints of baseline to fit, fewer than the 5 coefficients"):
        read({}, "\n".join(one[:5] + one[7:]))


def test_a_grid_takes_no_key_of_theirs():
    config = yaml.safe_load(studies.find("smoke").read_text(encoding="utf-8"))
    path = studies.find("smoke")
    for key, value in (("reference", "smelt"), ("sparsities", {"S85": 0.85})):
        schema = study_schema()
        filled = studies.completed(path, schema)
        filled["scaling"][key] = value
        with pytest.raises(UserError, match=rf"scaling\.{key}: the .* of a grid .*; take the key out"):
            studies.GridStudy(path, filled).check()
    assert "scaling" in config
