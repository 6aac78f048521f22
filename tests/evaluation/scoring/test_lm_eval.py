"""Texts scored and continued by one endpoint, and the adapter by which lm_eval asks for them."""

import json
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from smelt.errors import UserError
from smelt.evaluation.scoring import lm_eval, texts
from smelt.evaluation.scoring.lm_eval import SmeltLM, options
from smelt.evaluation.scoring.texts import continued, last, log_likelihoods, rolling, split, windows
from smelt.model.decode import for_decoding
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Transformer, initialise
from tests.evaluation.prompting import ENCODERS, byte_level

SHAPE = {
    "vocabulary": 400, "layers": 3, "hidden_size": 32, "heads": 2, "kv_heads": 1, "head_size": 16, "experts": 8,
    "expert_width": 8, "active_experts": 2, "loop_start": 1, "loop_length": 1, "visits": 2,
}  # fmt: skip
ENCODER = ENCODERS["byte level"]
LENGTH = 64
STORY = "Question: Which of the two is the larger one? Answer: the sun, as the stone is small."


def network(seed=0):
    model = Transformer(ModelSettings(**SHAPE))
    initialise(model, seed)
    return for_decoding(model)


MODEL = network()


def tokens(text: str, encoder=ENCODER) -> list[int]:
    return encoder.tokenizer.encode(text, add_special_tokens=False).ids


def plainly(fed: list[int], scored: int) -> float:
    """Log-probability of the last `scored` of the tokens, by one pass over them all."""
    text = torch.tensor(fed)
    with torch.no_grad():
        predicted = MODEL.logits(MODEL(text, [len(text)]).hidden).double().log_softmax(-1)
    return sum(predicted[place - 1, fed[place]].item() for place in range(len(fed) - scored, len(fed)))


@pytest.fixture
def fed(monkeypatch):
    """The trees that were scored."""
    seen = []

    def score_trees(model, trees, context):
        trees = list(trees)
        seen.extend(
            ([int(t) for t in tree.context], [[int(t) for t in one] for one in tree.continuations]) for tree in trees
        )
        return real(model, trees, context)

    real = texts.score_trees
    monkeypatch.setattr(texts, "score_trees", score_trees)
    return seen


# What a context and a continuation are, in tokens


@pytest.mark.parametrize("name", ENCODERS)
@given(context=st.sampled_from([STORY, "", "A", "Answer:", "the stone\n"]), blanks=st.sampled_from(["", " ", " \n "]),
       continuation=st.sampled_from([" A", " the sun", "one", "\n two", "stone"]))  # fmt: skip
def test_nothing_of_a_text_is_lost_where_it_is_split(name, context, blanks, continuation):
    encoder = ENCODERS[name]
    before, after = split(encoder, context + blanks, continuation)
    assert len(after)
    stem = (context + blanks).rstrip()
    assert before.tolist() == tokens(stem, encoder)
    tail = (context + blanks)[len(stem) :] + continuation
    assert [*before.tolist(), *after.tolist()] in (
        tokens(stem + tail, encoder),
        [*tokens(stem, encoder), *tokens(tail, encoder)],
    )


def test_a_token_across_the_join_leaves_the_continuation_its_own():
    """Tokens of ": A" as one would leave nothing to score."""
    encoder = ENCODERS["spanning"]
    joined, alone = tokens("Answer: A", encoder), tokens("Answer:", encoder)
    assert joined[: len(alone)] != alone  # so the case is met
    before, after = split(encoder, "Answer:", " A")
    assert (before.tolist(), after.tolist()) == (alone, tokens(" A", encoder))


def test_a_special_token_that_a_text_spells_is_text():
    before, after = split(ENCODER, "<|bos|> a", " <|bos|>")
    assert ENCODER.bos not in [*before.tolist(), *after.tolist()]


def test_a_continuation_without_a_token_is_an_error():
    with pytest.raises(UserError, match=r"no token for the continuation '' of 'a'"):
        split(ENCODER, "a", "")


# Log-likelihoods


PAIRS = [(STORY, " the sun"), ("", "Answer"), (STORY, " A"), ("Answer: ", "A or B"), (STORY, " the sun")]


def test_scores_are_those_of_each_text_alone():
    found = log_likelihoods(MODEL, ENCODER, PAIRS, LENGTH)
    for (context, continuation), one in zip(PAIRS, found, strict=True):
        before, after = (part.tolist() for part in split(ENCODER, context, continuation))
        assert one.log_probability == pytest.approx(plainly([ENCODER.bos, *before, *after], len(after)), abs=1e-3)


def test_equal_contexts_and_pairs_are_computed_once(fed):
    found = log_likelihoods(MODEL, ENCODER, PAIRS, LENGTH)
    assert [len(continuations) for _, continuations in fed] == [2, 1, 1]
    assert found[0] == found[4]
    assert found == [log_likelihoods(MODEL, ENCODER, [pair], LENGTH)[0] for pair in PAIRS]
    assert log_likelihoods(MODEL, ENCODER, PAIRS[::-1], LENGTH) == found[::-1]
    assert log_likelihoods(MODEL, ENCODER, [], LENGTH) == []


@given(length=st.integers(8, 90))
def test_bos_comes_first_once_and_all_choices_see_one_cut(length):
    choices = [" A", " the sun", " the old bridge"]
    if max(len(tokens(choice)) for choice in choices) > length:
        return
    with pytest.MonkeyPatch.context() as patch:
        seen = []
        patch.setattr(
            texts, "score_trees", lambda model, trees, _: seen.extend(trees) or iter([[texts.Scored(0, True)] * 3])
        )
        log_likelihoods(MODEL, ENCODER, [(STORY, choice) for choice in choices], length)
    ((context, continuations),) = seen
    context = context.tolist()
    assert context[0] == ENCODER.bos
    assert ENCODER.bos not in context[1:]
    longest = max(map(len, continuations))
    whole = tokens(STORY)
    assert len(context) + longest - 1 == min(length, 1 + len(whole) + longest - 1)
    assert context[1:] == whole[len(whole) - len(context) + 1 :]
    assert [one.tolist() for one in continuations] == [tokens(choice) for choice in choices]


def test_what_is_cut_is_counted(capsys):
    log_likelihoods(MODEL, ENCODER, PAIRS, LENGTH)
    assert capsys.readouterr().err == ""
    log_likelihoods(MODEL, ENCODER, PAIRS, 12)
    assert capsys.readouterr().err == "1 of 3 contexts were too long for 12 tokens and lost their start\n"


def test_a_continuation_is_never_cut(fed):
    text = " stone" * 10
    size = len(tokens(text))
    log_likelihoods(MODEL, ENCODER, [(STORY, text)], size)  # room for BOS alone
    assert fed == [([ENCODER.bos], [tokens(text)])]
    with pytest.raises(UserError, match=rf"a continuation does not fit into {size - 1} tokens \(' stone"):
        log_likelihoods(MODEL, ENCODER, [(STORY, text)], size - 1)


def test_no_room_keeps_nothing():
    """A cut of [-0:] would keep everything."""
    assert last(np.arange(5, dtype=np.int32), 0).tolist() == []
    assert last(np.arange(5, dtype=np.int32), 2).tolist() == [3, 4]
    assert last(np.arange(5, dtype=np.int32), -1) is None


@pytest.mark.parametrize("ask", [lambda model: log_likelihoods(model, ENCODER, [(STORY, " A")], LENGTH),
                                 lambda model: rolling(model, ENCODER, [STORY], LENGTH)])  # fmt: skip
def test_a_score_that_is_no_number_is_an_error(ask):
    broken = network()
    broken.norm[0] = math.nan
    with pytest.raises(UserError, match=r"log-likelihood of .* is nan; the weights are broken"):
        ask(broken)


# Whole texts


@given(count=st.integers(0, 60), length=st.integers(2, 20))
def test_windows_show_each_token_once_with_as_much_before_it_as_fits(count, length):
    text = np.arange(count, dtype=np.int32)
    pieces = [(before.tolist(), piece.tolist()) for before, piece in windows(text, length)]
    assert [token for _, piece in pieces for token in piece] == text.tolist()
    for number, (before, piece) in enumerate(pieces):
        assert 1 + len(before) + len(piece) - 1 == min(length, count)
        assert before == list(range(piece[0] - len(before), piece[0]))
        assert before or number == 0


def test_a_text_that_fits_is_scored_as_it_is():
    value, nothing = rolling(MODEL, ENCODER, [STORY, ""], LENGTH)
    whole = [ENCODER.bos, *tokens(STORY)]
    assert value == pytest.approx(plainly(whole, len(whole) - 1), abs=1e-3)
    assert nothing == 0.0


def test_a_longer_text_is_the_sum_of_its_windows(fed):
    (value,) = rolling(MODEL, ENCODER, [STORY], 6)
    assert len(fed) > 3
    assert all(context[0] == ENCODER.bos and ENCODER.bos not in context[1:] for context, _ in fed)
    expected = sum(plainly([*context, *piece], len(piece)) for context, (piece,) in fed)
    assert value == pytest.approx(expected, abs=1e-3)
    with pytest.raises(UserError, match="at least 2"):
        rolling(MODEL, ENCODER, [STORY], 1)


# What is written


def greedily(context: list[int], count: int) -> list[int]:
    """By one pass over the whole text for each token."""
    text = list(context)
    for _ in range(count):
        with torch.no_grad():
            text.append(int(MODEL.logits(MODEL(torch.tensor(text), [len(text)]).hidden[-1:]).argmax()))
    return text[len(context) :]


def test_greedy_decoding_writes_what_its_own_scores_call_the_likeliest():
    written = continued(MODEL, ENCODER, STORY, (), 8, LENGTH)
    expected = greedily([ENCODER.bos, *tokens(STORY)], 8)
    assert written == ENCODER.tokenizer.decode(expected)
    assert continued(MODEL, ENCODER, "", (), 3, LENGTH) == ENCODER.tokenizer.decode(greedily([ENCODER.bos], 3))


def test_it_ends_before_the_first_stop():
    written = continued(MODEL, ENCODER, STORY, (), 8, LENGTH)
    assert len(written) > 4
    for stops in ([written[2:4]], [written[2:4], "", written[4:]], [written[3:], written[2:4]]):
        assert continued(MODEL, ENCODER, STORY, stops, 8, LENGTH) == written[: written.find(written[2:4])]
    assert continued(MODEL, ENCODER, STORY, ["nowhere to be found"], 8, LENGTH) == written


def test_it_ends_where_a_new_text_would_begin(monkeypatch):
    script = iter([*tokens("the"), ENCODER.bos, *tokens("sun")])
    monkeypatch.setattr(texts, "greedy", lambda *_: torch.tensor([[next(script)]]))
    assert continued(MODEL, ENCODER, STORY, (), 8, LENGTH) == "the"
    assert next(script) == tokens("sun")[0]  # no further token was asked for


def test_a_context_leaves_room_for_what_is_written():
    count, length = 8, 20
    whole = tokens(STORY)
    expected = greedily([ENCODER.bos, *whole[len(whole) - (length - count) :]], count)
    assert continued(MODEL, ENCODER, STORY, (), count, length) == ENCODER.tokenizer.decode(expected)
    with pytest.raises(UserError, match="21 new tokens do not fit into 20"):
        continued(MODEL, ENCODER, STORY, (), 21, 20)
    with pytest.raises(UserError, match="0 new tokens"):
        continued(MODEL, ENCODER, STORY, (), 0, 20)


# The adapter


@pytest.fixture
def files(tmp_path):
    """An endpoint and its tokenizer."""
    weights = Transformer(ModelSettings(**SHAPE))
    initialise(weights, 0)
    about = json.dumps({"run": "smelt-H16-S85", "model": SHAPE, "branch": 1, "branch_step": 10})
    save_file(weights.state_dict(), tmp_path / "branch-1.safetensors", {"endpoint": about})
    byte_level(SHAPE["vocabulary"]).save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "branch-1.safetensors"), str(tmp_path / "tokenizer.json")


def asking(*arguments):
    return [SimpleNamespace(args=one) for one in arguments]


def test_the_three_kinds_of_request(files):
    lm = SmeltLM(*files, context=LENGTH)
    scores = log_likelihoods(MODEL, ENCODER, PAIRS, LENGTH)
    assert lm.loglikelihood(asking(*PAIRS)) == [(one.log_probability, one.greedy) for one in scores]
    assert lm.loglikelihood_rolling(asking((STORY,), ("A",))) == rolling(MODEL, ENCODER, [STORY, "A"], LENGTH)
    short, long = {"until": "q", "max_gen_toks": 2}, {"until": ["\n"], "max_gen_toks": 5, "do_sample": False}
    written = lm.generate_until(asking((STORY, short), (STORY, long), (STORY, dict(short))))
    assert written[0] == written[2] == continued(MODEL, ENCODER, STORY, ["q"], 2, LENGTH)
    assert written[1] == continued(MODEL, ENCODER, STORY, ["\n"], 5, LENGTH)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ((), lm_eval.NEW_TOKENS)),
        ({"until": "x"}, (("x",), lm_eval.NEW_TOKENS)),
        ({"until": ["x", "y"], "max_gen_toks": 7, "max_new_tokens": 9}, (("x", "y"), 7)),
        ({"until": None, "max_tokens": 5, "temperature": 0.0}, ((), 5)),
        ({"do_sample": False, "temperature": 1.0}, ((), lm_eval.NEW_TOKENS)),
        ({"do_sample": None, "temperature": None, "num_beams": 1}, ((), lm_eval.NEW_TOKENS)),
    ],
)
def test_what_a_task_asks_of_decoding(given, expected):
    assert options(given) == expected


@pytest.mark.parametrize("given", [{"do_sample": True}, {"temperature": 0.7}, {"num_beams": 4}])
def test_what_is_not_greedy_is_refused(given):
    with pytest.raises(UserError, match=f"asks for .*{next(iter(given))}.*greedy"):
        options(given)


def test_a_foreign_tokenizer_is_refused(files, tmp_path):
    path = tmp_path / "small.safetensors"
    shape = SHAPE | {"vocabulary": 300}
    weights = Transformer(ModelSettings(**shape)).state_dict()
    save_file(
        weights,
        path,
        {"endpoint": json.dumps({"run": "smelt-H16-S85", "model": shape, "branch": 1, "branch_step": 10})},
    )
    with pytest.raises(UserError, match=r"tokenizer.json: has \d+ tokens, the network of .*small.safetensors 300"):
        SmeltLM(str(path), files[1])


def test_without_lm_eval_the_command_says_so(files, monkeypatch):
    monkeypatch.setattr(lm_eval, "MISSING", "No module named 'lm_eval'")
    with pytest.raises(UserError, match=r"No module named 'lm_eval'.*pip install lm_eval=="):
        lm_eval.main(["--model", files[0], "--tokenizer", files[1], "--tasks", "arc_easy"])


CHOSEN = ["as", "is", "stone", "two"]  # a token each, and none of them the likeliest after every prompt
KINDS = {
    "mine_choice": {
        "output_type": "multiple_choice", "doc_to_text": "Question: {{question}} Answer:",
        "doc_to_choice": CHOSEN, "doc_to_target": "gold", "num_fewshot": 1,
        "fewshot_split": "train", "fewshot_config": {"sampler": "first_n"}, "metric_list": [{"metric": "acc"}],
    },
    "mine_rolling": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "byte_perplexity"}],
    },
    "mine_written": {
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{written}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 4}, "metric_list": [{"metric": "exact_match"}],
    },
}  # fmt: skip


def likeliest(question: str, first: str) -> int:
    """The choice that the network itself prefers, after the first row as the one demonstration."""
    before = [ENCODER.bos, *tokens(f"Question: {first} Answer: {CHOSEN[0]}\n\nQuestion: {question} Answer:")]
    answers = [tokens(f" {choice}") for choice in CHOSEN]
    return int(np.argmax([plainly([*before, *answer], len(answer)) for answer in answers]))


@pytest.mark.slow
def test_lm_eval_runs_on_an_endpoint(files, tmp_path):
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    questions = [STORY[:place] for place in (12, 20, 27, 35, 50, 61, 70)]
    written = [continued(MODEL, ENCODER, question, ["\n"], 4, LENGTH) for question in questions]
    preferred = [likeliest(question, questions[0]) for question in questions]
    golds = [0, *((choice + (place == 3)) % len(CHOSEN) for place, choice in enumerate(preferred[1:], 1))]
    assert len(set(preferred)) > 1  # so that an accuracy says something of each prompt
    rows = [{"question": q, "gold": g, "written": w} for q, g, w in zip(questions, golds, written, strict=True)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "tasks"
    folder.mkdir()
    for name, kind in KINDS.items():
        data = {split: str(tmp_path / "rows.jsonl") for split in ("train", "test")}
        about = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": data}, "test_split": "test"}
        (folder / f"{name}.yaml").write_text(json.dumps(about | kind))

    def run(*tasks):
        command = [
            sys.executable,
            "-m",
            lm_eval.MODULE,
            "--model",
            files[0],
            "--tokenizer",
            files[1],
            "--context",
            "64",
        ]
        command += ["--include", str(folder), "--out", str(tmp_path / "out.json"), "--tasks", *tasks]
        environment = {
            **os.environ,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
        }
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    done = run(*KINDS)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    results = found["results"]
    assert results["mine_written"]["exact_match,none"] == 1.0
    nats = sum(rolling(MODEL, ENCODER, questions, LENGTH)) / sum(len(question.encode()) for question in questions)
    assert results["mine_rolling"]["byte_perplexity,none"] == pytest.approx(math.exp(-nats), rel=1e-6)
    right = sum(choice == gold for choice, gold in zip(preferred, golds, strict=True))
    assert 0 < right < len(questions)
    assert results["mine_choice"]["acc,none"] == pytest.approx(right / len(questions))
    assert set(found) == {"results", "versions", "n-shot", "provenance"}
    assert found["n-shot"]["mine_choice"] == 1
    first = (tmp_path / "out.json").read_bytes()
    run(*KINDS)
    assert (tmp_path / "out.json").read_bytes() == first
    unknown = run("mine_choice", "no_such_task")
    assert unknown.returncode == 1
    assert "error: lm_eval has no task 'no_such_task'" in unknown.stderr
    assert "Traceback" not in unknown.stderr
