"""Scores that stay between runs of a job: one file for one endpoint's weights, code and precision.

A database and no table in memory, so that a job's memory does not grow with what it has scored.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from smelt.errors import UserError
from smelt.evaluation.scoring.log_likelihood import Scored

SAVE_SECONDS = 10.0  # between saves: what a kill may cost
ASKED = 500  # trees in one question to the database
ENTRY = np.dtype([("log_probability", "<f8"), ("greedy", "?")])


class ScoreCache:
    """The kept scores of branch `branch` whose identity is `identity`; those of another identity are removed."""

    def __init__(self, folder: Path, branch: int, identity: str) -> None:
        self.path = folder / f"branch-{branch}-{identity}.sqlite"
        for other in folder.glob(f"branch-{branch}-*"):
            if not other.name.startswith(self.path.name):
                other.unlink()
        with self._explained():
            self.base = sqlite3.connect(self.path, isolation_level=None)
            self.base.execute("CREATE TABLE IF NOT EXISTS trees (tree TEXT PRIMARY KEY, scores BLOB) WITHOUT ROWID")
            self.base.execute("BEGIN")
        self.saved = time.monotonic()

    def find(self, trees: Sequence[str]) -> dict[str, list[Scored]]:
        """Those of the trees that are kept."""
        found: dict[str, list[Scored]] = {}
        for start in range(0, len(trees), ASKED):
            some = trees[start : start + ASKED]
            question = f"SELECT tree, scores FROM trees WHERE tree IN ({','.join('?' * len(some))})"
            with self._explained():
                for tree, scores in self.base.execute(question, some):
                    found[tree] = [Scored(*entry) for entry in np.frombuffer(scores, ENTRY).tolist()]
        return found

    def add(self, tree: str, scores: Sequence[Scored]) -> None:
        """Keep the scores of a tree; they are on the disk some seconds later."""
        with self._explained():
            entries = np.array([tuple(one) for one in scores], dtype=ENTRY)
            self.base.execute("INSERT OR REPLACE INTO trees VALUES (?, ?)", (tree, entries.tobytes()))
        if time.monotonic() - self.saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Bring to the disk what was added."""
        with self._explained():
            self.base.execute("COMMIT")
            self.base.execute("BEGIN")
        self.saved = time.monotonic()

    def close(self) -> None:
        """Save and let go, also after a failure."""
        with contextlib.suppress(sqlite3.Error):
            self.base.execute("COMMIT")
        self.base.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            if "full" in str(error):
                raise UserError(f"{self.path}: the disk is full; free some space and start again") from None
            raise UserError(f"{self.path}: not readable as kept scores ({error}); delete it and run again") from None
