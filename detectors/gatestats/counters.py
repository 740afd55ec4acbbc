"""Exact increments from raw counter samples.

Rule 1: nothing is extrapolated and nothing is rounded: an increment is a difference of whole numbers.
Rule 2: a difference belongs to the tick that holds its later sample, so ticks that join without gap or overlap add up
exactly to the whole, and a missed scrape moves counts to the next tick instead of losing them.
Rule 3: no sample in a tick is None, "not observed", and never 0.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gatestats.counter_pair import Unusual, pair_gains
from gatestats.ticks import OneArmCounts

#: Above this, doubles no longer hold every whole number.
LARGEST_EXACT = 2**53
_TOLERANCE = 1e-9
#: What names a series: a label set, an `le`, whatever the caller has.
_Key = TypeVar("_Key")
_OtherKey = TypeVar("_OtherKey")


def whole(name: str, value: float) -> int:
    """Return a cumulative count as an int, or raise ValueError unless it is whole within 1e-9 and in 0..2^53."""
    if not 0 <= value <= LARGEST_EXACT:  # also refuses NaN
        raise ValueError(f"{name} must be in 0..2^53, got {value}")
    if abs(value - round(value)) > _TOLERANCE:
        raise ValueError(f"{name} must be a whole number, got {value}")
    return round(value)


@dataclass(frozen=True, slots=True)
class Sample:
    """One raw sample of a cumulative counter.

    Parameters
    ----------
    time
        Seconds since the epoch, finite.
    value
        Whole number within 1e-9, 0..2^53.
    """

    time: float
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise ValueError(f"time of a sample must be finite, got {self.time}")
        value = self.value
        # Nearly all are whole; a message made for each would cost more than all else that is done with a sample.
        if not (0 <= value <= LARGEST_EXACT and value == int(value)):
            whole(f"counter at {self.time}", value)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one target showed at one moment: a scrape is atomic, it succeeds or fails as a whole.

    Parameters
    ----------
    time
        Seconds since the epoch.
    values
        Cumulative value of each series that the target exported.
    """

    time: float
    values: Mapping[object, int]


def scrapes_of(series: Mapping[_Key, Sequence[Sample]]) -> list[Scrape]:
    """Join the series of one target into its scrapes, oldest first.

    Parameters
    ----------
    series
        Raw samples of each series of ONE target; any order; a repeated sample counts once.

    Raises
    ------
    ValueError
        If one series has two different values at one time.
    """
    table: dict[float, dict[object, int]] = {}
    for key, samples in series.items():
        for sample in samples:
            row, value = table.setdefault(sample.time, {}), round(sample.value)
            if row.setdefault(key, value) != value:
                raise ValueError(f"series {key} has two values at {sample.time}: {row[key]} and {value}")
    return [Scrape(time, table[time]) for time in sorted(table)]


def increase_between(samples: Sequence[Sample], start: float, end: float, *, born: bool = False) -> int | None:
    """Count what one counter gained in the half-open tick (start, end].

    Parameters
    ----------
    samples
        Raw samples of one series, with the last one at or before ``start`` if there is one; later than ``end`` are
        ignored. Any order.
    start, end
        Seconds since the epoch, start < end.
    born
        True only if the series is known to have begun after the attempt started, so that the first sample counts in
        full. Otherwise the first sample is where counting starts.

    Returns
    -------
    int or None
        Increments; a fall of the value is a restart from 0. None if no difference ends in the tick.

    Raises
    ------
    ValueError
        If the tick is empty or two different values share a time.
    """
    gained = gains_between({"": samples}, start, end, born=born)
    return None if gained is None else gained[""]


def gains_between(
    series: Mapping[_Key, Sequence[Sample]], start: float, end: float, *, born: bool = False
) -> dict[_Key, int] | None:
    """Count what each series of one target gained in (start, end], cut at the same scrapes.

    A series that the target first exports later (an error code seen for the first time) counts in full, if an earlier
    scrape of the target shows that it was absent. If the sum over the target's series falls, the process restarted
    and every series begins again at 0.

    Parameters
    ----------
    series
        Raw samples of each series of ONE target, with its last scrape at or before ``start`` if there is one.
    start, end, born
        See `increase_between`; ``born`` speaks of the target.

    Returns
    -------
    dict or None
        Increments of every series asked for (0 for those absent); None if no difference ends in the tick.
    """
    refuse_bad_tick(start, end)
    gained = fold(scrapes_of(series), Tally(start, end, born=born))
    return None if gained is None else {key: gained.get(key, 0) for key in series}


def count_events(
    events: Mapping[_Key, Sequence[Sample]],
    total: Mapping[_OtherKey, Sequence[Sample]],
    window: tuple[float, float],
    *,
    born: bool = False,
) -> OneArmCounts | None:
    """Count events and requests of one target in one tick, from the same scrapes.

    Parameters
    ----------
    events
        Raw samples of each series that counts events, of ONE target; may be empty while none has happened yet.
    total
        Raw samples of each series that counts requests, of the same target; events are among them.
    window
        Start and end of the half-open tick (start, end], seconds since the epoch.
    born
        See `increase_between`; speaks of the target.

    Returns
    -------
    OneArmCounts or None
        None if no difference ends in the tick. A scrape at which events ran ahead of requests (they are counted when
        a request ends, say) is passed over; its counts come with the next one.

    Raises
    ------
    ValueError
        If an event sample has no request sample of the same scrape beside it: the two must not be paired.
    """
    start, end = window
    refuse_bad_tick(start, end)
    if len(total) == 1 and len(events) <= 1:
        with contextlib.suppress(Unusual):
            pair = pair_gains(next(iter(events.values()), ()), next(iter(total.values())), window, born=born)
            return None if pair is None else OneArmCounts(*pair)
    scraped = {sample.time for samples in total.values() for sample in samples}
    for key, samples in events.items():
        for sample in samples:
            if sample.time not in scraped:
                raise ValueError(f"events {key} at {sample.time} come from a scrape without a total: cannot be paired")
    series: dict[object, Sequence[Sample]] = {("event", key): samples for key, samples in events.items()}
    series |= {("total", key): samples for key, samples in total.items()}
    gained = fold(scrapes_of(series), Tally(start, end, born=born, plausible=_events_within_total))
    if gained is None:
        return None
    return OneArmCounts(_sum_of(gained, "event"), _sum_of(gained, "total"))


def pool(targets: Iterable[OneArmCounts | None]) -> OneArmCounts | None:
    """Add up the targets of one variant; those not observed are left out; None if none was observed."""
    seen = [counts for counts in targets if counts is not None]
    if not seen:
        return None
    return OneArmCounts(sum(counts.events for counts in seen), sum(counts.total for counts in seen))


@dataclass(frozen=True, slots=True)
class Tally:
    """How to count: which tick, and what makes a difference believable.

    Parameters
    ----------
    start, end
        The half-open tick (start, end], seconds since the epoch.
    born
        Whether the first scrape counts in full.
    one_restart
        Whether the fall of a single series already means that all restarted (buckets of one histogram), or only the
        fall of their sum.
    plausible
        Judges the counts gained since the last believable scrape. While it says no, they are carried on.
    """

    start: float
    end: float
    born: bool = False
    one_restart: bool = False
    plausible: Callable[[Mapping[object, int]], bool] = lambda _: True


def fold(scrapes: Sequence[Scrape], tally: Tally) -> Counter[object] | None:
    """Count what every series gained in the tick; None if no believable difference ends in it.

    Parameters
    ----------
    scrapes
        Scrapes of one target, oldest first, also those before the tick: they set where counting starts.
    tally
        Tick and rules.
    """
    last: Mapping[object, int] | None = {} if tally.born else None
    pending: Counter[object] = Counter()
    gained: Counter[object] | None = None
    for scrape in scrapes:
        if scrape.time > tally.end:
            break
        if last is not None:
            known = {} if _restarted(last, scrape.values, one_restart=tally.one_restart) else last
            pending.update(_rises(known, scrape.values))
            last = {**known, **scrape.values}
            if tally.plausible(pending):
                if scrape.time > tally.start:
                    gained = (gained or Counter()) + pending
                pending = Counter()
        else:
            last = scrape.values
    return gained


def _restarted(last: Mapping[object, int], now: Mapping[object, int], *, one_restart: bool) -> bool:
    shared = last.keys() & now.keys()
    if one_restart:
        return any(now[key] < last[key] for key in shared)
    return sum(now[key] for key in shared) < sum(last[key] for key in shared)


def _rises(last: Mapping[object, int], now: Mapping[object, int]) -> dict[object, int]:
    """Differences; a series that fell alone began again at 0, one that was absent began at 0."""
    return {key: value - last.get(key, 0) if value >= last.get(key, 0) else value for key, value in now.items()}


def _events_within_total(gained: Mapping[object, int]) -> bool:
    return _sum_of(gained, "event") <= _sum_of(gained, "total")


def _sum_of(gained: Mapping[object, int], kind: str) -> int:
    return sum(count for key, count in gained.items() if isinstance(key, tuple) and key[0] == kind)


def refuse_bad_tick(start: float, end: float) -> None:
    """Raise ValueError unless start < end."""
    if not start < end:  # also refuses NaN
        raise ValueError(f"a tick must end after it starts, got ({start}, {end}]")
