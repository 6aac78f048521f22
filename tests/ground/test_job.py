"""A job's command line: settings, files, and the provenance of what it writes."""

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest

from smelt.artifacts import field, file_digest, read_provenance, table
from smelt.errors import UserError
from smelt.job import read_job

MODULE = "smelt.artifacts"  # any module: its code is part of the provenance
SCHEMA = pa.schema([field("count", pa.int64(), "a number")])


@dataclasses.dataclass(frozen=True)
class Settings:
    size: int = 3
    names: tuple[str, ...] = ()


def job(*arguments: str):
    return read_job(MODULE, "Do it.", arguments, Settings, ["losses*", "old_scores?"], ["out"])


def test_settings_and_files_are_read_from_the_command_line(tmp_path):
    found = job("--spec", '{"names":["a"]}', "--losses", "x", "y", "--out", str(tmp_path / "out.parquet"))
    assert found.settings == Settings(names=("a",))
    assert [str(path) for path in found.paths("losses")] == ["x", "y"]
    assert found.paths("old_scores") == ()
    assert found.path("out") == tmp_path / "out.parquet"


def test_provenance_holds_the_spec_as_given_and_every_file_that_is_read(tmp_path):
    one = tmp_path / "one"
    one.write_text("text")
    spec = {"size": 3}
    job("--spec", json.dumps(spec), "--losses", str(one), "--out", str(tmp_path / "out.parquet")).write(
        "out", table([{"count": 1}], SCHEMA)
    )
    origin = read_provenance(tmp_path / "out.parquet")
    assert (origin["module"], origin["spec"]) == (MODULE, spec)
    assert origin["inputs"] == {"one": file_digest(one)}


def test_a_spec_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match="Settings: unknown setting 'sizes'; known are size, names"):
        job("--spec", '{"sizes": 1}', "--losses", "x", "--out", "y")


@pytest.mark.parametrize(
    "arguments", [["--losses", "x"], ["--out", "y"], ["--losses", "x", "--out", "y", "--more", "z"]]
)
def test_a_file_that_is_missing_or_unknown_ends_the_command(arguments, capsys):
    with pytest.raises(SystemExit):
        job(*arguments)
    assert f"python -m {MODULE}" in capsys.readouterr().err


@dataclasses.dataclass(frozen=True)
class Options:
    state: Path = dataclasses.field(metadata={"help": "a folder"})
    save_interval: int = 50
    perf: Path | None = None
    stream: str = dataclasses.field(default="stable", metadata={"choices": ("stable", "decay")})


def with_options(*arguments: str):
    return read_job(MODULE, "Do it.", ["--out", "x", *arguments], Settings, [], ["out"], Options).options


def test_options_are_read_as_their_fields_say():
    assert with_options("--state", "folder") == Options(Path("folder"))
    every = ("--state", "folder", "--save-interval", "3", "--perf", "lines", "--stream", "decay")
    assert with_options(*every) == Options(Path("folder"), 3, Path("lines"), "decay")
    assert job("--losses", "x", "--out", "y").options is None


@pytest.mark.parametrize(
    "arguments", [[], ["--state", "x", "--save-interval", "often"], ["--state", "x", "--stream", "heldout"]]
)
def test_an_option_that_is_missing_or_of_another_kind_ends_the_command(arguments, capsys):
    with pytest.raises(SystemExit):
        with_options(*arguments)
    assert f"python -m {MODULE}" in capsys.readouterr().err
