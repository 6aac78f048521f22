"""Held-out losses: their sums, their rows, and models that cannot be read."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.evaluation.scoring.heldout_loss import main, read_model
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise

SHAPE = {
    "vocabulary": 64, "layers": 2, "hidden_size": 16, "heads": 2, "kv_heads": 1, "head_size": 8,
    "experts": 12, "expert_width": 8, "active_experts": 2, "loop_start": 0, "loop_length": 1, "visits": 2,
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    network = Transformer(ModelSettings(**SHAPE))
    initialise(network, 0)
    about = json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 2, "branch_step": 7})
    save_file(network.state_dict(), tmp_path / "branch-2.safetensors", {"endpoint": about})
    return tmp_path / "branch-2.safetensors"


@pytest.fixture
def heldout(tmp_path):
    tokens = torch.randint(1, 64, (2, 64), generator=torch.Generator().manual_seed(0))
    columns = {
        "tokens": pa.array(tokens.to(torch.uint8).tolist(), pa.list_(pa.uint8(), 64)),
        "segments": [[10, 50, 4], [30]],  # the second context is partly filled
        "documents": [["a", "b", "c"], ["b"]],
        "sources": [["x", "x", "y"], ["x"]],
        "categories": [["Code", "Code", "Web"], ["Code"]],
        "pieces": [[0, 0, 0], [1]],
        "document_tokens": [[9, 78, 3], [78]],
    }
    pq.write_table(pa.table(columns), tmp_path / "heldout.parquet")
    return tmp_path / "heldout.parquet", tokens


def score(model, heldout, out, precision="float32"):
    main(
        [
            "--spec",
            json.dumps({"precision": precision}),
            "--models",
            str(model),
            "--heldout",
            str(heldout),
            "--out",
            str(out),
        ]
    )
    return pq.read_table(out).to_pylist()


def test_each_segment_has_the_summed_loss_of_its_document_alone(model, heldout, tmp_path):
    path, tokens = heldout
    rows = score(model, path, tmp_path / "losses.parquet")
    assert [(row["document"], row["piece"], row["source"], row["tokens"], row["document_tokens"]) for row in rows] == [
        ("a", 0, "x", 9, 9), ("b", 0, "x", 49, 78), ("c", 0, "y", 3, 3), ("b", 1, "x", 29, 78),
    ]  # fmt: skip
    assert {(row["branch"], row["branch_step"]) for row in rows} == {(2, 7)}
    network, _ = read_model(model, torch.float32)
    parts = [tokens[0, :10], tokens[0, 10:60], tokens[0, 60:], tokens[1, :30]]
    for row, part in zip(rows, parts, strict=True):
        with torch.no_grad():
            logits = network.logits(network(part, [len(part)]).hidden)
        expected = F.cross_entropy(logits[:-1], part[1:], reduction="sum").item()
        assert row["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_same_bytes_twice_with_their_origin(model, heldout, tmp_path):
    score(model, heldout[0], tmp_path / "one.parquet", "bfloat16")
    score(model, heldout[0], tmp_path / "two.parquet", "bfloat16")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    origin = read_provenance(tmp_path / "one.parquet")
    assert set(origin["inputs"]) == {"branch-2.safetensors", "heldout.parquet"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "truncated or no safetensors file"),
        (lambda path: save_file({"x": torch.zeros(1)}, path), "a foreign model"),
        (
            lambda path: save_file(
                {"x": torch.zeros(1)}, path, {"endpoint": json.dumps({"model": SHAPE, "branch": 1, "branch_step": 1})}
            ),
            "the model does not name its run.*train the run again",
        ),
        (
            lambda path: save_file(
                {"x": torch.zeros(1)},
                path,
                {"endpoint": json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 1, "branch_step": 1})},
            ),
            "weights do not fit",
        ),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_a_model_that_cannot_be_read_is_one_clear_error(model, heldout, tmp_path, damage, message):
    damage(model)
    with pytest.raises(UserError, match=message):
        score(model, heldout[0], tmp_path / "losses.parquet")
    assert not (tmp_path / "losses.parquet").exists()


def test_models_of_different_runs_are_an_error(model, heldout, tmp_path):
    other, out = tmp_path / "branch-3.safetensors", tmp_path / "losses.parquet"
    about = json.dumps({"run": "smelt-H24-S85", "model": SHAPE, "branch": 3, "branch_step": 9})
    save_file(read_model(model, torch.float32)[0].state_dict(), other, {"endpoint": about})
    arguments = ["--spec", '{"precision": "float32"}', "--heldout", str(heldout[0]), "--out", str(out)]
    with pytest.raises(UserError, match=r"branch-3\.safetensors.*run smelt-H24-S85, expected run smelt-H16-S85"):
        main([*arguments, "--models", str(model), str(other)])
    assert not out.exists()


def test_a_loss_that_is_not_finite_names_the_document(model, heldout, tmp_path):
    network, _ = read_model(model, torch.float32)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    weights["norm"][:] = torch.nan
    about = json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 2, "branch_step": 7})
    save_file(weights, model, {"endpoint": about})
    with pytest.raises(UserError, match=r"document a \(x\) is nan"):
        score(model, heldout[0], tmp_path / "losses.parquet")
