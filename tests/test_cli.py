"""The console command: thin doors on the library, and one line where the input is bad."""

import subprocess
import sys
from pathlib import Path

import pytest

from smelt import cli
from smelt.errors import UserError

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "config" / "examples" / "endpoints.csv"


def test_studies_are_listed_with_what_they_are(capsys):
    cli.main(["studies"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert {"desk", "smoke", "published", "paper"} <= lines.keys()
    assert "trains a grid" in lines["desk"]
    assert "results/smoke" in lines["smoke"]
    assert "simulated endpoints" in lines["published"]


def test_a_sound_study_says_what_it_holds(capsys):
    cli.main(["check", "smoke"])
    out = capsys.readouterr().out
    assert "6 networks, 6 runs, 3 branches each" in out
    assert "smelt-H24-S85" in out
    assert "results: results/smoke/" in out
    assert out.startswith(f"{ROOT / 'config/smoke.yaml'}: sound, trains a grid\n")
    cli.main(["check", "published"])
    assert capsys.readouterr().out.startswith(f"{ROOT / 'config/published.yaml'}: sound, simulated endpoints\n")


def test_matched_pairs_and_their_ratios(capsys):
    cli.main(["match", "smoke"])
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[-3:] == ["flops_ratio", "params_ratio", "kv_ratio"]
    assert len(rows) == 10  # five cells of two, the controls among them: H24-S90 is left out
    for row in rows:
        assert all(abs(float(ratio) - 1) < 0.05 for ratio in row.split()[-3:])


def test_the_cost_estimate_ends_with_a_total(capsys):
    cli.main(["plan", "paper"])
    out = capsys.readouterr().out
    assert "gpu_hours" in out
    assert any(line.split()[0] == "total" for line in out.splitlines())


def test_gains_of_a_file(capsys):
    cli.main(["fit", str(EXAMPLE), "--budget", "1e20", "--draws", "100"])
    ce_gain, iso_loss_gain = capsys.readouterr().out.split("\n\n")
    title, header, *rows = ce_gain.splitlines()
    assert title.startswith("CE gain")
    assert header.split()[:4] == ["architecture", "budget_flops", "sparsity", "gain"]
    assert rows[0].split()[:4] == ["smelt", "1e+20", "S85", "0.1252"]
    assert len([row for row in rows if row.strip().startswith("smelt")]) == 3
    assert "note on smelt S97 at 1e+20 FLOPs: the interval spans zero" in rows
    title, header, *rows = iso_loss_gain.splitlines()
    assert title.startswith("Iso-loss gain")
    assert header.split() == cli.ISO_LOSS_COLUMNS
    assert rows[0].split() == ["smelt", "all", "215599539200", "0.219", "0.13", "0.2989", "12", "True"]
    assert [row.split()[2] for row in rows[1:4]] == ["S85", "S95", "S97"]
    assert "note on smelt S95, smelt S97: the interval spans zero" in rows


def test_a_doubtful_loss_is_a_warning(capsys, tmp_path):
    lines = EXAMPLE.read_text().splitlines()
    columns = lines[-1].split(",")
    columns[5] = "11.0"
    (tmp_path / "endpoints.csv").write_text("\n".join([*lines[:-1], ",".join(columns)]) + "\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nendpoints: endpoints.csv\n")
    said = "warning: smelt 1.6B S97, seed 0: 1 of 6 losses (up to 11) are over 1.25 times those of a smaller training"
    cli.main(["check", str(tmp_path / "mine.yaml")])
    assert said in capsys.readouterr().out
    cli.main(["fit", str(tmp_path / "endpoints.csv"), "--budget", "1e20", "--draws", "40"])
    out = capsys.readouterr().out
    assert said in out
    assert "smelt: outlying endpoints, 1 of 6 in 1.6B S97 (loss 11, expected 1.661)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nowhere"], "no file"),
        (["match", "published"], "has no grid"),
        (["fit", "nowhere.csv"], "no such file"),
        (["fit", str(EXAMPLE), "--reference", "dense"], "no endpoint of 'dense'"),
    ],
)
def test_bad_input_is_one_error(arguments, message):
    with pytest.raises(UserError, match=message):
        cli.main(arguments)


def test_the_console_prints_one_line_and_no_traceback():
    run = [sys.executable, "-m", "smelt.cli", "check", "nowhere"]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith("error: study=nowhere: no file")
    assert len(found.stderr.splitlines()) == 1


def test_a_reader_that_leaves_early_is_no_error():
    writer = subprocess.Popen(
        [sys.executable, "-m", "smelt.cli", "match", "smoke"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.communicate()[1] == b""
    assert writer.returncode == 0
