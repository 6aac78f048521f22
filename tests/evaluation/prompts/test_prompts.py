"""Prompts: the reference's texts, one BOS that no cut takes away, one cut for all choices, tokens apart and joined."""

import dataclasses
import hashlib
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from smelt.errors import UserError
from smelt.evaluation.prompts.demonstrations import demonstrations
from smelt.evaluation.prompts.encoder import BOS, encode, encoder_of, read_encoder, separable
from smelt.evaluation.prompts.prompts import TRUNCATIONS, bare, continuations, preamble, queries, trees
from smelt.evaluation.tasks.items import find_named, read_items
from tests.evaluation.prompting import (
    DATA,
    ENCODERS,
    TASKS,
    answer,
    byte_level,
    choice,
    llama,
    numbered,
    schema,
    spanning,
    task,
)  # fmt: skip

FIXTURE = DATA / "fixtures" / "prompts_seed1234.json"
LABELS = list(json.loads(FIXTURE.read_text())) if FIXTURE.exists() else []
BYTES = ENCODERS["byte level"]
needs_fixture = pytest.mark.skipif(
    not FIXTURE.exists(), reason="the texts of the published tasks are not part of the repository"
)
TEXT = st.text(st.sampled_from("Aa: \n?s0'é\u2028\x85\x1c"), max_size=12)


def joined(mine, item, shown) -> str:
    return "".join(preamble(mine, item, shown))


def uncut(encoder, mine, item, shown) -> list[list[int]]:
    """Each context without BOS, tokenised from whole texts."""
    before = encode(encoder, joined(mine, item, shown)).tolist()
    return [before + encode(encoder, query).tolist() for query in queries(mine, item, shown)]


@needs_fixture
@pytest.mark.parametrize("label", LABELS)
def test_texts_are_those_of_the_reference(label):
    mine = TASKS["mmlu" if label == "mmlu_fewshot" else label]
    names = f"{label}.jsonl", f"{label.removesuffix('_zeroshot')}.jsonl"
    full, excerpt = find_named(DATA / "tasks", names[0]), find_named(DATA / "samples", names[1])
    path = full or excerpt
    if path is None:
        pytest.skip(f"no items of {label}")
    items = read_items(path, dataclasses.replace(mine, sha256=""))
    known = full is not None or not mine.shots  # an excerpt lacks most demonstrations
    drawn = demonstrations(mine, items, mine.shots, 1234, "dclm")
    for expected in json.loads(FIXTURE.read_text())[label]["items"]:
        item = items[expected["index"]]
        shown = [items[row] for row in drawn[item.index]]
        assert queries(mine, item, shown) == expected["contexts"]
        texts = continuations(item, True)
        assert texts * (len(expected["contexts"]) if mine.kind == "schema" else 1) == expected["continuations"]
        if mine.kind != "language_modeling":
            assert item.gold == expected["gold"]
        if known:
            text = joined(mine, item, shown)
            assert len(text) == expected["preamble_chars"]
            assert hashlib.sha256(text.encode()).hexdigest() == expected["prompt_sha256"]


def test_the_standard_form_of_mmlu_has_a_header_and_blank_lines():
    mine = TASKS["mmlu_standard"]
    shown = [choice(0, "One?\nA. x\nB. y", "AB", 1, "high_school_physics"), choice(1, "Two?\nA. x\nB. y", "AB")]
    item = choice(0, "Three?\nA. x\nB. y", "AB", 0, "high_school_physics")
    head = "The following are multiple choice questions (with answers) about high school physics.\n\n"
    text = joined(mine, item, shown) + queries(mine, item, shown)[0]
    expected = "One?\nA. x\nB. y\nAnswer: B\n\nTwo?\nA. x\nB. y\nAnswer: A\n\nThree?\nA. x\nB. y\nAnswer:"
    assert text == head + expected
    assert joined(mine, item, []) + queries(mine, item, [])[0] == head + "Three?\nA. x\nB. y\nAnswer:"


@pytest.mark.parametrize("shots", [0, 1, 2, 5])
def test_the_prompt_holds_as_many_demonstrations_as_asked_for(shots):
    """A port whose demonstrations were never built, and whose scores looked plausible."""
    items = numbered(9)
    mine = task(continuation_delimiter="\nAnswer: ")
    shown = [items[row] for row in demonstrations(mine, items, shots, 0, "smelt")[4]]
    text = joined(mine, items[4], shown)
    assert text.count("Question:") == text.count("\nAnswer: ") == shots
    answers = [line.removeprefix("Answer: ") for line in text.split("\n") if line.startswith("Answer: ")]
    assert answers == [item.choices[item.gold] for item in shown]


def test_a_schemas_demonstration_is_the_right_context_and_its_contexts_differ_before_one_continuation():
    mine, item = task("schema"), schema(0, ["so Ann", "so Bea"], "won.", 1)
    shown = [schema(1, ["as Cy", "as Di"], "ran.", 1)]
    assert joined(mine, item, shown) == "as Di ran."
    assert queries(mine, item, shown) == ["\nso Ann", "\nso Bea"]
    found = trees(BYTES, mine, item, shown, 100)
    assert [tree.option for tree in found] == [0, 1]
    assert found[0].continuations[0].tolist() == found[1].continuations[0].tolist()


LENGTHS = st.integers(2, 150)
WORDS = st.text(st.sampled_from("ab 1é?"), min_size=1, max_size=25).filter(str.strip)


@st.composite
def asked(draw):
    """A task, an item and its demonstrations."""
    kind = draw(st.sampled_from(["multiple_choice", "schema", "language_modeling"]))
    mine = task(kind, header=draw(st.sampled_from(["", "Read this.\n\n"])), example_delimiter=draw(
        st.sampled_from(["\n", "\n\n", " "])), continuation_delimiter=draw(
        st.sampled_from([" ", "\nAnswer: "])))  # fmt: skip
    make = {
        "multiple_choice": lambda row: choice(row, draw(WORDS).strip(), draw(st.lists(WORDS, min_size=2, max_size=4))),
        "schema": lambda row: schema(row, draw(st.lists(WORDS, min_size=2, max_size=3)), draw(WORDS).strip()),
        "language_modeling": lambda row: answer(row, draw(WORDS).strip(), draw(WORDS).strip()),
    }[kind]
    return mine, make(0), [make(row + 1) for row in range(draw(st.integers(0, 4)))]


@pytest.mark.parametrize("family", ["byte level", "spanning", "sentencepiece"])
@pytest.mark.parametrize("truncation", TRUNCATIONS)
@given(prompt=asked(), length=LENGTHS)
def test_one_bos_stands_first_and_what_is_fed_fits_any_length(family, truncation, prompt, length):
    """BOS missing, there twice, or cut off with the start of a long prompt; a prompt longer than the context."""
    mine, item, shown = prompt
    encoder = ENCODERS[family]
    longest = max(len(encode(encoder, text)) for text in continuations(item, encoder.prefix_space))
    if longest >= length:
        with pytest.raises(UserError, match=r"^row 1 \(mine\): a continuation of \d+ tokens does not fit"):
            trees(encoder, mine, item, shown, length, truncation)
        return
    found = trees(encoder, mine, item, shown, length, truncation)
    whole = uncut(encoder, mine, item, shown[found[0].dropped :])
    for tree, full in zip(found, whole, strict=True):
        context = tree.context.tolist()
        assert context[0] == encoder.bos
        assert context.count(encoder.bos) == 1
        assert len(context) + longest - 1 <= length
        assert context[1:] == full[tree.truncated :]  # the end of it, and what was cut is counted
        assert 0 <= tree.truncated < max(len(full), 1)
    fits = max(map(len, whole)) <= length - longest
    assert (max(tree.truncated for tree in found) == 0) == fits
    if not fits:  # and no more than has to be cut
        assert max(len(tree.context) for tree in found) + longest - 1 == length


@pytest.mark.parametrize("family", ["byte level", "spanning"])
@pytest.mark.parametrize("truncation", TRUNCATIONS)
def test_a_demonstration_of_which_a_token_was_cut_is_not_counted(family, truncation):
    """A prompt said to hold demonstrations of which it had lost the question."""
    encoder, words = ENCODERS[family], ("stone", "trophy", "suitcase", "old bridge")
    item, *shown = (choice(row, f"Question: the {word}?", (word, "A")) for row, word in enumerate(("sun", *words)))
    texts = [f"{one.query} {one.choices[0]}" for one in shown]
    full = len(trees(encoder, task(), item, shown, 1000)[0].context)
    for length in range(full + 20, 8, -1):
        (tree,) = trees(encoder, task(), item, shown, length, truncation)
        pieces = [encoder.tokenizer.id_to_token(int(token)) for token in tree.context[1:]]
        prompt = "".join(pieces).replace("Ġ", " ").replace("Ċ", "\n")
        held = [text in prompt for text in texts]
        assert tree.whole in (sum(held), sum(held) - 1)  # the newline before the oldest may be all that was cut
        assert held[len(held) - tree.whole :] == [True] * tree.whole
    assert tree.whole == 0 < len(shown)


@given(prompt=asked(), length=LENGTHS)
def test_whole_demonstrations_go_first_the_oldest_before_the_others_and_no_more_than_must(prompt, length):
    mine, item, shown = prompt
    longest = max(len(encode(BYTES, text)) for text in continuations(item, True))
    if longest >= length:
        return
    found = trees(BYTES, mine, item, shown, length, "whole_demos")
    dropped = found[0].dropped
    assert {tree.dropped for tree in found} == {dropped}
    fits = [max(map(len, uncut(BYTES, mine, item, shown[count:]))) + longest <= length
            for count in range(len(shown) + 1)]  # fmt: skip
    assert dropped == (fits.index(True) if any(fits) else len(shown))
    assert any(fits) == (max(tree.truncated for tree in found) == 0)
    assert {tree.dropped for tree in trees(BYTES, mine, item, shown, length)} == {0}


def test_all_choices_of_an_item_see_the_same_context_however_long_the_longest_is():
    """A cut made for each choice apart, so that a long choice is judged after less context than a short one."""
    item = choice(0, "a long question? " * 20, ("a", "a much longer choice than the other " * 3))
    (tree,) = trees(BYTES, task(), item, [], 120)
    assert tree.truncated > 0
    assert len(tree.continuations) == 2
    assert len(tree.context) == 120 + 1 - max(map(len, tree.continuations))


def test_options_of_a_schema_lose_the_same_tokens_so_that_they_differ_where_their_texts_do():
    options = ["A sentence " * 30 + "so Ann", "A sentence " * 30 + "so the other one"]
    short, long = trees(BYTES, task("schema"), schema(0, options, "won."), [], 60)
    assert short.truncated == long.truncated > 0
    common = len(short.context) - len(encode(BYTES, " Ann"))
    assert short.context[:common].tolist() == long.context[:common].tolist()


def test_options_of_very_unequal_length_all_keep_a_token():
    for tree in trees(BYTES, task("schema"), schema(0, ["x", "y " * 500], "won."), [], 40):
        assert len(tree.context) >= 2


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_continuation_that_fills_the_context_takes_all_of_the_query_but_never_leaves_all_of_it(room):
    """`[-0:]`, which keeps everything where there is no room for anything."""
    item = answer(0, "a query of several tokens", "an answer of several tokens")
    size = len(encode(BYTES, " an answer of several tokens"))
    if not room:
        with pytest.raises(UserError, match=f"a continuation of {size} tokens does not fit beside its context into"):
            trees(BYTES, task("language_modeling"), item, [], size)
        return
    (tree,) = trees(BYTES, task("language_modeling"), item, [], size + room)
    assert tree.context.tolist() == [BYTES.bos, *encode(BYTES, "a query of several tokens")[-room:].tolist()]


def test_zero_shot_prompts_begin_with_bos_too():
    """Prompts without BOS, at which models trained with it fall to a few per cent."""
    item = answer(0, "a", "b")
    (tree,) = trees(BYTES, task("language_modeling"), item, [], 10)
    assert tree.context.tolist() == [BYTES.bos, *encode(BYTES, "a").tolist()]


def test_a_tokenizer_that_adds_bos_by_itself_adds_no_second():
    """BOS twice, once by the tokenizer and once by the harness."""
    tokenizer = byte_level()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {BOS}", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    items = numbered(3)
    (plain,) = trees(BYTES, task(), items[0], items[1:], 200)
    (tree,) = trees(encoder_of(tokenizer), task(), items[0], items[1:], 200)
    assert tree.context.tolist() == plain.context.tolist()
    assert tree.continuations[0].tolist() == plain.continuations[0].tolist()


def test_a_text_that_spells_bos_does_not_make_one():
    item = choice(0, f"What does {BOS} mean?", (BOS, "nothing"))
    (tree,) = trees(BYTES, task(), item, [choice(1, f"{BOS}{BOS}")], 200)
    assert tree.context.tolist().count(BYTES.bos) == 1
    assert all(BYTES.bos not in tokens for tokens in tree.continuations)


def test_a_tokenizers_own_truncation_and_padding_do_not_reach_prompts():
    tokenizer = byte_level()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    (tree,) = trees(encoder_of(tokenizer), task(), numbered(1)[0], [], 200)
    assert tree.context.tolist() == trees(BYTES, task(), numbered(1)[0], [], 200)[0].context.tolist()


def test_a_tokenizer_without_bos_or_with_one_that_text_can_spell_is_refused(tmp_path):
    bare_one = Tokenizer(models.BPE())
    with pytest.raises(UserError, match=r"tokenizer: has no token '<\|bos\|>'"):
        encoder_of(bare_one)
    bare_one.add_tokens([BOS])  # not special
    with pytest.raises(UserError, match="mark it as special"):
        encoder_of(bare_one)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json: not a readable tokenizer"):
        read_encoder(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("family", ENCODERS)
def test_a_continuation_has_one_space_in_front_in_every_family_of_tokenizers(family):
    """Two spaces, or a lone space token, before each continuation with a tokenizer that puts one there itself."""
    encoder = ENCODERS[family]
    item = choice(0, "Which?", ("the sun", " the sun"))  # members of a list are not stripped
    first, second = trees(encoder, task(), item, [], 50)[0].continuations
    assert first.tolist() == second.tolist()
    pieces = [encoder.tokenizer.id_to_token(int(token)) for token in first]
    text = "".join(pieces).replace("▁", " ").replace("Ġ", " ")
    assert text == " the sun"
    assert [bare(text) for text in item.choices] == ["the sun", "the sun"]


def test_a_small_byte_level_vocabulary_keeps_its_words_apart():
    """Without a token for ' a' the reference's probe sees no need of a space, and context and answer run together."""
    encoder = encoder_of(byte_level(258))
    assert len(encoder.tokenizer.encode(" a").ids) == 2
    assert encoder.prefix_space


def test_a_token_that_spans_the_join_never_takes_the_continuation_along():
    """A continuation without any token of its own, found after hours of scoring."""
    encoder = ENCODERS["spanning"]
    item = answer(0, "Question: What is near? Choices: A. one B. two Answer:", "B")
    (tree,) = trees(encoder, task("language_modeling"), item, [], 100)
    assert len(tree.continuations[0]) >= 1
    assert tree.differing
    (plain,) = trees(BYTES, task("language_modeling"), item, [], 100)
    assert not plain.differing


@given(query=TEXT.filter(str.strip), text=TEXT.filter(str.strip))
@pytest.mark.parametrize("family", ["byte level", "spanning"])
def test_differing_is_what_joint_tokenisation_says(family, query, text):
    encoder = ENCODERS[family]
    item = answer(0, query.strip(), text.strip())
    (tree,) = trees(encoder, task("language_modeling"), item, [], 200)
    together = encoder.tokenizer.encode(f"{item.query} {item.choices[0]}", add_special_tokens=False).ids
    assert tree.differing == (together != tree.context.tolist()[1:] + tree.continuations[0].tolist())


@example(left="a\n", right="\n")
@example(left="a ", right="  b")
@given(left=TEXT, right=TEXT)
def test_what_counts_as_separable_is(left, right):
    """So that demonstrations may be tokenised once each instead of with every preamble they stand in."""
    if separable(BYTES, left, right):
        apart = np.concatenate([encode(BYTES, left), encode(BYTES, right)])
        assert apart.tolist() == encode(BYTES, left + right).tolist()
    for family in ("llama", "sentencepiece", "spanning"):
        assert not separable(ENCODERS[family], left, right)


def test_only_a_plain_byte_level_tokenizer_is_taken_to_split_at_blanks():
    unlike = [byte_level() for _ in range(4)]
    unlike[0].pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    unlike[1].pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    unlike[2].normalizer = normalizers.NFC()
    unlike[3].add_tokens(["one\ntwo"])
    assert not any(encoder_of(tokenizer).splits for tokenizer in unlike)
    assert encoder_of(byte_level()).splits


def test_separability_is_the_rule_and_not_the_exception_for_real_demonstrations():
    pieces = preamble(task(), numbered(9)[0], numbered(9)[1:])
    assert all(separable(BYTES, left, right) for left, right in pairwise(pieces))


def test_a_continuation_without_a_token_is_an_error_that_names_it():
    """An empty span, whose mean is no number and wins or loses by chance."""
    tokenizer = Tokenizer(models.BPE(vocab={BOS: 0, "a": 1, "b": 2}, merges=[]))
    tokenizer.add_special_tokens([BOS])
    item = choice(5, "a", ("b", "ζ"))
    with pytest.raises(UserError, match=r'^row 6 \(mine\): the tokenizer has no token for " \\u03b6"'):
        trees(encoder_of(tokenizer), task(), item, [], 50)


def test_line_separators_within_a_text_stay_in_the_prompt():
    item = answer(0, "one\u2028two\u2029three\x85four", "five")
    (tree,) = trees(BYTES, task("language_modeling"), item, [], 100)
    assert BYTES.tokenizer.decode(tree.context[1:].tolist()) == item.query


def test_the_tokenizers_of_these_tests_are_of_the_families_they_are_named_after():
    assert [encoder.prefix_space for encoder in ENCODERS.values()] == [True, False, False, True]
    assert [encoder.splits for encoder in ENCODERS.values()] == [True, False, False, False]
    assert encoder_of(llama()).bos == encoder_of(spanning()).bos == 0
