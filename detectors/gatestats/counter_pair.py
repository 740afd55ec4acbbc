"""The quick way to count one series of events among one series of requests: most targets have no others.

What comes out is what `gatestats.counters.fold` says of the same samples, about ten times sooner.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol


class TimedValue(Protocol):
    """A raw sample; see `gatestats.counters.Sample`."""

    @property
    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    @property
    def value(self) -> float:
        """Cumulative count."""
        ...


def in_order(samples: Sequence[TimedValue]) -> bool:
    """Return whether times increase strictly."""
    return all(before.time < after.time for before, after in pairwise(samples))


def pair_gains(
    events: Sequence[TimedValue], total: Sequence[TimedValue], window: tuple[float, float], *, born: bool
) -> tuple[int, int] | None:
    """Return what events and requests gained in (start, end]; None if no believable difference ends in it.

    Parameters
    ----------
    events, total
        Raw samples with strictly increasing times; every time of ``events`` is one of ``total``.
    window
        Start and end, seconds since the epoch, start < end.
    born
        Whether the first scrape counts in full.
    """
    start, end = window
    walk = _Walk(begun=born)
    later = iter(events)
    event = next(later, None)
    gained: tuple[int, int] | None = None
    for sample in total:
        if sample.time > end:
            break
        seen = None
        if event is not None and event.time == sample.time:
            seen, event = round(event.value), next(later, None)
        if walk.step(seen, round(sample.value)):
            if sample.time > start:
                before = gained or (0, 0)
                gained = before[0] + walk.events, before[1] + walk.total
            walk.events = walk.total = 0
    return gained


class _Walk:
    """From scrape to scrape: what was shown last, and what was gained since the last believable scrape."""

    __slots__ = ("begun", "events", "last_event", "last_total", "total")

    def __init__(self, *, begun: bool) -> None:
        self.begun = begun
        self.events = self.total = self.last_total = 0
        #: None while the target has not exported the series.
        self.last_event: int | None = None

    def step(self, event: int | None, total: int) -> bool:
        """Take one scrape; return whether it ends a believable difference."""
        if not self.begun:
            self.begun, self.last_event, self.last_total = True, event, total
            return False
        both = event is not None and self.last_event is not None
        fall = self.last_total - total + ((self.last_event or 0) - (event or 0) if both else 0)
        if fall > 0:  # restarted: every series begins again at 0
            self.last_event, self.last_total = None, 0
        if event is not None:
            known = self.last_event or 0
            self.events += event - known if event >= known else event
            self.last_event = event
        self.total += total - self.last_total if total >= self.last_total else total
        self.last_total = total
        return self.events <= self.total
