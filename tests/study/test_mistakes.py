"""Every mistake in a study file is one line that names the file, the key and how to fix it."""

import pytest

from smelt.errors import UserError
from tests.study.conftest import REMOVED, SMOKE

SCALE = {"layers": 4, "hidden_size": 16, "heads": 2, "kv_heads": 1, "head_size": 12, "expert_width": 24}
PIN = {"hidden_size": 12, "heads": 2, "kv_heads": 1, "head_size": 8, "experts": 97, "expert_width": 20}
TRAINED = ["H16-S85", "H16-S90", "H24-S85", "H24-S90"]

MISTAKES = [
    # unknown keys
    ({"trainning": {}}, r"the study: unknown key 'trainning'; did you mean 'training'\?"),
    ({"training/learning_rte": 1}, r"training: unknown key 'learning_rte'; did you mean 'learning_rate'\?"),
    ({"grid/scales/H16/head": 3}, r"grid\.scales\.H16: unknown key 'head'; did you mean 'heads'\?"),
    ({"runs/smelt-H16-S85": {"lr": 1}}, r"runs\.smelt-H16-S85: unknown key 'lr'; known are steps, .*learning_rate"),
    ({"scaling/x": 1}, r"scaling: unknown key 'x'; known are s_convention"),
    # missing keys
    ({"name": REMOVED}, r"the study: the key 'name' is missing"),
    ({"training/steps": REMOVED}, r"training: the key 'steps' is missing"),
    ({"grid/scales/H16/heads": REMOVED}, r"grid\.scales\.H16: the key 'heads' is missing"),
    # wrong types
    ({"training/steps": "eight"}, r"training\.steps: 'eight' is not of type integer \(Optimizer steps"),
    ({"training/steps": 8.5}, r"training\.steps: 8\.5 is not of type integer"),
    ({"training/steps": True}, r"training\.steps: True is not of type integer"),
    ({"corpus/select": "ht"}, r"corpus\.select: 'ht' is not of type array \(Names of the sources"),
    ({"training/z_loss": "1e-4"}, r"training\.z_loss: '1e-4' is not of type number; .*without quotes.* as 1\.0e-3"),
    ({"training/learning_rate": "1e-3"}, r"training\.learning_rate: '1e-3' .*without quotes.* as 1\.0e-3"),
    ({"tuning/learning_rates": ["1e-3"]}, r"tuning\.learning_rates\.0: '1e-3' is not of type number; .* as 1\.0e-3"),
    (
        {"scaling/compute_budgets": ["1e15"]},
        r"scaling\.compute_budgets\.0: '1e15' is not of type number; .* as 1\.0e-3",
    ),
    # values out of range
    ({"training/learning_rate": 0}, r"training\.learning_rate: 0 is less than or equal to the minimum of 0"),
    ({"training/beta2": 1.0}, r"training\.beta2: 1\.0 is greater than or equal to the maximum of 1"),
    ({"corpus/vocabulary": 100}, r"corpus\.vocabulary: 100 is less than the minimum of 257"),
    (
        {"corpus/context": 128, "corpus/segment_tokens": 256},
        r"corpus\.segment_tokens: 256 is no length .* of 128 tokens; give 16 to 128, or 0 for the whole context",
    ),
    ({"corpus/segment_tokens": 1}, r"corpus\.segment_tokens: 1 is no length of a segment"),
    ({"corpus/megabytes": float("nan")}, r"line \d+: \.nan is no finite number"),
    ({"corpus/megabytes": float("inf")}, r"line \d+: \.inf is no finite number"),
    ({"scaling/s_convention": "mine"}, r"scaling\.s_convention: 'mine' is not one of \['baseline', 'own', 'nominal'\]"),
    ({"name": "tables"}, r"name: 'tables' should not be .*results root"),
    (
        {"name": "My-Study"},
        r"name: 'My-Study' does not fit \(.*: lower-case letters, digits and _, a letter first\.\)$",
    ),
    ({"seeds": []}, r"seeds: \[\] should be non-empty"),
    ({"seeds": [1, 1]}, r"seeds: \[1, 1\] has non-unique elements"),
    # the span
    ({"grid/architectures/smelt/span": [1, 9]}, r"smelt .*: span \[1, 9\) lies outside the layers; .* within 0 and 4"),
    ({"grid/architectures/smelt/span": [3, 1]}, r"smelt .*: span \[3, 1\) lies outside the layers"),
    ({"grid/architectures/smelt/span": 1.5}, r"grid\.architectures\.smelt\.span: 1\.5 is greater than the maximum"),
    (
        {"grid/architectures/smelt/span": REMOVED},
        r"grid\.architectures\.smelt: visits is 2 but no span is given; give `span: 0\.5` for the middle half, or ",
    ),
    (
        {"grid/architectures/smelt/span": [2, 2]},
        r"architectures\.smelt: visits is 2 but the span \[2, 2\] holds none of the 4 layers; give `span: 0\.5`",
    ),
    (
        {"grid/architectures/smelt/span": 0.1},
        r"architectures\.smelt: visits is 2 but the span 0\.1 holds none of the 4",
    ),
    (
        {"grid/architectures/smelt/visits": REMOVED},
        r"grid\.architectures\.smelt: a span is given but visits is 1; give `visits: 2`, or take the span out",
    ),
    ({"grid/architectures/baseline": {"visits": 2}}, r"architectures\.baseline: .* reference, which is never looped"),
    # branches
    (
        {"training/branch_steps": [2, 9]},
        r"branch step 9 lies beyond the stable phase of 8 steps; raise training\.steps",
    ),
    ({"runs/smelt-H16-S85": {"steps": 4}}, r"training of smelt-H16-S85: branch step 8 lies beyond .* of 4 steps"),
    ({"training/branch_steps": [5, 2]}, r"branch_steps must grow from one to the next, not \[5, 2\]"),
    ({"training/branch_steps": [0, 2]}, r"training\.branch_steps\.0: 0 is less than the minimum of 1"),
    ({"training/branch_steps": []}, r"training\.branch_steps: \[\] should be non-empty"),
    ({"scaling/skip_branches": 3}, r"scaling\.skip_branches: 3 leaves none of 3 branches"),
    # the grid
    ({"grid/scales": {}}, r"grid\.scales: it is empty; it needs at least one entry"),
    ({"grid/sparsities": {}}, r"grid\.sparsities: it is empty"),
    ({"grid/architectures": {}}, r"grid\.architectures: it is empty"),
    ({"grid/exclude": [*TRAINED, "H16-S0", "H24-S0"]}, r"grid: no cell is left; take entries out of grid\.exclude"),
    ({"grid/exclude": TRAINED}, r"grid: no cell that is trained is left; take entries out of grid\.exclude"),
    ({"grid/exclude": ["H99-S85"]}, r"grid\.exclude: 'H99-S85' is no cell and no run; a cell is SCALE-SPARSITY"),
    ({"grid/exclude": ["smelt-H99-S85"]}, r"grid\.exclude: 'smelt-H99-S85' is no cell and no run; .* and a run ARCHIT"),
    (
        {"grid/architectures/baseline": {"layers": 3}},
        r"baseline: .* reference, whose layers are those of grid\.scales",
    ),
    (
        {"grid/architectures/smelt/layers": 2, "grid/architectures/smelt/span": [1, 3]},
        r"\[1, 3\) lies outside .* 0 and 2",
    ),
    # fixed geometry
    (
        {"grid/geometry/smelt-H16-S99": PIN},
        r"grid\.geometry: 'smelt-H16-S99' is no run; a run is ARCHITECTURE-SCALE-SPARSITY",
    ),
    (
        {"grid/geometry/baseline-H16-S85": PIN},
        r"geometry\.baseline-H16-S85: the geometry of the reference is that of grid\.s",
    ),
    ({"grid/geometry/smelt-H16-S85": {"heads": 2}}, r"grid\.geometry\.smelt-H16-S85: the key 'hidden_size' is missing"),
    (
        {"grid/geometry/smelt-H16-S85": PIN, "grid/scales/H16/expert_width": 32},
        r"smelt of cell H16-S85: its fixed geometry has its FLOPs per token [\d.]+ % off \(tolerance flops: 0\.04\) "
        r"and its parameters .*; take the entry out of grid\.geometry, .* or raise grid\.tolerance",
    ),
    (
        {"grid/geometry/smelt-H16-S85": {**PIN, "heads": 3, "kv_heads": 2}},
        r"smelt of cell H16-S85: heads \(3\) must be a multiple of kv_heads",
    ),
    ({"grid/shape": 0.9}, r"grid\.shape: 0\.9 is less than the minimum of 1"),
    ({"grid/scales/H17": SCALE}, r"grid: the cells H16-S0 and H17-S0 are the same network; keep one of them"),
    ({"grid/sparsities/S85.0": {"sparsity": 0.85}}, r"grid: the cells H16-S85 and H16-S85\.0 are the same network"),
    (
        {"grid/scales/H-1": SCALE},
        r"grid\.scales: 'H-1' does not fit \(a label is letters, digits and points, as 1\.6B\)",
    ),
    (
        {"grid/sparsities/X1": {"experts": 9}},
        r"grid\.sparsities: 'X1' does not fit \(a label is S and the percentage, as S95\)",
    ),
    ({"grid/sparsities/S50": {"sparsity": 0.5, "experts": 9}}, r"grid\.sparsities\.S50: .* more than one"),
    ({"grid/sparsities/S99": {"sparsity": 0.9999}}, r"baseline of cell H16-S99: sparsity 0\.9999 cannot be reached"),
    ({"grid/sparsities/S50": {"experts": 4}}, r"active_experts \(8\) is more than experts \(4\); add experts"),
    ({"grid/scales/H16/kv_heads": 3}, r"baseline of cell H16-S0: heads \(2\) must be a multiple of kv_heads \(3\)"),
    # the tolerance
    (
        {"grid/tolerance": {"params": 1e-9}},
        r"smelt of cell H16-S0: no network .* meets the tolerance .*parameters [\d.e-]+ % off"
        r" \(tolerance params: 1e-09\); use a larger shape or a larger tolerance",
    ),
    ({"grid/tolerance": {"flops": 1e-9}}, r"FLOPs per token [\d.e-]+ % off \(tolerance flops: 1e-09\)"),
    ({"grid/scales/H16/head_size": 14}, r"KV cache 7\.1 % off \(tolerance kv: 0\.04\); raise the tolerance"),
    # what is fitted
    ({"scaling/fit_sparsities": ["S99"]}, r"scaling\.fit_sparsities: 'S99' is no sparsity that the grid trains"),
    ({"scaling/fit_sparsities": ["S0"]}, r"scaling\.fit_sparsities: 'S0' is no sparsity that the grid trains"),
]


@pytest.mark.parametrize(
    ("changes", "message"), MISTAKES, ids=[f"{n}-{next(iter(c))}" for n, (c, _) in enumerate(MISTAKES)]
)
def test_a_mistake_names_the_key_and_the_fix(read, tmp_path, changes, message):
    with pytest.raises(UserError, match=message) as error:
        read(changes)
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'study.yaml'}: ")
    assert "\n" not in said


def test_a_key_written_twice_is_named_with_both_lines(read):
    """YAML would keep the last one in silence: a cell, a run or a section could vanish."""
    lines = SMOKE.read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if line.strip().startswith("H24:"))
    lines.insert(place + 1, lines[place])
    with pytest.raises(UserError, match=rf"line {place + 2}: 'H24' appears twice \(first on line {place + 1}\)"):
        read.text("\n".join(lines))
    with pytest.raises(UserError, match=r"line \d+: 'training' appears twice"):
        read.text(SMOKE.read_text(encoding="utf-8") + "\ntraining: {steps: 9}\n")


@pytest.mark.parametrize(
    "content",
    [
        "a: [1\n",
        "a: 1\n\tb: 2",
        b"name: \xff",
        "a: !!python/object:os.system x",
        "[1]: 2",
        "? {a: 1}\n: 1",
        "a: 2020-13-45",
    ],
)
def test_what_is_no_yaml_is_one_line(read, content):
    with pytest.raises(UserError, match=r"study\.yaml: not readable YAML: ") as error:
        read.text(content)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["", "[]", "desk"])
def test_what_is_no_study_says_so(read, content):
    with pytest.raises(UserError, match=r"the study: .* is not of type object"):
        read.text(content)


def test_anchors_and_merges_are_no_double_keys(read):
    text = SMOKE.read_text(encoding="utf-8").replace("H16: {", "H16: &scale {")
    text = text.replace("    H24: {", "    H32: {<<: *scale, hidden_size: 32}\n    H24: {")
    assert read.text(text).runs["baseline-H32-S85"].model.hidden_size == 32
