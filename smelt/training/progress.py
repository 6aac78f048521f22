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
            print(f"{name}: resumed at step {done} of {total}", file=sys.stderr, flush=True)

    def step(self, loss: float) -> None:
        """Tell of one more step and its training loss."""
        self.done += 1
        self.bar.update()
        self.bar.set_postfix(loss=f"{loss:.3f}")
        tenth = max(1, self.total // 10)
        if self.bar.disable and (self.done % tenth == 0 or self.done == self.total):
            each = (time.monotonic() - self.start) / max(1, self.done - self.first)
            left = each * (self.total - self.done)
            print(
                f"{self.name}: step {self.done} of {self.total}, loss {loss:.4f}, "
                f"{each:.2f} s a step, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
