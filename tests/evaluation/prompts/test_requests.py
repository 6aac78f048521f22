"""The file of requests: its rows, what never changes them, and input that cannot be used."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.artifacts import read_provenance, table
from smelt.errors import UserError
from smelt.evaluation.prompts import encoder as encoders
from smelt.evaluation.prompts import requests
from smelt.evaluation.prompts.encoder import encode, encoder_of
from smelt.evaluation.prompts.prompts import queries
from smelt.evaluation.prompts.requests import NOTES, REQUESTS, Settings, main, shots_of, task_rows
from smelt.spec import canonical_json, digest, load, plain
from tests.evaluation.prompting import ENCODERS, answer, byte_level, choice, numbered, schema, task

BYTES = ENCODERS["byte level"]
CHOICES, WINO, WORD = task(), task("schema", name="wino", file="w.jsonl", shots=0, sweep_shots=0), task(
    "language_modeling", name="word", file="word.jsonl", shots=3, sweep_shots=0
)  # fmt: skip
ROWS = {
    "desk/mine.jsonl": [
        {"query": f"Question: number {row}?", "choices": ["yes", "of course", "né"], "gold": row % 3}
        for row in range(40)
    ],
    "w.jsonl": [
        {"context_options": [f"{row} so Ann", f"{row} so Bea"], "continuation": "won.", "gold": row % 2}
        for row in range(6)
    ],
    "word.jsonl": [{"context": f"say {row}\u2028again", "continuation": f"{row}"} for row in range(8)],
}


# How prompts are made, if a test says nothing else.
HOW = {"preset_items": 0, "shots": [], "seeds": [0], "sampler": "smelt", "truncation": "bos_left", "context": 4096}


@pytest.fixture
def folder(tmp_path):
    for name, rows in ROWS.items():
        (tmp_path / Path(name).name).write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    (tmp_path / "tokenizer.json").write_text(byte_level().to_str())
    return tmp_path


def arguments(folder, out="requests.parquet", tasks=(CHOICES, WINO, WORD), **changes):
    spec = HOW | {"tasks": [plain(mine) for mine in tasks], "files": list(ROWS)} | changes
    paths = [str(folder / Path(name).name) for name in ROWS]
    return ["--spec", json.dumps(spec), "--tokenizer", str(folder / "tokenizer.json"), "--items", *paths,
            "--out", str(folder / out)]  # fmt: skip


def asked(folder, out="requests.parquet", **changes):
    main(arguments(folder, out, **changes))
    return pq.read_table(folder / out).to_pylist()


def rows_of(mine, items, fixed=(), encoder=BYTES, **changes):
    settings = load(Settings, HOW | {"tasks": [plain(mine)], "files": [mine.file]} | changes)
    return list(task_rows(encoder, mine, items, list(fixed), settings))


def test_each_item_seed_and_number_of_shots_has_its_rows(folder):
    rows = asked(folder, preset_items=5, shots=[0, 2], seeds=[3, 8])
    found = Counter((row["task"], row["shots"], row["seed"]) for row in rows)
    assert found == {
        ("mine", 0, None): 5, ("mine", 2, 3): 5, ("mine", 2, 8): 5,
        ("wino", 0, None): 10,  # two contexts an item; no demonstrations for a task that is asked without
        ("word", 0, None): 5, ("word", 2, 3): 5, ("word", 2, 8): 5,
    }  # fmt: skip
    wino = [row for row in rows if row["task"] == "wino"]
    assert [row["option"] for row in wino] == [0, 1] * 5
    assert all(row["gold"] == row["item"] % 2 and len(row["continuations"]) == 1 for row in wino)


def test_without_a_list_of_shots_each_task_has_its_own(folder):
    assert {(row["task"], row["shots"]) for row in asked(folder)} == {("mine", 2), ("wino", 0), ("word", 3)}


@pytest.mark.parametrize(
    ("own", "sweep", "expected"), [(0, 0, [0]), (3, 8, [0, 1, 4, 8]), (10, 0, [0, 1, 4, 8]), (4, 32, [0, 1, 4, 8, 16])]
)
def test_a_task_is_asked_with_no_more_shots_than_it_allows(own, sweep, expected):
    mine = task(shots=own, sweep_shots=sweep)
    settings = load(Settings, HOW | {"tasks": [plain(mine)], "files": [], "shots": [0, 1, 4, 8, 16]})
    assert shots_of(mine, settings) == expected


def test_lengths_are_those_of_the_text_without_its_leading_space(folder):
    row = next(row for row in asked(folder) if row["task"] == "mine")
    assert row["characters"] == [3, 9, 2]
    assert row["bytes"] == [3, 9, 3]
    assert [len(tokens) > 0 for tokens in row["continuations"]] == [True] * 3
    (spaced,) = rows_of(CHOICES, [choice(0, "q", (" ab", "é"))], shots=[0])
    assert (spaced["characters"], spaced["bytes"]) == ([2, 1], [2, 2])


def test_the_context_holds_the_demonstrations_that_the_row_names(folder):
    lines = ROWS["desk/mine.jsonl"]
    tokenizer = byte_level()
    for row in asked(folder, seeds=[0, 1]):
        if row["task"] != "mine":
            continue
        text = tokenizer.decode(row["context"], skip_special_tokens=True)
        shown = [f"{lines[k]['query']} {lines[k]['choices'][lines[k]['gold']]}" for k in row["demonstrations"]]
        assert text == "\n".join([*shown, lines[row["item"]]["query"]])
        assert len(shown) == 2
        assert row["item"] not in row["demonstrations"]


def test_every_context_begins_with_the_one_bos(folder):
    rows = asked(folder, shots=[0, 1, 2])
    assert all(row["context"][0] == 0 and row["context"].count(0) == 1 for row in rows)
    assert not any(0 in tokens for row in rows for tokens in row["continuations"])


def test_a_smaller_preset_is_a_part_of_a_larger_one(folder):
    """Prompts that depend on how many items are scored, so that nothing scored before can be kept."""
    for sampler in ("dclm", "smelt", "nested"):
        small, large, whole = (asked(folder, preset_items=count, sampler=sampler) for count in (2, 5, 0))
        for part, more in ((small, large), (large, whole)):
            kept = {(row["task"], row["item"]) for row in part}
            assert part == [row for row in more if (row["task"], row["item"]) in kept]


def test_seeds_give_other_prompts_and_one_seed_the_same_beside_any_other(folder):
    alone, both = asked(folder, seeds=[1]), asked(folder, seeds=[0, 1])
    assert alone == [row for row in both if row["seed"] in (1, None)]
    trees = {seed: [row["tree"] for row in both if row["seed"] == seed] for seed in (0, 1)}
    assert not set(trees[0]) & set(trees[1])


def test_a_tree_is_known_by_where_its_context_ends():
    """Twins of the same tokens with another split, taken for one another when results are put together."""
    mine = task("language_modeling", shots=0)
    whole = rows_of(mine, [answer(0, "so the sun", "is larger")])[0]
    later = rows_of(mine, [answer(0, "so the sun is", "larger")])[0]
    tokens = [[*row["context"].tolist(), *row["continuations"][0].tolist()] for row in (whole, later)]
    assert tokens[0] == tokens[1]
    assert whole["tree"] != later["tree"]
    assert whole["tree"] == digest(canonical_json([tokens[0][: len(whole["context"])], [
        row.tolist() for row in whole["continuations"]]]))[:32]  # fmt: skip


def test_the_order_of_choices_is_part_of_a_tree_and_the_tasks_name_is_not():
    items = [choice(0, "q", ("a", "b"))]
    (one,), (other,), (same,) = (
        rows_of(task(shots=0), items),
        rows_of(task(shots=0), [choice(0, "q", ("b", "a"))]),
        rows_of(task(shots=0, name="yours"), items),
    )
    assert one["tree"] != other["tree"]
    assert one["tree"] == same["tree"]


def test_another_tokenizer_makes_other_trees():
    items = [choice(0, "Question: which one?", ("a", "b"))]
    fewer = rows_of(task(shots=0), items, encoder=encoder_of(byte_level(260)))
    assert fewer[0]["tree"] != rows_of(task(shots=0), items)[0]["tree"]


def test_fixed_demonstrations_have_no_seed_and_name_rows_of_their_own_file(folder):
    dev = folder / "dev.jsonl"
    dev.write_text(
        "".join(json.dumps({"query": f"dev {row}", "choices": ["x", "y"], "gold": 1, "category": "ab"[row % 2]}) + "\n"
                for row in range(8))
    )  # fmt: skip
    lines = [{"query": f"test {row}", "choices": ["x", "y"], "gold": 0, "category": "b"} for row in range(3)]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    mine = task(file="test.jsonl", demonstrations="dev.jsonl", partition=True, header="On {category}.\n\n", shots=2)
    spec = HOW | {"tasks": [plain(mine)], "files": ["dev.jsonl", "test.jsonl"], "seeds": [0, 1, 2]}
    main(["--spec", json.dumps(spec), "--tokenizer", str(folder / "tokenizer.json"), "--items", str(dev),
          str(folder / "test.jsonl"), "--out", str(folder / "out.parquet")])  # fmt: skip
    rows = pq.read_table(folder / "out.parquet").to_pylist()
    assert [(row["seed"], row["demonstrations"], row["category"]) for row in rows] == [(None, [1, 3], "b")] * 3
    text = byte_level().decode(rows[0]["context"], skip_special_tokens=True)
    assert text == "On b.\n\ndev 1 y\ndev 3 y\ntest 0"
    spec["files"] = ["else.jsonl", "test.jsonl"]
    with pytest.raises(UserError, match=r"mine needs dev\.jsonl, which is none of `files`"):
        main(["--spec", json.dumps(spec), "--tokenizer", str(folder / "tokenizer.json"), "--items", str(dev),
              str(folder / "test.jsonl"), "--out", str(folder / "out.parquet")])  # fmt: skip


@given(length=st.integers(2, 120), truncation=st.sampled_from(["bos_left", "whole_demos"]))
def test_no_row_is_longer_than_the_model_reads(length, truncation):
    items = [choice(row, f"Question: number {row} of them?", ("the one", "a rather longer one")) for row in range(6)]
    longest = len(encode(BYTES, " a rather longer one"))
    if longest >= length:
        with pytest.raises(UserError, match="does not fit beside its context"):
            rows_of(task(), items, context=length)
        return
    for row in rows_of(task(), items, context=length, truncation=truncation):
        fed = len(row["context"]) + longest - 1
        assert fed <= length
        assert (fed < length) <= (row["truncated"] == 0)
        held = len(row["demonstrations"])
        assert held == 2 - row["dropped"] if not row["truncated"] else held < 2
        assert truncation == "whole_demos" or row["dropped"] == 0


def test_what_should_be_known_of_the_prompts_is_said_in_numbers(capsys):
    """A pool that holds fewer than asked for, tokens that differ and cuts, none of them in silence."""
    items = numbered(3)
    rows_of(task(), items, shots=[8], context=20)
    assert capsys.readouterr().err.splitlines() == [
        f"mine with 8 shots, 3 contexts: 3 {NOTES['fewer']}",
        f"mine with 8 shots, 3 contexts: 3 {NOTES['truncated']}",
    ]
    rows_of(task(), items, shots=[2], context=20, truncation="whole_demos")
    assert NOTES["dropped"] in capsys.readouterr().err
    twins = [answer(row, "Question: What is near? Choices: A. one B. two Answer:", "B") for row in range(4)]
    rows_of(task("language_modeling"), twins, sampler="dclm", encoder=ENCODERS["spanning"], context=500)
    said = capsys.readouterr().err
    assert f"4 {NOTES['repeated']}" in said
    assert f"4 {NOTES['differing']}" in said
    rows_of(task(), numbered(9))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("family", ["byte level", "spanning"])
def test_each_text_is_tokenised_once(monkeypatch, family):
    seen: list[str] = []
    once = encoders.encode_once
    monkeypatch.setattr(encoders, "encode_once", lambda encoder, text: seen.append(text) or once(encoder, text))
    encoder = encoder_of(ENCODERS[family].tokenizer)
    items = numbered(12)
    rows_of(task(), items, encoder=encoder, shots=[0, 1, 2, 4], seeds=[0, 1, 2])
    assert len(seen) == len(set(seen))
    # Each item as a demonstration (first, later), as a question (first, later), its choices and, where the
    # tokenizer does not split, its questions with their choices.
    assert len(seen) <= 12 * (2 + 2 + 2 + 4)


def test_rows_are_written_as_they_come(folder, monkeypatch):
    """Memory that grows with the number of requests."""
    whole = asked(folder, "whole.parquet")
    sizes = []
    monkeypatch.setattr(requests, "GROUP", 7)
    monkeypatch.setattr(requests, "table", lambda rows, kind: sizes.append(len(rows)) or table(rows, kind))
    assert asked(folder, "parts.parquet") == whole
    assert sizes == [7] * (len(whole) // 7) + [len(whole) % 7]
    assert pq.ParquetFile(folder / "parts.parquet").num_row_groups == len(sizes)


def test_columns_their_meaning_and_the_origin(folder):
    asked(folder)
    found = pq.read_schema(folder / "requests.parquet")
    assert found.remove_metadata().equals(REQUESTS)
    assert all((found.field(name).metadata or {})[b"description"] for name in found.names)
    origin = read_provenance(folder / "requests.parquet")
    assert origin["module"] == "smelt.evaluation.prompts.requests"
    assert set(origin["inputs"]) == {"tokenizer.json", "mine.jsonl", "w.jsonl", "word.jsonl"}


def test_two_processes_write_the_same_bytes_and_load_no_torch(folder):
    """Prompts that differ between processes, by the order of a set or a shuffle without a seed."""
    root = Path(__file__).parents[3]
    code = "import sys; from smelt.evaluation.prompts.requests import main; main(sys.argv[1:])\n"
    code += "assert 'torch' not in sys.modules"
    for salt in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, *arguments(folder, f"{salt}.parquet", sampler="dclm")],
            cwd=root, env=os.environ | {"PYTHONHASHSEED": salt}, check=True, capture_output=True,
        )  # fmt: skip
    assert (folder / "1.parquet").read_bytes() == (folder / "2.parquet").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "random"}, "sampler is 'random', expected one of dclm, smelt, nested"),
        ({"truncation": "right"}, "truncation is 'right', expected one of bos_left, whole_demos"),
        ({"seeds": []}, "seeds is .*, expected different whole numbers from 0, at least one"),
        ({"seeds": [1, 1]}, "seeds is .*, expected different"),
        ({"seeds": [-1]}, "seeds is .*, expected different"),
        ({"shots": [0, 0]}, "shots is .*, expected different"),
        ({"shots": [True]}, "shots is .*, expected different"),
        ({"context": 1}, "context is 1, expected at least 2"),
        ({"preset_items": -1}, "preset_items is -1"),
        ({"tasks": ()}, "tasks is .*, expected at least one"),
        ({"files": ["a", "a", "b"]}, "files is .*, expected no file twice"),
        ({"files": ["desk/mine.jsonl"]}, "1 names in `files`, 3 paths"),
        ({"files": ["w.jsonl", "word.jsonl", "x.jsonl"]}, r"mine needs desk/mine\.jsonl, which is none of `files`"),
        ({"seeds": [2**31]}, "seeds is .*, expected none above 2147483647"),
        ({"shots": [9]}, r"shots is \[9\], but no task takes more than 8; name a smaller number"),
        (
            {"context": 3},
            r"^/.*/mine\.jsonl, row 1 \(mine\): a continuation of \d+ tokens does not fit beside its context",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error_and_leaves_no_file(folder, changes, message):
    with pytest.raises(UserError, match=message):
        asked(folder, **changes)
    assert not list(folder.glob("*requests.parquet*"))


def test_a_file_that_cannot_be_opened_is_one_clear_error(folder):
    (folder / "w.jsonl").unlink()
    for why in ("No such file or directory", "Is a directory"):
        with pytest.raises(UserError, match=rf"/w\.jsonl: cannot be read \({why}\)"):
            asked(folder)
        (folder / "w.jsonl").mkdir(exist_ok=True)


def test_a_single_item_without_a_pool_is_asked_without_demonstrations(capsys):
    for sampler in ("dclm", "smelt", "nested"):
        (row,) = rows_of(task(), numbered(1), sampler=sampler)
        assert (row["demonstrations"], row["shots"]) == ((), 2)
        assert np.array_equal(row["context"][1:], encode(BYTES, queries(task(), numbered(1)[0], [])[0]))
        assert NOTES["fewer"] in capsys.readouterr().err


def test_both_options_of_a_schema_carry_the_same_labels():
    rows = rows_of(WINO, [schema(0, ["so Ann", "so Bea"], "won.", 1)])
    assert [(row["option"], row["gold"], row["item_id"]) for row in rows] == [
        (option, 1, rows[0]["item_id"]) for option in (0, 1)
    ]
    assert len({row["tree"] for row in rows}) == 2
