"""Scores of continuations: their values, their bits, and what is kept of them."""

import fcntl
import json
import math
import random

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from smelt.artifacts import read_provenance, table, write_table
from smelt.errors import UserError
from smelt.evaluation.prompts.requests import REQUESTS
from smelt.evaluation.scoring import cache, score
from smelt.evaluation.scoring.endpoint import read_model
from smelt.evaluation.scoring.log_likelihood import Scored, score_row, score_trees
from smelt.evaluation.scoring.trees import Tree
from smelt.model.decode import Cache, for_decoding, greedy
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from smelt.spec import canonical_json, digest

SHAPE = {
    "vocabulary": 64, "layers": 3, "hidden_size": 32, "heads": 2, "kv_heads": 1, "head_size": 16, "experts": 12,
    "expert_width": 8, "active_experts": 2, "loop_start": 1, "loop_length": 1, "visits": 2, "tied_embeddings": False,
}  # fmt: skip
PRECISIONS = [torch.bfloat16, torch.float32]


def network(precision=torch.bfloat16, seed=0):
    model = Transformer(ModelSettings(**SHAPE), precision)
    initialise(model, seed)
    return for_decoding(model)


def trees(count=30, seed=0, contexts=(1, 5, 40, 300), tails=(1, 1, 2, 9, 40)):
    draw = random.Random(seed)

    def tokens(length):
        return [draw.randrange(64) for _ in range(length)]

    return [
        Tree(tokens(draw.choice(contexts)), [tokens(draw.choice(tails)) for _ in range(draw.choice([1, 2, 4]))])
        for _ in range(count)
    ]


def plainly(model, context, continuation):
    """Log-probabilities of each token by one pass over the whole text and a softmax over all positions."""
    text = torch.tensor([*context, *continuation])
    with torch.no_grad():
        predicted = model.logits(model(text, [len(text)]).hidden).double().log_softmax(-1)
    found = predicted[len(context) - 1 : -1]
    right = found.gather(1, torch.tensor(continuation)[:, None]).squeeze(1)
    return right.sum().item(), bool((found.argmax(-1) == torch.tensor(continuation)).all())


def test_a_tree_s_continuations_score_as_each_does_alone():
    model = network(torch.float32)
    for tree, found in zip(trees(), score_trees(model, trees(), 512), strict=True):
        assert len(found) == len(tree.continuations)
        for tokens, one in zip(tree.continuations, found, strict=True):
            expected, likeliest = plainly(model, tree.context, tokens)
            assert one.log_probability == pytest.approx(expected, abs=1e-4)
            assert one.greedy == likeliest


def test_bits_do_not_depend_on_order_rows_or_company():
    model, asked = network(), trees()
    found = list(score_trees(model, asked, 512))
    assert found == list(score_trees(model, asked[::-1], 4096))[::-1]
    assert found == list(score_trees(model, asked, 1))  # each alone in its row
    assert found[3:9] == score_row(model, asked[3:9])


def test_windows_and_chunks_do_not_show(monkeypatch):
    model, asked = network(), trees()
    found = list(score_trees(model, asked))
    monkeypatch.setattr("smelt.evaluation.scoring.log_likelihood.WINDOW", 7)
    monkeypatch.setattr("smelt.evaluation.scoring.log_likelihood.CHUNK", 64 * 3)
    assert found == list(score_trees(model, iter(asked)))
    assert list(score_trees(model, [])) == []


def test_where_a_text_is_split_matters_and_its_parts_add_up():
    model = network()
    (whole,), (first,), (second,) = score_trees(
        model, [Tree([1, 2], [[3, 4]]), Tree([1, 2], [[3]]), Tree([1, 2, 3], [[4]])]
    )
    assert whole.log_probability == pytest.approx(first.log_probability + second.log_probability, abs=1e-12)
    assert second.log_probability != whole.log_probability


def test_a_model_that_knows_nothing_gives_every_token_the_same_and_the_first_is_the_likeliest():
    model = network()
    model.head.zero_()
    (found,) = score_trees(model, [Tree([5, 6], [[0], [0, 0, 0], [0, 1], [63]])])
    assert [one.log_probability for one in found] == pytest.approx([-n * math.log(64) for n in (1, 3, 2, 1)], rel=1e-6)
    assert [one.greedy for one in found] == [True, True, False, False]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_greedy_match_is_what_greedy_decoding_writes(precision):
    model = network(precision)
    contexts = [tree.context for tree in trees(12)]
    written = []
    for context in contexts:
        cache = Cache(model.settings, len(context) + 4, dtype=torch.float32)
        written.append(greedy(model, torch.tensor([context]), 4, cache)[0].tolist())
    wrong = [[*own[:3], (own[3] + 1) % 64] for own in written]
    asked = [Tree(context, both) for context, *both in zip(contexts, written, wrong, strict=True)]
    assert [[one.greedy for one in found] for found in score_trees(model, asked)] == [[True, False]] * 12


# The command


def request(tree, task="quiz", item=0, **values):
    tokens = [list(tree.context), [list(one) for one in tree.continuations]]
    defaults = {
        "tree": digest(canonical_json(tokens))[:32], "task": task, "shots": 2, "seed": 0, "item": item,
        "item_id": f"{item:016x}", "category": "", "option": 0, "gold": 0, "context": tokens[0],
        "continuations": tokens[1], "characters": [3] * len(tokens[1]), "bytes": [4] * len(tokens[1]),
        "demonstrations": [7, 8], "truncated": 0, "dropped": 0, "differing": False,
    }  # fmt: skip
    return defaults | values


class Bench:
    """Files of a run and its requests, and the command on them."""

    def __init__(self, folder):
        self.folder = folder
        self.models = [self.model(branch, branch) for branch in (1, 2)]

    def model(self, branch, seed):
        path = self.folder / f"branch-{branch}.safetensors"
        weights = Transformer(ModelSettings(**SHAPE))
        initialise(weights, seed)
        about = json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": branch, "branch_step": 10 * branch})
        save_file(weights.state_dict(), path, {"endpoint": about})
        return path

    def requests(self, rows, name="requests.parquet"):
        write_table(table(rows, REQUESTS), self.folder / name, {})
        return self.folder / name

    def score(self, every=None, final=None, state="state", out="scores.parquet", precision="bfloat16"):
        arguments = ["--spec", json.dumps({"precision": precision, "context": 512})]
        arguments += ["--models", *map(str, self.models), "--state", str(self.folder / state)]
        arguments += [
            "--all-endpoints",
            *([str(every)] if every else []),
            "--last-endpoint",
            *([str(final)] if final else []),
        ]
        score.main([*arguments, "--out", str(self.folder / out)])
        return self.folder / out


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
def counted(monkeypatch):
    """The trees that were computed, in the order of the questions."""
    computed = []

    def counting(model, asked, context):
        computed.extend(asked)
        return score_trees(model, asked, context)

    monkeypatch.setattr(score, "score_trees", counting)
    return computed


def many(count=40, seed=0):
    return [request(tree, item=item) for item, tree in enumerate(trees(count, seed, contexts=(3, 30, 90)))]


def test_rows_say_what_was_asked_and_what_came_of_it(bench):
    quiz = request(Tree([1, 2, 3], [[4], [5, 6]]), gold=1, truncated=5, dropped=1)
    schema = [
        request(Tree([option], [[9, 9]]), "wino", 3, shots=0, seed=None, option=option, gold=1, demonstrations=[])
        for option in (0, 1)
    ]
    word = request(Tree([1, 2], [[7]]), "word", 4, category="x")
    path = bench.score(bench.requests([quiz, *schema, word]))
    found = pq.read_table(path)
    rows = found.to_pylist()
    assert found.schema.names == score.SCORES.names
    assert all(field.metadata[b"description"] for field in found.schema)
    assert set(read_provenance(path)["inputs"]) == {"branch-1.safetensors", "branch-2.safetensors", "requests.parquet"}
    assert [(row["branch"], row["branch_step"]) for row in rows] == [(1, 10)] * 5 + [(2, 20)] * 5
    assert {row["part"] for row in rows} == {"all_endpoints"}
    assert [(row["task"], row["item"], row["choice"], row["gold"], row["tokens"]) for row in rows[:5]] == [
        ("quiz", 0, 0, False, 1), ("quiz", 0, 1, True, 2), ("wino", 3, 0, False, 2), ("wino", 3, 1, True, 2),
        ("word", 4, 0, True, 1),
    ]  # fmt: skip
    assert [(row["shots"], row["seed"]) for row in rows[1:4]] == [(2, 0), (0, None), (0, None)]
    assert [rows[1][name] for name in ("truncated", "dropped", "demonstrations", "characters", "bytes")] == [
        5, 1, [7, 8], 3, 4,
    ]  # fmt: skip
    assert (rows[4]["category"], rows[4]["item_id"]) == ("x", f"{4:016x}")
    model, _ = read_model(bench.models[1], torch.bfloat16)
    assert rows[5]["log_probability"] == next(score_trees(model, [Tree([1, 2, 3], [[4], [5, 6]])]))[0].log_probability
    assert rows[5]["log_probability"] == pytest.approx(plainly(model, [1, 2, 3], [4])[0], abs=1e-3)


def test_final_requests_are_for_the_last_endpoint_and_shared_trees_are_computed_once(bench, counted):
    rows = many()
    every, final = bench.requests(rows[:10]), bench.requests([*rows, *rows[:5]], "final.parquet")
    found = pq.read_table(bench.score(every, final)).to_pylist()
    asked = [(row["part"], row["branch"]) for row in found]
    assert list(dict.fromkeys(asked)) == [("all_endpoints", 1), ("all_endpoints", 2), ("last_endpoint", 2)]
    assert asked.count(("all_endpoints", 1)) == asked.count(("all_endpoints", 2))
    assert len(counted) == 10 + 40
    values = {(row["part"], row["item"], row["choice"]): row["log_probability"] for row in found if row["branch"] == 2}
    for part, item, choice in values:
        if part == "all_endpoints":
            assert values["all_endpoints", item, choice] == values["last_endpoint", item, choice]
    assert {row["part"] for row in pq.read_table(bench.score(None, final)).to_pylist()} == {"last_endpoint"}


def test_a_killed_job_goes_on_and_writes_the_same_bytes(bench, counted, monkeypatch):
    requests = bench.requests(many())
    whole = bench.score(requests, state="other", out="whole.parquet").read_bytes()
    computing, counted[:] = score.score_trees, []

    def dying(model, asked, context):
        for number, scores in enumerate(computing(model, asked, context)):
            if number == 25:
                raise KeyboardInterrupt
            yield scores

    monkeypatch.setattr(score, "score_trees", dying)
    with pytest.raises(KeyboardInterrupt):
        bench.score(requests)
    assert not (bench.folder / "scores.parquet").exists()
    monkeypatch.setattr(score, "score_trees", computing)
    counted.clear()
    out = bench.score(requests)
    assert len(counted) == 15 + 40  # the rest of the first endpoint, and the second
    assert out.read_bytes() == whole


def test_more_items_cost_what_is_new_and_give_the_bytes_of_a_fresh_job(bench, counted):
    rows = many()
    bench.score(bench.requests(rows[::3]))
    assert len(counted) == 28
    counted.clear()
    larger = bench.requests(rows)
    grown = bench.score(larger)
    assert len(counted) == 80 - 28
    assert grown.read_bytes() == bench.score(larger, state="fresh", out="fresh.parquet").read_bytes()
    counted.clear()
    bench.score(larger)
    assert not counted


def test_a_changed_endpoint_meets_no_old_score(bench, counted):
    requests = bench.requests(many(10))
    before = pq.read_table(bench.score(requests)).to_pylist()
    path = bench.models[0]
    weights = load_file(path)
    weights["layers.1.w2"][3] *= 1.5
    save_file(
        weights,
        path,
        {"endpoint": json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 1, "branch_step": 10})},
    )
    counted.clear()
    after = pq.read_table(bench.score(requests)).to_pylist()
    assert len(counted) == 10
    changed = {row["branch"] for row, old in zip(after, before, strict=True) if row != old}
    assert changed == {1}
    names = sorted(one.name[:9] for one in (bench.folder / "state").glob("*.sqlite"))
    assert names == ["branch-1-", "branch-2-"]  # those of the old weights are gone


def test_precision_is_part_of_what_is_kept(bench, counted):
    requests = bench.requests(many(5))
    bench.score(requests)
    bench.score(requests, precision="float32")
    assert len(counted) == 20


def test_scores_that_are_not_finite_name_the_item_and_are_not_kept(bench, counted):
    weights = load_file(bench.models[1])
    weights["head"][7] = torch.nan
    save_file(
        weights,
        bench.models[1],
        {"endpoint": json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 2, "branch_step": 20})},
    )
    requests = bench.requests([request(Tree([1], [[2]]), "quiz", 3)])
    for _ in range(2):
        with pytest.raises(UserError, match=r"branch-2.*task quiz, item 3 \(0000000000000003\).*nan"):
            bench.score(requests)
        assert not (bench.folder / "scores.parquet").exists()
    assert len(counted) == 3  # the good endpoint's once, the bad one's twice


def test_a_token_that_the_model_does_not_know_names_the_item(bench):
    with pytest.raises(UserError, match=r"task quiz, item 5.*token 64 is none of the endpoint's 64"):
        bench.score(bench.requests([request(Tree([1], [[2, 64]]), item=5)]))


def test_a_folder_in_use_is_refused(bench):
    requests = bench.requests(many(2))
    (bench.folder / "state").mkdir()
    with open(bench.folder / "state" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process scores this run"):
            bench.score(requests)
    bench.score(requests)


def test_damaged_scores_are_one_clear_error(bench):
    requests = bench.requests(many(2))
    bench.score(requests)
    for path in (bench.folder / "state").glob("branch-1-*"):
        path.write_bytes(b"no database at all" * 100)
    with pytest.raises(UserError, match=r"branch-1-.*delete it and run again"):
        bench.score(requests)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_bytes(path.read_bytes()[:300]), "not a readable file of requests"),
        (lambda path: pq.write_table(pq.read_table(path, columns=["task"]), path), "not a readable file of requests"),
    ],
)
def test_requests_that_cannot_be_read_are_one_clear_error(bench, damage, message):
    path = bench.requests(many(2))
    damage(path)
    with pytest.raises(UserError, match=message):
        list(score.groups(str(path)))


def test_models_of_different_runs_are_an_error(bench):
    about = json.dumps({"run": "smelt-H24-S85", "model": SHAPE, "branch": 2, "branch_step": 20})
    save_file(load_file(bench.models[1]), bench.models[1], {"endpoint": about})
    with pytest.raises(UserError, match=r"branch-2\.safetensors.*run smelt-H24-S85, expected run smelt-H16-S85"):
        bench.score(bench.requests(many(2)))
    assert not (bench.folder / "scores.parquet").exists()


def test_nothing_to_score_is_an_error_and_no_requests_are_no_rows(bench):
    with pytest.raises(UserError, match="nothing to score"):
        bench.score()
    assert pq.read_table(bench.score(bench.requests([]))).num_rows == 0


def test_a_kill_loses_what_was_not_saved_and_nothing_else(tmp_path):
    one, other = [Scored(-1.5, True), Scored(-0.1, False)], [Scored(-7.0, False)]
    base = cache.ScoreCache(tmp_path, 1, "a")
    base.add("x", one)
    base.save()
    base.add("y", other)
    base.base.rollback()  # as the next opening does with what a kill left
    base.base.close()
    again = cache.ScoreCache(tmp_path, 1, "a")
    assert again.find(["x", "y", "z"]) == {"x": one}
    again.add("y", other)
    again.close()
    assert cache.ScoreCache(tmp_path, 1, "a").find(["y"]) == {"y": other}


def test_another_branch_keeps_its_scores(tmp_path):
    for branch, identity in ((1, "a"), (11, "a"), (1, "b")):
        cache.ScoreCache(tmp_path, branch, identity).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["branch-1-b.sqlite", "branch-11-a.sqlite"]


def test_a_full_disk_is_one_clear_error(tmp_path):
    base = cache.ScoreCache(tmp_path, 1, "a")
    base.base.execute("COMMIT")
    base.base.execute(f"PRAGMA max_page_count = {base.base.execute('PRAGMA page_count').fetchone()[0]}")
    base.base.execute("BEGIN")
    some = [Scored(-1.0, False)] * 1000
    with pytest.raises(UserError, match="the disk is full; free some space"):
        base.add("x", some)
    base.close()
