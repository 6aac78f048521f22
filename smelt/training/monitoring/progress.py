"""How far a long job is: a bar on a terminal, plain lines in a log."""

import sys
import time

from tqdm import tqdm


class Progress:
    """Counts steps of `total`; in a log it prints a line at every tenth of the way."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self.name, self.total, self.done = name, total, done
        self.start, self.first = time.monotonic(), done
        self.bar = tqdm(total=total, initial=done, desc=name, disable=not sys.stderr.isatty())
        if done:
            self._resumed()

    def left(self) -> float:
        """Seconds to the end, at the pace so far."""
        return self._each() * (self.total - self.done)

    def skip_to(self, done: int) -> None:
        """Go on behind `done` steps, some of which were not taken now."""
        if done != self.done:
            self.bar.update(done - self.done)
            self.start, self.first, self.done = time.monotonic(), done, done
            self._resumed()

    def step(self, loss: float, more: str = "") -> None:
        """Tell of one more step, its training loss, and what else is to be said."""
        self.done += 1
        self.bar.update()
        said = f"{loss:.4f}{', ' if more else ''}{more}"
        self.bar.set_postfix_str(f"loss {said}")
        tenth = max(1, self.total // 10)
        if self.bar.disable and (self.done % tenth == 0 or self.done == self.total):
            print(
                f"{self.name}: step {self.done} of {self.total}, loss {said}, "
                f"{self._each():.2f} s a step, {self.left():.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    def _each(self) -> float:
        return (time.monotonic() - self.start) / max(1, self.done - self.first)

    def _resumed(self) -> None:
        print(f"{self.name}: resumed at step {self.done} of {self.total}", file=sys.stderr, flush=True)
