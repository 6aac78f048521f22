"""Archives that must be refused, each with one error that names archive and member."""

import gzip
import io
import lzma
import stat
import zipfile

import pytest

from smelt.corpus.sources import archive
from smelt.errors import UserError
from tests.corpus.conftest import zip_bytes


def with_member(change) -> bytes:
    """A zip with one member whose entry `change` has altered."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        info = zipfile.ZipInfo("text.txt")
        change(info)
        file.writestr(info, "text")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name", ["../evil.txt", "a/../../evil.txt", "a\\..\\evil.txt", "/etc/evil", "C:/evil", "\\evil"]
)
def test_path_escapes_are_refused(name):
    with pytest.raises(UserError, match=r"wheel.*(evil|etc).*refused"):
        archive.open_zip(zip_bytes({"good.txt": "text", name: "text"}), "wheel")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_special_files_are_refused(kind):
    def change(info):
        info.create_system = 3
        info.external_attr = (kind | 0o777) << 16

    with pytest.raises(UserError, match=r"wheel: member 'text.txt' is a link"):
        archive.open_zip(with_member(change), "wheel")


def test_an_encrypted_member_is_refused():
    data = bytearray(zip_bytes({"text.txt": "text"}))
    entry = data.index(b"PK\x01\x02")
    data[entry + 8] |= 1  # the flag in the central directory
    with pytest.raises(UserError, match=r"'text\.txt' is encrypted"):
        archive.open_zip(bytes(data), "wheel")


def test_a_bomb_is_refused_before_it_expands():
    with pytest.raises(UserError, match=r"'zeros' expands .* times"):
        archive.open_zip(zip_bytes({"zeros": bytes(20_000_000)}), "wheel")


def test_limits_on_member_and_total(monkeypatch):
    data = zip_bytes({"a": "x" * 100, "b": "y" * 100})
    monkeypatch.setattr(archive, "TOTAL_BYTES", 150)
    with pytest.raises(UserError, match="wheel: expands to 200 bytes"):
        archive.open_zip(data, "wheel")
    monkeypatch.setattr(archive, "MEMBER_BYTES", 99)
    with pytest.raises(UserError, match="'a' expands to 100 bytes"):
        archive.open_zip(data, "wheel")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_members(suffix, pack, monkeypatch):
    assert archive.decompress(pack(b"text"), f"a{suffix}") == b"text"
    assert archive.decompress(b"text", "a.json") == b"text"
    with pytest.raises(UserError, match="times, more than"):
        archive.decompress(pack(bytes(5_000_000)), f"a{suffix}")
    with pytest.raises(UserError, match="cannot be decompressed"):
        archive.decompress(pack(b"text" * 100)[:-9], f"a{suffix}")
    monkeypatch.setattr(archive, "MEMBER_BYTES", 3)
    with pytest.raises(UserError, match="expands to more than 3 bytes"):
        archive.decompress(pack(b"text"), f"a{suffix}")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_broken_archives():
    with pytest.raises(UserError, match="not a readable zip"):
        archive.open_zip(b"no zip at all", "wheel")
    good = zip_bytes({"text.txt": "text " * 100})
    with pytest.raises(UserError, match="not a readable zip"):
        archive.open_zip(good[:-30], "wheel")
    damaged = bytearray(good)
    damaged[45] ^= 0xFF
    with pytest.raises(UserError, match=r"wheel: member 'text.txt' cannot be read"):
        archive.read_member(archive.open_zip(bytes(damaged), "wheel"), "text.txt", "wheel")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a", "1")
        file.writestr("a", "2")
    with pytest.raises(UserError, match="'a' is there twice"):
        archive.open_zip(buffer.getvalue(), "wheel")


def test_globs():
    opened = archive.open_zip(zip_bytes({"a/x.py": "", "a/tests/y.py": "", "a/z.txt": "", "d/": ""}), "wheel")
    assert list(archive.matching(opened, "a/*.py;!*/tests/*", "wheel")) == ["a/x.py"]
    with pytest.raises(UserError, match=r"wheel: no file matches '\*\.md'; fix `glob`"):
        archive.matching(opened, "*.py;*.md", "wheel").__next__()
