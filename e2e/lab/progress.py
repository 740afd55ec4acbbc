"""Say how far a build is: one live line on a terminal, plain lines elsewhere."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from e2e.lab.waiting import stopwatch

_PLAIN_EVERY_SECONDS = 30.0
_LIVE_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress through `total` programs, written to `stream`."""

    total: int
    stream: TextIO

    @property
    def _live(self) -> bool:
        return self.stream.isatty()

    @contextmanager
    def step(self, number: int, name: str) -> Iterator[None]:
        """Show that program `number` (from 1) is being built, and for how long it has been."""
        elapsed, done = stopwatch(), threading.Event()
        label = f"[{number}/{self.total}] {name}"
        if not self._live:
            self._say(f"{label}: building")
        ticker = threading.Thread(target=self._tick, args=(label, elapsed, done), daemon=True)
        ticker.start()
        try:
            yield
        except BaseException:
            self._finish(ticker, done, f"{label}: failed after {elapsed():.0f} s")
            raise
        self._finish(ticker, done, f"{label}: built in {elapsed():.0f} s")

    def _tick(self, label: str, elapsed: Callable[[], float], done: threading.Event) -> None:
        while not done.wait(_LIVE_EVERY_SECONDS if self._live else _PLAIN_EVERY_SECONDS):
            if self._live:
                self.stream.write(f"\r\x1b[K{label}: building, {elapsed():.0f} s")
                self.stream.flush()
            else:
                self._say(f"{label}: building, {elapsed():.0f} s so far")

    def _finish(self, ticker: threading.Thread, done: threading.Event, line: str) -> None:
        done.set()
        ticker.join()
        if self._live:
            self.stream.write("\r\x1b[K")
        self._say(line)

    def _say(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.stream.flush()


def on_stderr(total: int) -> Progress:
    """Return the progress of `total` programs, shown where people look and pipes do not."""
    return Progress(total, sys.stderr)
