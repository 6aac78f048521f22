"""Generated tasks: every answer worked out a second way, exact shares, and files that grow by their end."""

import gzip
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from smelt.errors import UserError
from smelt.evaluation.tasks import brackets, generate
from smelt.evaluation.tasks.items import read_items
from smelt.evaluation.tasks.operators import DEFINITIONS, FORMS
from smelt.evaluation.tasks.registry import read_tasks
from smelt.evaluation.tasks.repeat_copy import TEMPLATES, Parts

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "data" / "evals" / "tasks"
COUNT = 660


@pytest.fixture(scope="module")
def made():
    return {name: list(generate.generated(name, COUNT, 0)) for name in generate.MAKERS}


def reduces(sequence):
    """Whether brackets cancel out, by striking out neighbours that match until none is left."""
    text, before = sequence.replace(" ", ""), None
    while text != before:
        before, text = text, re.sub(r"\(\)|\[\]|\{\}|<>", "", text)
    return not text


def longest_common(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_the_answer_of_a_dyck_word_closes_it(made):
    closers = Counter()
    for context, answer in made["dyck_languages"]:
        word = re.fullmatch(r"Complete .* properly\. \n\nInput: ([][(){}<> ]+)\nOutput:", context)[1]
        assert reduces(f"{word} {answer}")
        assert not set(answer.split()) - set(")]}>")
        assert 2 <= len(word.split()) <= 99
        closers[len(answer.split())] += 1
    # One, two and three closers are drawn alike; short words have fewer chances to be three deep.
    assert set(closers) == {1, 2, 3}
    assert all(0.22 * COUNT < count < 0.45 * COUNT for count in closers.values())


def test_cs_algorithms_are_right_and_their_shares_exact(made):
    answers, sequences = Counter(), 0
    for context, answer in made["cs_algorithms"]:
        if "Strings" in context:
            first, second = re.search(r"Strings: ([A-Z]{4,31}) ([A-Z]{4,31})\nLength", context).groups()
            assert longest_common(first, second) == int(answer)
        else:
            sequence = re.search(r"Sequence: ([][(){} ]+)\nValid/Invalid\?$", context)[1]
            assert answer == ("Valid" if reduces(sequence) else "Invalid")
            assert len(sequence.split()) in (2, 4, 10, 20)
            sequences += 1
        answers[answer] += 1
    assert sequences == COUNT * 25 // 33
    assert [answers[str(length)] for length in range(10)] == [COUNT * 8 // 330] * 10
    # What a model scores that always says "Invalid".
    assert answers["Valid"] == sequences * 54 // 125
    assert answers["Invalid"] == sequences - answers["Valid"]


def test_invalid_sequences_are_near_misses_too(made):
    invalid = [context for context, answer in made["cs_algorithms"] if answer == "Invalid"]
    sequences = [re.search(r"Sequence: (.+)\n", context)[1].split() for context in invalid]
    even = [sum(token in "([{" for token in tokens) * 2 == len(tokens) for tokens in sequences]
    assert 0.2 < sum(even) / len(even) < 0.8  # counting openers and closers gives no answer
    assert any(brackets.unclosed(tokens) for tokens in sequences)  # wrong at its end only
    assert any(brackets.unclosed(tokens) is None for tokens in sequences)


def test_common_subsequence_agrees_with_the_table():
    rng = random.Random(0)
    for _ in range(300):
        first, second = ("".join(rng.choices("ABCD", k=rng.randint(0, 12))) for _ in range(2))
        assert brackets.common_subsequence(first, second) == longest_common(first, second)


# Worked out by hand: words of the definition, arguments, result.
WORKED = [
    ("one", "i times itself", (-7,), 49),
    ("one", "i times itself, and once more times i", (-3,), -27),
    ("one", "i plus seven", (-9,), -2),
    ("one", "i with the other sign", (12,), -12),
    ("one", "the sum of the digits of i", (9305,), 17),
    ("one", "the number of digits of i", (4070,), 4),
    ("one", "the last digit of i", (318,), 8),
    ("one", "the digits of i written backwards", (1270,), 721),
    ("one", "half of an even i, and three times an odd i", (-8,), -4),
    ("one", "half of an even i, and three times an odd i", (-5,), -15),
    ("one", "the sum of the whole numbers from 1 up to i", (10,), 55),
    ("one", "the first prime number above i", (13,), 17),
    ("one", "the first prime number above i", (1,), 2),
    ("two", "the total of i and j", (-4, 9), 5),
    ("two", "i times j", (-4, 9), -36),
    ("two", "i minus j", (-4, 9), -13),
    ("two", "j minus i", (-4, 9), 13),
    ("two", "the larger one of i and j", (-4, 9), 9),
    ("two", "the smaller one of i and j", (-4, 9), -4),
    ("two", "how far i and j lie apart", (9, -4), 13),
    ("two", "two times i, plus j", (3, 4), 10),
    ("two", "one more than i times j", (3, 4), 13),
    ("two", "i times i plus j times j", (3, -4), 25),
    ("two", "what is left when i is divided by j", (17, 5), 2),
    ("two", "how many times j fits into i", (17, 5), 3),
    ("two", "the largest number that divides both i and j", (12, 18), 6),
    ("two", "i followed by j, read as one number", (40, 7), 407),
    ("two", "how many whole numbers lie between i and j", (-2, 3), 4),
    ("two", "how many whole numbers lie between i and j", (3, 3), 0),
    ("many", "the total of all numbers in the list", (5, -2, 7), 10),
    ("many", "the product of all numbers in the list", (5, -2, 7), -70),
    ("many", "the largest number in the list", (5, -2, 7), 7),
    ("many", "the smallest number in the list", (5, -2, 7), -2),
    ("many", "how many numbers the list has", (5, -2, 7, 7), 4),
    ("many", "how many numbers in the list are even", (0, -2, 7), 2),
    ("many", "the second number in the list", (5, -2, 7), -2),
    ("many", "the last number in the list minus the first", (5, -2, 7), 2),
    ("many", "the total of the numbers in the list that are above zero", (5, -2, 7), 12),
]
MEANINGS = {form: {meaning.words: meaning for meaning in meanings} for form, meanings in DEFINITIONS.items()}


def test_every_definition_means_what_it_says():
    for form, words, arguments, result in WORKED:
        assert MEANINGS[form][words].function(*arguments) == result
    assert {(form, words) for form, words, *_ in WORKED} == {
        (form, words) for form, meanings in MEANINGS.items() for words in meanings
    }


def calculated(expression, form, functions):
    """The value of a written expression: the innermost parentheses first, from the text alone."""
    while "(" in expression:
        expression = re.sub(r"\(([^()]+)\)", lambda found: str(applied(found[1], form, functions)), expression)
    return applied(expression, form, functions)


def applied(expression, form, functions):
    names = re.findall(r"op\d?", expression)
    numbers = [int(number) for number in re.findall(r"(?<![\w])-?\d+", expression)]
    assert len(set(names)) == 1
    assert (len(numbers) == 2) if form == "two" else expression.startswith(names[0])
    return functions[names[0]](*numbers)


def test_operators_are_right_from_their_text_alone(made):
    seen = set()
    for context, answer in made["operators"]:
        _, definition, expression = context.split("\n")
        functions = {}
        for part in definition.removesuffix(".").split("; "):
            for form, pattern in FORMS.items():
                match = re.fullmatch(pattern.format(r"(op\d?)", "(.+)"), part)
                if match and match[2] in MEANINGS[form]:
                    functions[match[1]] = MEANINGS[form][match[2]].function
                    kind = form
        assert len(functions) == definition.count(";") + 1
        assert calculated(expression.removesuffix(" ="), kind, functions) == int(answer)
        seen.add((kind, len(functions), "(" in expression))
    assert seen == {(form, 1, nested) for form in FORMS for nested in (False, True)} | {("two", 2, True)}


# Of the phrase "red cat", the other words "dog", three times, more two, the word "cat".
SAID = {
    "say {phrase} {times} times": "red cat red cat red cat",
    "{times} times, please say {phrase}": "red cat red cat red cat",
    "say {phrase} {times} times and then {other} {more} times": "red cat red cat red cat dog dog",
    "say {phrase} and {other}, and do so {times} times": "red cat dog red cat dog red cat dog",
    "say {phrase} {times} times, with {other} before the first time": "dog red cat red cat red cat",
    "say {phrase} {times} times, with {other} after the last time": "red cat red cat red cat dog",
    "say {phrase} {times} times, with {other} after each time": "red cat dog red cat dog red cat dog",
    "say {phrase} {times} times, with {other} in between": "red cat dog red cat dog red cat",
    "say {phrase} {times} times, adding {other} on odd times": "red cat dog red cat red cat dog",
    "say {phrase} {times} times, adding {other} on even times": "red cat red cat dog red cat",
    "say {phrase} {times} times, and {other} after every {ordinal} time": "red cat red cat dog red cat",
    "say {phrase} {times} times, leaving out {word} on odd times": "red red cat red",
    "say {phrase} {times} times, leaving out {word} on even times": "red cat red red cat",
    "say {phrase} {times} times, saying {other} for {word} on odd times": "red dog red cat red dog",
    "say {phrase} {times} times, saying {other} for {word} on even times": "red cat red dog red cat",
}


def test_every_instruction_says_what_it_should():
    parts = Parts(["red", "cat"], ["dog"], 3, 2, 1)
    said = {words: " ".join(word for part in says(parts) for word in part) for words, says in TEMPLATES}
    assert said == SAID
    (every,) = (says for words, says in TEMPLATES if "ordinal" in words)
    longer = [" ".join(part) for part in every(parts._replace(times=7, more=3))]
    assert longer == ["red cat", "red cat", "red cat dog"] * 2 + ["red cat"]


def test_repeat_copy_uses_only_its_words_and_often_enough(made):
    numbers = dict(zip("two three four five six seven eight nine".split(), range(2, 10), strict=True))
    kinds = set()
    for context, answer in made["repeat_copy"]:
        sentence = re.fullmatch(r"repeat with logic:\n\nQ: (.+)\nA:", context)[1]
        said = answer.split()
        assert set(said) <= set(re.findall(r"[a-z]+", sentence))
        times = numbers[re.search(r"([a-z]+) times", sentence)[1]]
        first = re.search(r"say ([a-z]+)", sentence)[1]
        changed = re.search(r"(?:leaving out|for) ([a-z]+) on (odd|even)", sentence)
        if changed and changed[1] == first:  # said only the other times
            times = times // 2 if changed[2] == "odd" else times - times // 2
        assert said.count(first) == times
        kinds.add((sentence.startswith("say"), *re.findall(r" (?:with|adding|leaving|saying|and) ", sentence)))
    assert len(kinds) > 5


def test_items_differ_and_a_larger_file_begins_with_the_smaller(made):
    for name, pairs in made.items():
        assert len({context for context, _ in pairs}) == COUNT
        assert list(generate.generated(name, 50, 0)) == pairs[:50]
        assert list(generate.generated(name, 50, 1)) != pairs[:50]


def test_a_task_that_runs_out_of_items_says_so(monkeypatch):
    monkeypatch.setitem(generate.MAKERS, "dyck_languages", lambda rng, index: (str(rng.randrange(3)), "x"))
    assert len(list(generate.generated("dyck_languages", 3, 0))) == 3
    with pytest.raises(UserError, match="dyck_languages: no more than 3 different items"):
        list(generate.generated("dyck_languages", 4, 0))


def test_the_command_writes_files_that_are_read_and_the_same_in_every_process(tmp_path, made):
    outs = []
    for hash_seed in "12":
        out = [tmp_path / hash_seed / f"{name}.jsonl" for name in generate.MAKERS]
        spec = ["--spec", '{"items": 40}', "--out", *map(str, out)]
        command = [sys.executable, "-m", "smelt.evaluation.tasks.generate", *spec]
        subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONHASHSEED": hash_seed})
        outs.append([path.read_bytes() for path in out])
    assert outs[0] == outs[1]
    tasks = read_tasks()
    for name in generate.MAKERS:
        items = read_items(tmp_path / "1" / f"{name}.jsonl", tasks[name])
        assert [(item.query, *item.choices) for item in items] == made[name][:40]


def test_no_items_are_refused(tmp_path):
    out = [str(tmp_path / str(number)) for number in range(4)]
    with pytest.raises(UserError, match="items is 0, expected at least 1"):
        generate.main(["--spec", '{"items": 0}', "--out", *out])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the texts of the published tasks are not part of the repository")
@pytest.mark.parametrize("name", generate.MAKERS)
def test_prompts_have_the_form_of_the_published_task(name, made):
    """Every line but those that hold the item itself is the same, letter by letter."""
    file = SHARED / f"bigbench_{name.replace('repeat_copy', 'repeat_copy_logic')}.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).split(b"\n") if line]

    def form(context):
        return re.sub(r"(Sequence:|Strings:|Input:|Q:) .+", r"\1", re.sub(r"(result\.\n).+\n.+ =$", r"\1", context))

    assert {form(row["context"]) for row in rows} == {form(context) for context, _ in made[name]}
    ours = {context for context, _ in made[name]}
    shared = sum(row["context"] in ours for row in rows)
    assert shared == 0 or name in ("dyck_languages", "cs_algorithms")  # short sequences are few
