"""Small packages built on the spot, and the corpus's commands on them; nothing here needs a network."""

import hashlib
import io
import json
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import settings

from smelt.corpus.contexts import heldout, shard, tokenizer
from smelt.corpus.documents import documents
from smelt.corpus.sources.registry import COLUMNS

settings.register_profile("shared_machine", deadline=None)  # a busy machine is no failure
settings.load_profile("shared_machine")
WORDS = (
    "the river stone runs under old bridge while morning light falls slow across quiet water and small boats "
    "drift past green banks where tall reeds bend over silver fish that turn below cold mud"
).split()


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) + str(rng.randrange(100)) for _ in range(words))


def zip_bytes(members: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


class Corpus:
    """A folder with packages, a table of sources and what the commands make of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "cache" / "packages"
        self.packages.mkdir(parents=True)
        self.table = folder / "sources.tsv"
        self.rows: list[dict[str, str]] = []

    def add(
        self, name: str, members: dict[str, bytes | str], rule: str = "file", glob: str = "*", **other: str
    ) -> Path:
        """A package with these members, and the source that reads it."""
        wheel = self.packages / f"{name}-1.0-py3-none-any.whl"
        metadata = {
            f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{name}-1.0.dist-info/RECORD": "",
        }
        wheel.write_bytes(zip_bytes(members | metadata))
        row = {
            "source": name,
            "category": "Web",
            "package": name,
            "version": "1.0",
            "file": wheel.name,
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "glob": glob + ";!*.dist-info/*",
            "rule": rule,
            "licence": "CC0-1.0",
        }
        self.rows.append(row | other)
        self.write()
        return wheel

    def write(self) -> None:
        lines = ["\t".join(COLUMNS), *("\t".join(row[name] for name in COLUMNS) for row in self.rows)]
        self.table.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def path(self, name: str) -> Path:
        return self.folder / name

    def documents(self, processes: int = 1, **settings: object) -> Path:
        receipt = self.path("packages.parquet")
        receipt.write_bytes(b"receipt")
        documents.main(
            f"--spec {json.dumps(settings, separators=(',', ':'))} --sources {self.table} --receipt {receipt}"
            f" --packages {self.packages} --processes {processes} --documents {self.path('documents.parquet')}"
            f" --cleaning {self.path('cleaning.parquet')}".split(" ")
        )
        return self.path("documents.parquet")

    def tokenizer(self, vocabulary: int = 300) -> Path:
        out = self.path("tokenizer.json")
        tokenizer.main(
            ["--spec", json.dumps({"vocabulary": vocabulary}), "--documents", str(self.path("documents.parquet")),
             "--out", str(out)]
        )  # fmt: skip
        return out

    def shard(self, stream: str, number: int, needed: int = 0, **settings: int) -> Path:
        out = self.path(f"{stream}/shard-{number:05d}.parquet")
        previous = [str(self.path(f"{stream}/shard-{number - 1:05d}.parquet"))] if number else []
        shard.main(
            ["--spec", json.dumps(settings), "--stream", stream, "--shard", f"{number:05d}", "--needed", str(needed),
             "--documents", str(self.path("documents.parquet")), "--tokenizer", str(self.path("tokenizer.json")),
             "--previous", *previous, "--out", str(out)]
        )  # fmt: skip
        return out

    def heldout(self, **settings: int) -> Path:
        out = self.path("heldout.parquet")
        heldout.main(
            ["--spec", json.dumps(settings), "--documents", str(self.path("documents.parquet")),
             "--tokenizer", str(self.path("tokenizer.json")), "--out", str(out)]
        )  # fmt: skip
        return out


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


def fill(corpus: Corpus, sources: dict[str, int], shortest: int = 10) -> None:
    """Sources of so many documents of prose, of `shortest` to 40 times as many words."""
    for name, count in sources.items():
        rng = random.Random(name)
        texts = [prose(rng, int(shortest * 40 ** rng.random())) for _ in range(count)]
        corpus.add(name, {f"{name}/{i:04d}.txt": text for i, text in enumerate(texts)})


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A corpus of two sources with documents and tokenizer."""
    corpus = Corpus(tmp_path_factory.mktemp("corpus"))
    fill(corpus, {"letters": 400, "notes": 300}, shortest=2)
    corpus.documents(heldout_share=0.2)
    corpus.tokenizer()
    return corpus
