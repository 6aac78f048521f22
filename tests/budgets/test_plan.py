"""The plan of a study: hand arithmetic, totals, warnings, and that it needs nothing but the study's file."""

import csv
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from smelt.artifacts import read_provenance
from smelt.budgets.plan import PLAN, SUMMED, Settings, main, plan_rows, token_bytes, warnings
from smelt.corpus.contexts.tokenizer import token_type
from smelt.errors import UserError
from smelt.spec import load
from smelt.study import load as studies
from smelt.workflow import specs
from tests.end_to_end.conftest import Workspace

FIRST = "architecture scale sparsity tokens training_flops gpu_hours utilisation bytes_per_gpu checkpoint_bytes".split()
MODEL = {"vocabulary": 10, "layers": 1, "hidden_size": 4, "heads": 1, "kv_heads": 1, "head_size": 2, "experts": 2,
         "expert_width": 3, "active_experts": 1}  # fmt: skip
RUN = {"architecture": "baseline", "scale": "H4", "sparsity": "S50", "model": MODEL, "seeds": [["baseline-H4-S50", 0]],
       "batch_contexts": 2, "steps": 10, "branch_steps": [5, 10], "decay_steps": 2}  # fmt: skip
TINY = {"attention_keys": 5, "context": 8, "shard_contexts": 16, "text_megabytes": 0.001, "peak_flops": 1000.0,
        "utilisation": 0.5, "memory_bytes": 2136.0, "runs": [RUN]}  # fmt: skip


def planned(**changes):
    return plan_rows(load(Settings, TINY | changes))


@pytest.fixture(scope="module")
def paper():
    settings = specs.plan(studies.read(studies.find("paper")))
    return settings, plan_rows(settings)


def test_by_hand():
    row, total = planned()
    # Forward 2 x (32 of attention + 8 of the router + 36 of an expert) + 4 x 2 x 5 of the context = 192.
    assert (row["tokens"], row["stable_tokens"], row["decay_tokens"]) == (224, 160, 64)
    assert row["training_flops"] == 3 * 192 * 224
    assert row["head_flops"] == 3 * 2 * 40 * 224
    assert row["gpu_hours"] == pytest.approx((129024 + 53760) / (1000 * 0.5 * 3600))
    assert row["endpoint_tokens"] == 192
    assert (row["first_endpoint_flops"], row["last_endpoint_flops"]) == (576 * 112, 576 * 192)
    # 124 parameters and 40 of the embedding.
    assert (row["model_bytes"], row["state_bytes"]) == (4 * 164, 16 * 164)
    assert row["checkpoint_bytes"] == 2 * 4 * 164 + 12 * 164
    assert (row["activation_bytes"], row["checkpointed_bytes"], row["logit_bytes"]) == (8 * 94, 8 * 102, 8 * 40)
    assert (row["gpus"], row["bytes_per_gpu"]) == (3, 816 + 320 + 875)
    # 20 and 4 contexts: two shards and one, a byte a token.
    assert (row["corpus_tokens"], row["corpus_bytes"]) == (192, 3 * 16 * 8)
    # Two contexts and two experts go into one or two, which do not hold it.
    assert row["sharded_gpus"] is row["communication_bytes"] is total["sharded_gpus"] is None
    assert row["reason"] == (
        "2.624e-06 GB of state do not fit into one H200 of 2.136e-06 GB: 3 at the least; "
        "sharded_gpus: no number that shares contexts and experts evenly holds it"
    )
    assert total["reason"] == "1 of 1 runs do not fit into one H200"


def test_totals():
    large = RUN | {"architecture": "smelt", "model": MODEL | {"experts": 8}, "seeds": [["a", 0], ["b", 1]]}
    *rows, total = planned(runs=[RUN, large | {"steps": 20, "branch_steps": [5, 20]}])
    assert [row["run"] for row in rows] == ["baseline-H4-S50", "a", "b"]
    assert (total["architecture"], total["scale"], total["sparsity"], total["run"]) == ("total", None, None, None)
    for name in SUMMED:
        assert total[name] == pytest.approx(sum(row[name] for row in rows))
    for name in ("bytes_per_gpu", "gpus", "state_bytes", "last_endpoint_flops"):
        assert total[name] == max(row[name] for row in rows)
    assert rows[1]["corpus_tokens"] == 8 * (40 + 4)
    assert total["corpus_tokens"] == 2 * rows[1]["corpus_tokens"]  # the runs of a seed read the same streams


def test_spread_by_hand():
    row = planned(memory_bytes=3200.0)[0]
    # Whole weights and gradients of a block without experts (48 parameters) and of embedding and norm (44).
    assert (row["sharded_gpus"], row["sharded_bytes_per_gpu"]) == (2, 816 + 320 + 8 * 92 + 1312)
    # One context each, of 8 tokens: weights twice (root once) and gradients once, by half; rows of one choice, 6 ways.
    assert row["communication_bytes"] == 4 * (3 * 48 + 2 * 44) // 2 + 2 * 4 * 8 * 6 // 2
    assert row["gathered_communication_bytes"] == 4 * (3 * 120 + 2 * 44) // 2


def test_checkpoints_kept():
    assert planned(checkpoints_kept=3)[0]["checkpoint_bytes"] == 2 * 4 * 164 + 3 * 12 * 164
    # Each of two decays as a job of its own leaves from a checkpoint that is kept.
    assert planned(branch_jobs=True)[0]["checkpoint_bytes"] == 2 * (4 + 12) * 164 + 12 * 164


def test_too_little_text():
    row, total = planned(text_megabytes=0.0005, memory_bytes=1e6)
    message = (
        "the corpus is too small: 0.0005 MB of text, at 3 bytes a token (assumed), give about 135 of the 160 tokens of "
        "the stable stream and 23.7 of the 32 tokens of the decay stream"
    )
    assert row["reason"] == total["reason"] == message
    assert warnings(load(Settings, TINY | {"text_megabytes": 0.0005})) == [message]
    enough = planned(memory_bytes=1e6)
    assert [row["reason"] for row in enough] == [None, None]


def test_an_unknown_text():
    row, total = planned(text_megabytes=0.0, memory_bytes=1e6)
    assert row["reason"] is None
    assert "whether the corpus suffices for 192 tokens" in total["reason"]
    assert warnings(load(Settings, TINY | {"text_megabytes": 0.0})) == []


def test_activations_that_fit_nowhere():
    row, total = planned(memory_bytes=1000.0)
    assert row["gpus"] is row["bytes_per_gpu"] is total["bytes_per_gpu"] is None
    assert row["reason"].startswith("bytes_per_gpu: the activations and logits of one context do not fit")
    assert total["reason"].endswith("bytes_per_gpu, gpus: 1 of 1 runs have none")


def test_no_runs():
    with pytest.raises(UserError, match="trains no run"):
        planned(runs=[])


def test_the_papers_study(paper):
    settings, (*rows, total) = paper
    assert len(rows) == 32
    assert {(row["tokens"], row["endpoint_tokens"]) for row in rows} == {(265601155072, 215599808512)}
    sparse = [row for row in rows if row["sparsity"] != "S0"]
    assert min(row["first_endpoint_flops"] for row in sparse) == pytest.approx(1.296e19, rel=5e-4)
    assert max(row["last_endpoint_flops"] for row in sparse) == pytest.approx(2.225e21, rel=5e-4)
    # 1.6B at S97: 53.9 x 10^9 parameters and the embedding, 16 bytes each.
    largest = next(row for row in rows if row["run"] == "baseline-1.6B-S97")
    assert largest["state_bytes"] == pytest.approx(16 * 54.2e9, rel=1e-3)
    assert (largest["gpus"], total["gpus"]) == (7, 7)
    assert (largest["sharded_gpus"], total["sharded_gpus"]) == (8, 8)  # 256 contexts and 336 experts
    assert largest["communication_bytes"] == pytest.approx(1.25e12, rel=5e-3)
    assert largest["gathered_communication_bytes"] == pytest.approx(2.42e13, rel=5e-3)
    assert all(row["sharded_bytes_per_gpu"] <= settings.memory_bytes for row in rows)
    assert "do not fit into one H200 of 141 GB: 7 at the least" in largest["reason"]
    assert all(row["bytes_per_gpu"] <= settings.memory_bytes for row in rows)
    assert next(row for row in rows if row["run"] == "smelt-200M-S97")["gpus"] == 1
    assert total["corpus_bytes"] == pytest.approx(4 * 215599808512, rel=2e-3)  # whole shards
    assert warnings(settings)[0].startswith("the corpus is too small: 161 MB of text")
    assert all("the corpus is too small" in row["reason"] for row in [*rows, total])


@pytest.mark.parametrize("name", ["desk", "hour", "tune", "tune_hour", "smoke"])
def test_studies_whose_text_suffices(name):
    found = studies.read(studies.find(name))
    *rows, _ = plan_rows(specs.plan(found))
    assert sorted(row["run"] for row in rows) == sorted(run.id for run in found.trained)
    assert [row["reason"] for row in rows] == [None] * len(rows)
    for row in rows:
        contexts = found.runs[row["run"]].contexts
        assert row["stable_tokens"] == contexts["stable"] * 4096
        assert row["corpus_tokens"] == sum(contexts.values()) * 4096


def test_text_that_is_asked_for_or_all_there_is(tmp_path):
    config = yaml.safe_load(studies.find("smoke").read_text())
    for asked, held, told in [(1.5, 0, 1.5), (0, 7, 7), (9, 7, 7), (0, 0, 0)]:
        config["corpus"]["megabytes"], config["cost_estimate"] = asked, {"text_megabytes": held}
        path = tmp_path / "variant.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        assert specs.plan(studies.read(path)).text_megabytes == told


@pytest.mark.parametrize("vocabulary", [256, 257, 1024, 65536, 65537, 128256])
def test_tokens_are_stored_as_the_corpus_stores_them(vocabulary):
    assert token_bytes(vocabulary) == token_type(vocabulary).itemsize


def test_the_command_twice(tmp_path: Path, capsys):
    spec = json.dumps(TINY | {"text_megabytes": 0.0005})
    for name in ("a", "b"):
        main(["--spec", spec, "--csv", str(tmp_path / f"{name}.csv"), "--parquet", str(tmp_path / f"{name}.parquet")])
    for kind in ("csv", "parquet"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert capsys.readouterr().err.startswith("warning: the corpus is too small")
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == PLAN.names
    assert rows[0][: len(FIRST)] == FIRST
    assert [row[0] for row in rows[1:]] == ["baseline", "total"]
    assert read_provenance(tmp_path / "a.parquet")["spec"]["peak_flops"] == 1000.0


def test_a_clean_clone_plans_the_papers_study_and_fetches_nothing(tmp_path):
    clone = Workspace.cloned(tmp_path / "clone", "paper")
    environment = clone.environment() | {"SMELT_CACHE": str(tmp_path / "cache")}
    command = clone.command("results/paper/tables/plan.csv", "--cores", "1")
    done = subprocess.run(
        command, cwd=clone.folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert "1 of 1 steps" in done.stdout + done.stderr
    assert "warning: the corpus is too small: 161 MB" in done.stdout + done.stderr
    assert not (tmp_path / "cache").exists()
    tables = clone.results / "tables"
    assert sorted(path.name for path in tables.iterdir()) == ["plan.csv", "plan.parquet"]
    assert read_provenance(tables / "plan.parquet")["inputs"] == {}


def test_a_run_is_told_once_for_all_its_seeds(tmp_path):
    config = yaml.safe_load(studies.find("smoke").read_text()) | {"seeds": [0, 2]}
    path = tmp_path / "variant.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    found = studies.read(path)
    (first, *_) = specs.plan(found).runs
    assert first.seeds == (("baseline-H16-S85", 0), ("baseline-H16-S85-seed2", 2))
    assert first.model == found.runs["baseline-H16-S85"].model
