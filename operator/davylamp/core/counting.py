"""Count what each scraped target gained since it was counted last.

A scrape carries the time at which it began and can be queried a moment later. Were every target counted up to the same
instant, a scrape that is under way at that instant would be passed over for good. So each target has a cursor of its
own: the time of its last sample that was counted. From there its next window begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from davylamp.core.model import Variant
from davylamp.core.reading import SignalReading, Target
from gatestats.buckets import pool_buckets
from gatestats.counters import count_events, pool
from gatestats.histogram_counters import NativeSample, classic_gains, native_gains
from gatestats.ticks import OneArmCounts

Buckets = Mapping[tuple[float, float], int]
#: Time of the last sample that was counted, seconds since the epoch, by gate, variant and target.
Cursors = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Span:
    """What one look counts: (start, end], UTC, and from where for targets that were counted before."""

    start: datetime
    end: datetime
    cursors: Cursors

    def window(self, gate: str, variant: Variant, target: Target) -> tuple[float, float] | None:
        """Return what is counted of one target, seconds since the epoch; None if there is nothing to count."""
        start = self.cursors.get(_key(gate, variant, target), self.start.timestamp())
        end = self.end.timestamp()
        return (start, end) if start < end else None


def events_of(gate: str, signal: SignalReading, variant: Variant, span: Span) -> OneArmCounts | None:
    """Count events and requests of one variant; None if no sample of it lies in the span.

    Raises
    ------
    ValueError
        If the variant has no series, or its samples cannot be counted; the message says why.
    """
    return pool(pods_of(gate, signal, variant, span).values())


def pods_of(gate: str, signal: SignalReading, variant: Variant, span: Span) -> Mapping[str, OneArmCounts]:
    """Count events and requests of each target of one variant that has a sample in the span; errors as `events_of`."""
    counts = {
        target.name: _events(target, span.window(gate, variant, target)) for target in _targets(gate, signal, variant)
    }
    return {name: count for name, count in counts.items() if count is not None}


def buckets_of(gate: str, signal: SignalReading, variant: Variant, span: Span) -> Buckets | None:
    """Count requests of one variant by bucket; as `events_of`."""
    return pool_buckets(
        [_buckets(target, span.window(gate, variant, target)) for target in _targets(gate, signal, variant)]
    )


def counted_apart(gate: str, signal: SignalReading, span: Span) -> bool:
    """Return whether the variants' counts cover different times: unless both come from the same scrapes, they do."""
    end = span.end.timestamp()
    arms = [
        {
            (
                target.name,
                span.window(gate, variant, target),
                max((t for t in _times(target) if t <= end), default=None),
            )
            for target in signal.targets.get(variant, ())
        }
        for variant in Variant
    ]
    return arms[0] != arms[1]


def cursors_after(gate: str, signal: SignalReading, span: Span) -> Cursors:
    """Return the cursors after the look: other gates' as they were, this gate's for the targets that there are.

    None lies before the start of the first look at its target: what was served under another weight is not counted
    later on.
    """
    start, end = span.start.timestamp(), span.end.timestamp()
    after = {key: time for key, time in span.cursors.items() if not key.startswith(f"{gate}/")}
    for variant, targets in signal.targets.items():
        for target in targets:
            key = _key(gate, variant, target)
            counted = [time for time in _times(target) if time <= end]
            if counted or key in span.cursors:
                after[key] = max([span.cursors.get(key, start), *counted])
    return after


def _key(gate: str, variant: Variant, target: Target) -> str:
    return f"{gate}/{variant.value}/{target.name}"


def _times(target: Target) -> list[float]:
    """Return when the target was scraped last, by each kind of series that it has."""
    series = [*target.total.values(), *target.buckets.values()]
    times = [sample.time for samples in series for sample in samples]
    return [*times, *(time for time, _ in target.native)]


def _targets(gate: str, signal: SignalReading, variant: Variant) -> tuple[Target, ...]:
    targets = signal.targets.get(variant, ())
    if not targets:
        raise ValueError(f"no series of the {variant.value.lower()} for {gate}")
    return targets


def _events(target: Target, window: tuple[float, float] | None) -> OneArmCounts | None:
    if window is None:
        return None
    return count_events(dict(target.events.items()), dict(target.total.items()), window)


def _buckets(target: Target, window: tuple[float, float] | None) -> Buckets | None:
    if window is None:
        return None
    if target.native:
        return native_gains([NativeSample(time, buckets) for time, buckets in target.native], window)
    return classic_gains(target.buckets, window)
