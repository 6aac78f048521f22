"""Held-out losses: their sums, their rows, and models that cannot be read."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from smelt.artifacts import read_provenance
from smelt.errors import UserError
from smelt.evaluation.scoring import heldout_loss
from smelt.evaluation.scoring.heldout_loss import evaluate, main, read_model, segment_losses
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


NETWORKS = {
    "baseline": {"loop_length": 0, "visits": 1},
    "looped": {},
    "looped, many experts": {"hidden_size": 44, "experts": 300, "expert_width": 24, "visits": 3},
    "top 8 of an odd width": {"hidden_size": 13, "experts": 40, "expert_width": 12, "active_experts": 8},
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_contexts_of_one_pass_have_the_losses_that_each_has_alone(name, precision):
    network = Transformer(ModelSettings(**{**SHAPE, **NETWORKS[name]}), precision)
    initialise(network, 1)
    contexts = packed_contexts(count=70, context=128)
    alone = [loss for context in contexts for loss in segment_losses(network, [context])]
    about = {"run": "r", "branch": 1, "branch_step": 1}
    rows = evaluate("model", network, about, contexts)
    assert [row["loss"] for row in rows] == alone
    assert [row["document"] for row in rows] == [name for context in contexts for name in context["documents"]]


@pytest.mark.parametrize(
    ("context", "precision", "expected"),
    [
        (128, torch.bfloat16, [32, 32, 6]),
        (3000, torch.bfloat16, [1, 1]),
        (5000, torch.bfloat16, [1, 1]),
        (128, torch.float32, [1, 1]),  # whose products round by their number of rows
    ],
)
def test_a_pass_takes_as_many_contexts_as_fit_4096_places(monkeypatch, context, precision, expected):
    network = Transformer(ModelSettings(**SHAPE), precision)
    initialise(network, 1)
    passes = []
    monkeypatch.setattr(
        heldout_loss, "segment_losses", lambda model, rows: passes.append(len(rows)) or segment_losses(model, rows)
    )
    about = {"run": "r", "branch": 1, "branch_step": 1}
    rows = evaluate("model", network, about, packed_contexts(sum(expected), context))
    assert passes == expected
    assert len(rows) >= sum(expected)


def packed_contexts(count, context):
    """Rows of a held-out sample: segments of 2 to 60 tokens, the last of a context cut off at random."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(count):
        lengths = generator.integers(2, 61, context).tolist()
        used = next(i for i in range(context) if sum(lengths[: i + 1]) > context - 61)
        segments = lengths[: 1 + generator.integers(used + 1)]
        names = [f"{number}/{i}" for i in range(len(segments))]
        rows.append(
            {
                "tokens": generator.integers(0, 64, context).tolist(),
                "segments": segments,
                "documents": names,
                "sources": ["x"] * len(names),
                "categories": ["Web"] * len(names),
                "pieces": [0] * len(names),
                "document_tokens": [length - 1 for length in segments],
            }
        )
    return rows


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
