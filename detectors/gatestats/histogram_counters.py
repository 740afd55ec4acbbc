"""Exact bucket counts from raw histogram samples, classic and native.

The rules of `gatestats.counters` hold here too. The buckets of one histogram restart together. Classic buckets are
cumulative over ``le``; a scrape caught between two of their updates is passed over and its counts come with the next.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gatestats.counters import LARGEST_EXACT, Sample, Tally, fold, refuse_bad_tick, scrapes_of, whole


def classic_gains(
    series: Mapping[float, Sequence[Sample]], window: tuple[float, float], *, born: bool = False
) -> dict[tuple[float, float], int] | None:
    """Count what each bucket of one target's classic histogram gained in the half-open tick (start, end].

    Parameters
    ----------
    series
        Raw samples of each cumulative bucket of ONE target, by its ``le`` parsed as a number; ``inf`` among them.
        With the last scrape at or before the start.
    window
        Start and end of the tick, seconds since the epoch.
    born
        True only if the target is known to have begun after the attempt started; see `increase_between`.

    Returns
    -------
    dict or None
        Count by bounds (low, high], low of the first is 0; None if no difference ends in the tick.

    Raises
    ------
    ValueError
        If ``inf`` is missing, or a scrape lacks one of the buckets.
    """
    start, end = window
    refuse_bad_tick(start, end)
    edges = sorted(series)
    if math.inf not in series:
        raise ValueError(f"a classic histogram needs the bucket le=+Inf, got {edges}")
    scrapes = scrapes_of(series)
    for scrape in scrapes:
        if len(scrape.values) != len(edges):
            missing = [edge for edge in edges if edge not in scrape.values]
            raise ValueError(f"the scrape at {scrape.time} lacks the buckets {missing}: unequal buckets")

    def rising(gained: Mapping[object, int]) -> bool:
        return all(gained.get(low, 0) <= gained.get(high, 0) for low, high in pairwise(edges))

    gained = fold(scrapes, Tally(start, end, born=born, one_restart=True, plausible=rising))
    if gained is None:
        return None
    bounds = pairwise([0.0, *edges])
    return {(low, high): gained.get(high, 0) - gained.get(low, 0) for low, high in bounds}


@dataclass(frozen=True, slots=True)
class NativeSample:
    """One raw sample of a native histogram.

    Parameters
    ----------
    time
        Seconds since the epoch, finite.
    buckets
        Cumulative-in-time count of each bucket by its bounds (low, high]; not cumulative over buckets.
    """

    time: float
    buckets: Mapping[tuple[float, float], float]

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise ValueError(f"time of a sample must be finite, got {self.time}")
        for (low, high), count in self.buckets.items():
            if not low < high:
                raise ValueError(f"a bucket at {self.time} must have low < high, got ({low}, {high}]")
            # As in `Sample`: a message made for each would cost more than all else.
            if not (0 <= count <= LARGEST_EXACT and count == int(count)):
                whole(f"bucket ({low}, {high}] at {self.time}", count)


def native_gains(
    samples: Sequence[NativeSample], window: tuple[float, float], *, born: bool = False
) -> dict[tuple[float, float], int] | None:
    """Count what each bucket of one target's native histogram gained in the half-open tick (start, end].

    Buckets that the target has merged since (a lower resolution, a wider zero bucket) are merged in the past as well.
    Where the past does not fit into the buckets of now, or exceeds them, the histogram restarted.

    Parameters
    ----------
    samples
        Raw samples of ONE target with the last one at or before the start; any order; a repeated sample counts once.
    window, born
        See `classic_gains`.

    Returns
    -------
    dict or None
        Count by bounds; None if no difference ends in the tick.
    """
    start, end = window
    refuse_bad_tick(start, end)
    last: Mapping[tuple[float, float], int] | None = {} if born else None
    gained: dict[tuple[float, float], int] | None = None
    for time, now in _in_order(samples, start):
        if time > end:
            break
        if last is not None and time > start:
            gained = {} if gained is None else gained
            past = _merged(last, now)
            for bounds, count in now.items():
                gained[bounds] = gained.get(bounds, 0) + count - past.get(bounds, 0)
        last = now
    return gained


def _in_order(samples: Sequence[NativeSample], start: float) -> list[tuple[float, dict[tuple[float, float], int]]]:
    """Return the samples from the last one at or before the start."""
    before = max((sample.time for sample in samples if sample.time <= start), default=start)
    table: dict[float, dict[tuple[float, float], int]] = {}
    for sample in samples:
        if sample.time < before:
            continue
        now = {bounds: round(count) for bounds, count in sample.buckets.items()}
        if table.setdefault(sample.time, now) != now:
            raise ValueError(f"the native histogram has two values at {sample.time}")
    return sorted(table.items())


def _merged(
    last: Mapping[tuple[float, float], int], now: Mapping[tuple[float, float], int]
) -> Mapping[tuple[float, float], int]:
    """Return the past counts in the buckets of now; empty after a restart."""
    past: dict[tuple[float, float], int] = {}
    for bounds, count in last.items():
        home = bounds if bounds in now else _container(bounds, now)
        if count and home is None:
            return {}
        if count and home is not None:
            past[home] = past.get(home, 0) + count
    return past if all(count <= now[bounds] for bounds, count in past.items()) else {}


def _container(bounds: tuple[float, float], now: Mapping[tuple[float, float], int]) -> tuple[float, float] | None:
    low, high = bounds
    return next((home for home in now if home[0] <= low and high <= home[1]), None)
