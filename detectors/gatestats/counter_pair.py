"""The quick way to count one series of events among one series of requests: most targets have no others.

What comes out is what `gatestats.counters.fold` says of the same samples, about ten times sooner.
"""

from collections.abc import Sequence
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
    times = [sample.time for sample in samples]
    return sorted(set(times)) == times


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
    seen = {sample.time: round(sample.value) for sample in events}
    gained: tuple[int, int] | None = None
    begun, last_event, last_total, more_events, more = born, None, 0, 0, 0
    for sample in total:
        time, count, event = sample.time, round(sample.value), seen.get(sample.time)
        if time > end:
            break
        if begun:
            if _fell(last_event, event, last_total - count):  # restarted: every series begins again at 0
                last_event, last_total = None, 0
            if event is not None:
                more_events += _rise(last_event or 0, event)
            more += _rise(last_total, count)
            if more_events <= more:
                if time > start:
                    gained = (more_events, more) if gained is None else (gained[0] + more_events, gained[1] + more)
                more_events = more = 0
        last_event = last_event if begun and event is None else event
        begun, last_total = True, count
    return gained


def _fell(last_event: int | None, event: int | None, fall: int) -> bool:
    """Return whether the sum over the series that were shown both times fell; ``fall`` is that of the total."""
    return fall + (0 if last_event is None or event is None else last_event - event) > 0


def _rise(before: int, now: int) -> int:
    """Return what a counter gained; one that fell alone began again at 0."""
    return now - before if now >= before else now
