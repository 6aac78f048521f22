"""Read archives that come from elsewhere, without trusting them.

A package is only ever read: it is held in memory, its members are read one by one, and nothing is
unpacked, imported or run. An archive that tries a path escape, carries a link or a password, or grows
beyond the limits is refused as a whole.
"""

import fnmatch
import gzip
import io
import lzma
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator

from smelt.errors import UserError

MEMBER_BYTES = 256 * 2**20  # the largest member of any source's package has 91 MB once expanded
TOTAL_BYTES = 2 * 2**30
MEMBERS = 200_000
RATIO = 200  # text deflates by 3 to 20 times; a bomb by 1000
RATIO_FLOOR = 2**20  # bytes below which a high ratio does no harm
# What the standard library raises on a damaged file, in memory (found by flipping bytes at random).
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    ValueError,
    EOFError,
    OSError,
    struct.error,
)


def open_zip(data: bytes, name: str) -> zipfile.ZipFile:
    """The zip archive in `data`, once every member has passed the checks. `name` is for messages."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except UNREADABLE as error:
        raise UserError(f"{name}: not a readable zip archive ({error}); delete it and run again") from None
    members = archive.infolist()
    if len(members) > MEMBERS:
        raise UserError(f"{name}: {len(members)} members, more than the {MEMBERS} that are accepted")
    seen: set[str] = set()
    for member in members:
        _check(member, name)
        if member.filename in seen:
            raise UserError(f"{name}: member {member.filename!r} is there twice; the archive is refused")
        seen.add(member.filename)
    total = sum(member.file_size for member in members)
    if total > TOTAL_BYTES:
        raise UserError(f"{name}: expands to {total} bytes, more than the {TOTAL_BYTES} that are accepted")
    return archive


def _check(member: zipfile.ZipInfo, name: str) -> None:
    path = member.orig_filename
    place = f"{name}: member {path!r}"
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path) or "\0" in path:
        raise UserError(f"{place} has an absolute path; the archive is refused")
    if ".." in re.split(r"[/\\]", path):
        raise UserError(f"{place} leaves the archive's folder (..); the archive is refused")
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UserError(f"{place} is a link or a special file; the archive is refused")
    if member.flag_bits & 0x1:
        raise UserError(f"{place} is encrypted; the archive is refused")
    if member.file_size > MEMBER_BYTES:
        raise UserError(f"{place} expands to {member.file_size} bytes, more than the {MEMBER_BYTES} accepted")
    _check_ratio(member.compress_size, member.file_size, place)


def _check_ratio(packed: int, unpacked: int, place: str) -> None:
    if unpacked > RATIO_FLOOR and unpacked > RATIO * max(packed, 1):
        raise UserError(f"{place} expands {unpacked // max(packed, 1)} times, more than {RATIO}: taken for a bomb")


def read_member(archive: zipfile.ZipFile, member: str, name: str) -> bytes:
    """The bytes of one member; zipfile stops at the size that the archive declares, which was checked."""
    try:
        return archive.read(member)
    except UNREADABLE as error:
        raise UserError(f"{name}: member {member!r} cannot be read ({error}); delete the file and run again") from None


def decompress(data: bytes, name: str) -> bytes:
    """The content of a `.gz` or `.xz` file, by its name; other files come back as they are."""
    if not name.endswith((".gz", ".xz")):
        return data
    try:
        raw = io.BytesIO(data)
        with gzip.GzipFile(fileobj=raw) if name.endswith(".gz") else lzma.LZMAFile(raw) as file:
            content = file.read(MEMBER_BYTES + 1)
    except UNREADABLE as error:
        raise UserError(f"{name}: cannot be decompressed ({error}); delete the package and run again") from None
    if len(content) > MEMBER_BYTES:
        raise UserError(f"{name}: expands to more than {MEMBER_BYTES} bytes")
    _check_ratio(len(data), len(content), name)
    return content


def matching(archive: zipfile.ZipFile, glob: str, name: str) -> Iterator[str]:
    """The files of the archive, sorted, that match a `;`-joined glob with `!` exclusions.

    `*` also matches `/`. Raises UserError for a pattern that matches nothing: the package is not the
    one that the table was written for.
    """
    patterns = glob.split(";")
    files = sorted(member.filename for member in archive.infolist() if not member.is_dir())
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    for pattern in wanted:
        if not fnmatch.filter(files, pattern):
            raise UserError(f"{name}: no file matches {pattern!r}; fix `glob` in the table of sources")
    excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    accept, refuse = _union(wanted), _union(excluded)
    return (file for file in files if accept.match(file) and not refuse.match(file))


def _union(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)")
