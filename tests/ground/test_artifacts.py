"""Artifacts: declared schema, provenance that leads back to the start, the same bytes twice, never half a file."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smelt import __version__, artifacts
from smelt.artifacts import (
    field,
    file_digest,
    provenance,
    read_provenance,
    read_table,
    replacing,
    table,
    write_table,
)
from smelt.errors import UserError
from smelt.spec import fingerprint

MODULE = "smelt.budgets.table"
SCHEMA = pa.schema(
    [
        field("run", pa.string(), "id of the run"),
        field("loss", pa.float64(), "nats"),
        field("steps", pa.int32(), "done"),
    ]
)
ROWS = [{"run": "a", "loss": 1.5, "steps": 3}, {"run": "b", "loss": None, "steps": None}]


def write(path, inputs=(), spec=None):
    write_table(table(ROWS, SCHEMA), path, provenance(MODULE, spec or {"a": 1}, inputs))
    return path


def test_rows_and_their_schema_come_back(tmp_path):
    found = read_table(write(tmp_path / "t.parquet"))
    assert found.to_pylist() == ROWS
    assert found.schema.equals(SCHEMA)
    assert found.schema.field("loss").metadata == {b"description": b"nats"}
    assert read_table(tmp_path / "t.parquet", ["loss"]).column_names == ["loss"]


@pytest.mark.parametrize(
    ("row", "named"),
    [({"run": "a", "loss": 1.0}, "steps"), ({"run": "a", "loss": 1.0, "steps": 1, "extra": 2}, "extra")],
)
def test_a_row_has_exactly_the_declared_columns(row, named):
    with pytest.raises(ValueError, match=named):
        table([row], SCHEMA)


def test_a_value_of_another_type_is_refused():
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        table([{"run": "a", "loss": "low", "steps": 1}], SCHEMA)


def test_no_rows_keep_the_schema(tmp_path):
    write_table(table([], SCHEMA), tmp_path / "t.parquet", {})
    assert read_table(tmp_path / "t.parquet").schema.equals(SCHEMA)


def test_provenance_leads_from_the_end_of_a_chain_to_its_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("results")
    with open("results/source.txt", "w") as file:
        file.write("text")
    write("results/first.parquet", ["results/source.txt"], {"step": 1})
    write("results/second.parquet", ["results/first.parquet", "results/source.txt"], {"step": 2})
    origin = read_provenance("results/second.parquet")
    assert origin["package"] == __version__
    assert (origin["module"], origin["code"]) == (MODULE, fingerprint(MODULE))
    assert origin["spec"] == {"step": 2}
    steps = []
    while parquet := [name for name in origin["inputs"] if name.endswith(".parquet")]:
        assert origin["inputs"][parquet[0]] == file_digest(parquet[0])
        origin = read_provenance(parquet[0])
        steps.append(origin["spec"]["step"])
    assert steps == [1]
    assert origin["inputs"] == {"results/source.txt": file_digest("results/source.txt")}


def test_the_same_content_is_the_same_bytes_and_names_no_place(tmp_path):
    copies = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "input.txt").write_text("text")
        copies.append(write(folder / "t.parquet", [folder / "input.txt"]).read_bytes())
    assert copies[0] == copies[1]
    assert str(tmp_path).encode() not in copies[0]
    assert os.uname().nodename.encode() not in copies[0]
    assert read_provenance(tmp_path / "one/t.parquet")["inputs"].keys() == {"input.txt"}


def test_bytes_follow_rows_spec_and_inputs(tmp_path):
    (tmp_path / "input.txt").write_text("text")
    bytes_of = {write(tmp_path / "t.parquet", inputs, spec).read_bytes() for inputs in ((), [tmp_path / "input.txt"])
                for spec in ({"a": 1}, {"a": 2})}  # fmt: skip
    assert len(bytes_of) == 4
    (tmp_path / "input.txt").write_text("other text")
    assert write(tmp_path / "t.parquet", [tmp_path / "input.txt"]).read_bytes() not in bytes_of


def test_inputs_of_one_name_stay_apart(tmp_path, monkeypatch):
    """Runs share file names, so that an input is known by its path within the working directory."""
    monkeypatch.chdir(tmp_path)
    for run in ("a", "b"):
        os.makedirs(run)
        write(f"{run}/losses.parquet", spec={"run": run})
    write("all.parquet", ["a/losses.parquet", "b/losses.parquet"])
    assert read_provenance("all.parquet")["inputs"] == {
        f"{run}/losses.parquet": file_digest(f"{run}/losses.parquet") for run in ("a", "b")
    }


class Stop(BaseException):
    """As KeyboardInterrupt or SystemExit: no Exception."""


@pytest.mark.parametrize("error", [OSError("disk"), Stop()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "out.txt"
    target.write_text("old")

    def fail():
        with replacing(target) as temporary:
            temporary.write_text("half of the n")
            assert target.read_text() == "old"
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert target.read_text() == "old"


def test_a_failed_table_leaves_nothing(tmp_path, monkeypatch):
    def broken(data, path, **options):
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifacts.pq, "write_table", broken)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_missing_folders_are_made(tmp_path):
    assert pq.read_table(write(tmp_path / "a/b/t.parquet")).num_rows == 2


def test_what_cannot_be_read_is_one_clear_error(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(UserError, match=f"^{path}: no such file$"):
        read_table(path)
    whole = write(path).read_bytes()
    for damaged in (b"", b"something else", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"^{path}: not a readable Parquet file \(.*\); delete it and run again$"):
            read_table(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UserError, match=f"^{path}: carries no provenance"):
        read_provenance(path)


def test_provenance_is_canonical_json_in_the_schema(tmp_path):
    raw = pq.read_schema(write(tmp_path / "t.parquet", spec={"b": 1, "a": 2})).metadata[artifacts.KEY].decode()
    assert raw == json.dumps(json.loads(raw), sort_keys=True, separators=(",", ":"))


def test_the_provenance_of_a_cut_off_file_is_one_clear_error(tmp_path):
    path = tmp_path / "cut.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        artifacts.read_provenance(path)
