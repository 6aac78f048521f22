"""Cleaning, choice, split and order of the documents."""

import hashlib
import random
import subprocess
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.corpus.documents import clean, neighbours, select
from smelt.corpus.documents.clean import Document
from smelt.errors import UserError
from tests.corpus.conftest import Corpus, fill, prose


def rows(corpus):
    return pq.read_table(corpus.path("documents.parquet")).to_pylist()


def dropped(corpus):
    return {
        (r["source"], r["reason"]): r["documents"] for r in pq.read_table(corpus.path("cleaning.parquet")).to_pylist()
    }


def test_every_cleaning_rule_counts_what_it_drops(corpus):
    rng = random.Random(1)
    good = {f"good{i}.txt": prose(rng, 40) for i in range(60)}
    bad = {
        "not_utf8.txt": b"latin caf\xe9 and more of it",
        "nul.txt": "before\0after, long enough",
        "replacement.txt": "broken \ufffd before it was packaged",
        "blank.txt": " \n\t \u00a0 \n",
        "empty.txt": "",
        "short.txt": "fifteen bytes..",
        "giant.txt": "x y" * 100_000,
        "duplicate.txt": good["good0.txt"] + "\r\n",
        "headed1.txt": "first name\n" + "same words in the body of both " * 3,
        "headed2.txt": "second name\n" + "same words in the body of both! " * 3,
    }
    corpus.add("mixed", good | bad)
    corpus.add("other", {"again.txt": good["good1.txt"], **{f"own{i}.txt": prose(rng, 40) for i in range(60)}})
    corpus.add("code", {"bad.py": "def (", **{f"m{i}.py": f'"""{prose(rng, 20)}"""' for i in range(60)}}, "pydoc")
    corpus.documents(heldout_share=0.2)
    assert dropped(corpus) == {
        ("mixed", "not_utf8"): 1, ("mixed", "nul"): 1, ("mixed", "replacement"): 1, ("mixed", "blank"): 2,
        ("mixed", "short"): 1, ("mixed", "giant"): 1, ("mixed", "duplicate"): 1, ("mixed", "same_letters"): 1,
        ("other", "duplicate"): 1, ("code", "unparsed"): 1,
    }  # fmt: skip
    assert len(rows(corpus)) == 61 + 60 + 60
    assert {reason for _, reason in dropped(corpus)} <= set(clean.REASONS)


def test_rows_are_what_they_say(built):
    table = rows(built)
    assert [(r["stream"], r["position"]) for r in table] == sorted((r["stream"], r["position"]) for r in table)
    for stream in ("stable", "decay", "heldout"):
        positions = [r["position"] for r in table if r["stream"] == stream]
        assert positions == list(range(len(positions)))
    for row in table:
        assert row["id"] == hashlib.sha256(row["text"].encode()).hexdigest()
        assert row["bytes"] == len(row["text"].encode())
        assert row["stream"] == select.stream(row["id"], 0.2, 0.15)
    assert len({row["id"] for row in table}) == len(table) > 600
    assert len(table) + sum(n for (_, reason), n in dropped(built).items() if reason != "decay_near_duplicate") == 700


@pytest.mark.parametrize("content", [" \n ", b"\xff\xfe\xfa some bytes that are no text", "x" * 300_000, "tiny"])
def test_a_source_that_ends_empty_is_named(corpus, content):
    fill(corpus, {"good": 60})
    corpus.add("hollow", {"a.txt": content})
    with pytest.raises(UserError, match=r"source 'hollow': no document of .* survives cleaning \(dropped: 1 "):
        corpus.documents()
    assert not corpus.path("documents.parquet").exists()


def test_a_source_without_heldout_documents_is_named(corpus):
    fill(corpus, {"good": 100, "single": 1})
    with pytest.raises(UserError, match=r"source 'single' has no document in the (heldout|stable) stream"):
        corpus.documents(heldout_share=0.2)


def test_a_package_without_the_file(corpus):
    corpus.add("one", {"a.txt": "text"}, glob="docs/*.md")
    with pytest.raises(UserError, match=r"source 'one', one-1.0-py3-none-any.whl: no file matches 'docs/\*.md'"):
        corpus.documents()


def test_a_package_that_changed_or_is_gone(corpus):
    wheel = corpus.add("one", {"a.txt": "text"})
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(UserError, match=r"one-1.0-py3-none-any.whl: sha256 is \w+, the table of sources says"):
        corpus.documents()
    wheel.unlink()
    with pytest.raises(UserError, match="no longer in the cache"):
        corpus.documents()


def test_a_command_ends_with_one_line_and_no_output(corpus):
    corpus.add("one", {"a.txt": " \n"})
    result = subprocess.run(
        [sys.executable, "-m", "smelt.corpus.documents.documents", "--spec", "{}", "--sources", str(corpus.table),
         "--receipt", str(corpus.table), "--packages", str(corpus.packages), "--processes", "2",
         "--documents", str(corpus.path("documents.parquet")), "--cleaning", str(corpus.path("cleaning.parquet"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith("error: source 'one': no document of one-1.0-py3-none-any.whl survives")
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in corpus.folder.iterdir()) == ["cache", "sources.tsv"]


def test_data_of_another_form_than_its_rule(corpus):
    corpus.add("one", {"a.json": "[1, 2]"}, rule="registry:5")
    with pytest.raises(UserError, match=r"source 'one', .*: a.json is not of the form that rule 'registry:5' reads"):
        corpus.documents()


def test_the_number_of_processes_changes_no_byte(corpus):
    fill(corpus, {"letters": 60, "notes": 60, "poems": 60})
    one = corpus.documents(heldout_share=0.2).read_bytes()
    cleaning = corpus.path("cleaning.parquet").read_bytes()
    corpus.path("documents.parquet").unlink()
    assert corpus.documents(processes=2, heldout_share=0.2).read_bytes() == one
    assert corpus.path("cleaning.parquet").read_bytes() == cleaning


def test_shares_by_weight_and_what_is_short_goes_to_the_others(corpus):
    fill(corpus, {"letters": 400, "notes": 400})
    corpus.add("small", {f"{i}.txt": prose(random.Random(i), 20) for i in range(40)}, category="Code")
    corpus.rows[1]["category"] = "Finance"
    corpus.write()
    corpus.documents(megabytes=0.3, weights={"Web": 2.0}, heldout_share=0.1)
    train = Counter()
    for row in rows(corpus):
        if row["stream"] != "heldout":
            train[row["source"]] += row["bytes"]
    available = sum(len(prose(random.Random(i), 20)) for i in range(40))
    assert train["small"] == pytest.approx(available * 0.9, rel=0.2)
    assert train["letters"] / train["notes"] == pytest.approx(2, rel=0.1)
    assert sum(train.values()) == pytest.approx(0.27e6, rel=0.05)


def test_more_text_moves_no_document_to_another_stream(tmp_path):
    small, large = Corpus(tmp_path / "small"), Corpus(tmp_path / "large")
    for corpus, size in ((small, 0.1), (large, 0.25)):
        fill(corpus, {"letters": 200, "notes": 200})
        corpus.documents(megabytes=size, heldout_share=0.1)
    streams = {row["id"]: row["stream"] for row in rows(large)}
    assert all(streams.get(row["id"]) == row["stream"] for row in rows(small))
    assert len(streams) > 1.5 * len(rows(small))


def test_every_prefix_has_the_mix_of_the_whole(built):
    stable = [row for row in rows(built) if row["stream"] == "stable"]
    total = sum(row["bytes"] for row in stable)
    share = sum(row["bytes"] for row in stable if row["source"] == "letters") / total
    longest = max(row["bytes"] for row in stable)
    so_far = letters = 0
    for row in stable:
        so_far += row["bytes"]
        letters += row["bytes"] * (row["source"] == "letters")
        assert abs(letters - share * so_far) <= longest


def twin(text: str) -> str:
    """The text with its last word changed."""
    return text.rsplit(" ", 1)[0] + " otherwise"


def test_no_held_out_document_has_a_twin_in_the_training_text(corpus):
    rng = random.Random(3)
    originals = [prose(rng, 120) for _ in range(120)]
    corpus.add(
        "twins", {f"{i}{half}.txt": text for i, t in enumerate(originals) for half, text in (("a", t), ("b", twin(t)))}
    )
    corpus.documents(heldout_share=0.3, decay_share=0.3)
    table = rows(corpus)
    sides = {row["text"]: row["stream"] for row in table}
    expected_drops = expected_twins = 0
    for original in originals:
        first, second = (
            select.stream(hashlib.sha256(t.encode()).hexdigest(), 0.3, 0.3) for t in (original, twin(original))
        )
        if "heldout" in (first, second) and first != second:
            expected_drops += 1
            kept = sides.get(original) or sides.get(twin(original))
            assert kept in ("stable", "decay")
            assert (original in sides) != (twin(original) in sides)
        elif {first, second} == {"stable", "decay"}:
            expected_twins += 1
            assert original in sides
            assert twin(original) in sides
    assert expected_drops > 20
    assert dropped(corpus)["twins", "near_duplicate"] == expected_drops
    assert dropped(corpus)["twins", "decay_near_duplicate"] == expected_twins > 10


def words(text: str) -> list[str]:
    return text.lower().split()


def runs(text: str) -> list[tuple[str, ...]]:
    """All runs of 13 words, by the definition."""
    return [tuple(words(text)[i : i + 13]) for i in range(len(words(text)) - 12)]


def test_held_out_documents_that_training_text_contains_are_dropped(corpus):
    rng = random.Random(5)
    originals = [prose(rng, 200) for _ in range(60)]
    # A passage of an original, and as much of its own: no near-duplicate of it.
    quoting = [" ".join(words(t)[:40]) + " " + prose(rng, size) for t in originals for size in (20, 60, 200)]
    corpus.add("quotes", {f"{i}.txt": text for i, text in enumerate(originals + quoting)})
    corpus.documents(heldout_share=0.3)
    everything = {row["text"] for row in rows(corpus) if row["stream"] == "heldout"}
    training = {row["text"] for row in rows(corpus)} - everything
    known = {run for text in training for run in runs(text)}
    shares = {text: sum(run in known for run in runs(text)) / len(runs(text)) for text in everything}
    assert ("quotes", "overlap") not in dropped(corpus)
    corpus.documents(heldout_share=0.3, heldout_overlap=0.3)
    kept = {row["text"] for row in rows(corpus) if row["stream"] == "heldout"}
    assert kept == {text for text, share in shares.items() if share <= 0.3}
    assert {row["text"] for row in rows(corpus)} - kept == training
    assert dropped(corpus)["quotes", "overlap"] == len(everything) - len(kept) > 10
    assert len(kept) > 10


def test_others_take_the_place_of_held_out_documents_that_are_contained(corpus):
    rng = random.Random(6)
    originals = [prose(rng, 200) for _ in range(300)]
    quoting = [" ".join(words(t)[:40]) + " " + prose(rng, 20) for t in originals]
    corpus.add("quotes", {f"{i}.txt": text for i, text in enumerate(originals + quoting)})
    sizes = []
    for most in (1, 0.2):
        corpus.documents(heldout_share=0.2, megabytes=0.15, heldout_overlap=most)
        sizes.append(sum(row["bytes"] for row in rows(corpus) if row["stream"] == "heldout"))
    assert dropped(corpus)["quotes", "overlap"] > 5
    assert sizes[1] == pytest.approx(sizes[0], rel=0.15)


def test_similarity_threshold():
    words = [f"w{i}" for i in range(400)]
    index = neighbours.Index([("a", " ".join(words).encode())])
    near = " ".join(words[:370]).encode()  # 366 of 396 shingles: 0.92
    far = " ".join(words[:240]).encode()  # 236 of 396: 0.60
    assert index.has_twin(neighbours.signature(near))
    assert not index.has_twin(neighbours.signature(far))
    assert not index.has_twin(neighbours.signature(b"w1 w2"))
    short = neighbours.Index([("b", b"two words")])
    assert short.has_twin(neighbours.signature(b"Two  words!"))


@given(st.integers(0, 2**256 - 1), st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_split_grows_from_one_end(number, heldout, decay):
    """A larger held-out share takes documents from training and gives none back."""
    identity = f"{number:064x}"
    assert select.stream(identity, heldout, decay) in select.STREAMS
    if select.stream(identity, heldout, decay) == "heldout":
        assert select.stream(identity, min(0.99, heldout * 1.1), decay) == "heldout"


def test_split_has_the_shares_asked_for():
    sides = Counter(
        select.stream(hashlib.sha256(bytes([i % 256, i // 256])).hexdigest(), 0.05, 0.15) for i in range(20000)
    )
    shares = select.stream_shares(0.05, 0.15)
    assert sum(shares.values()) == pytest.approx(1)
    for name, count in sides.items():
        assert count / 20000 == pytest.approx(shares[name], abs=0.01)


@given(
    st.floats(0, 2000),
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0.01, 10), st.integers(0, 500)), min_size=1),
)
@settings(max_examples=200)
def test_allotment(total, sources):
    weights = {name: weight for name, (weight, _) in sources.items()}
    available = {name: size for name, (_, size) in sources.items()}
    given_out = select.allot(total, weights, available)
    assert given_out.keys() == weights.keys()
    assert all(0 <= given_out[name] <= available[name] + 1e-6 for name in weights)
    assert sum(given_out.values()) == pytest.approx(min(total, sum(available.values())), rel=1e-9, abs=1e-6)
    full = [name for name in weights if given_out[name] < available[name] - 1e-6]
    levels = [given_out[name] / weights[name] for name in full]
    assert all(level == pytest.approx(levels[0]) for level in levels)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(min_size=1, max_size=40)), unique=True))
def test_interleaving_loses_nothing_and_needs_no_order(pairs):
    documents = [Document(hashlib.sha256(text).hexdigest(), source, text) for source, text in pairs]
    placed = select.interleave(documents)
    assert sorted(placed) == sorted(documents)
    assert select.interleave(documents[::-1]) == placed
