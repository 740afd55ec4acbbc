"""Raw samples as the API spells them, checked one by one.

A sample that cannot be counted is never dropped: its series is `Unusable`, with the reason in words.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gatestats.counters import Sample

#: Clocks of servers may be this far ahead before their samples are refused.
MOST_AHEAD: Final = timedelta(seconds=5)
_DIGITS_EXACT: Final = 15
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|[+-]?Inf|NaN", re.ASCII)
_LARGEST_EXACT: Final = 2**53
_FARTHEST: Final = 1e11

NativeSample = tuple[float, dict[tuple[float, float], int]]


class UnusableSamplesError(ValueError):
    """A series has a sample that cannot be counted; the message goes on after the name of the series."""


class Span:
    """The samples that a look is about: later than ``low``, up to ``high``, in seconds since the epoch."""

    __slots__ = ("_too_late", "high", "low")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high
        self._too_late = high + MOST_AHEAD.total_seconds()

    def holds(self, time: Any, previous: float) -> bool:
        """Whether a sample belongs to it; refuses times that are none, go back, or lie in the future."""
        if type(time) is float and previous < time and self.low < time <= self.high:
            return True
        if type(time) not in {float, int} or not -_FARTHEST < time < _FARTHEST:  # also refuses NaN
            raise UnusableSamplesError(f"has a sample at {_shown(time)}, which is no time")
        if time <= previous:
            raise UnusableSamplesError(f"has two samples at {moment(time)}, or in the wrong order")
        if time > self._too_late:
            ahead = time - self.high
            raise UnusableSamplesError(
                f"has a sample {ahead:.0f} s in the future, and the limit is {MOST_AHEAD.total_seconds():.0f} s: "
                "set the clocks right"
            )
        return bool(self.low < time <= self.high)


def counter_samples(values: Sequence[Any], span: Span) -> tuple[Sample, ...]:
    """Read the plain samples of one series, those outside the span left out.

    Parameters
    ----------
    values
        Pairs of time and text, oldest first.
    span
        What the look is about. Prometheus 2.x hands on a sample at the very start of a range, 3.x does not.

    Raises
    ------
    UnusableSamplesError
        If any of them is not a whole number from 0 to 2^53 at a time of its own.
    """
    samples = []
    previous = -math.inf
    for pair in values:
        if type(pair) is not list or len(pair) != 2:
            raise UnusableSamplesError("has a sample that is no pair of time and value")
        time, text = pair
        if span.holds(time, previous):
            samples.append(Sample(float(time), _count(text, time)))
        previous = time
    return tuple(samples)


def native_samples(histograms: Sequence[Any], span: Span) -> tuple[NativeSample, ...]:
    """Read the native histogram samples of one series, those outside the span left out.

    Parameters
    ----------
    histograms
        Pairs of time and histogram (``count``, ``sum``, ``buckets`` with rule, low, high, count), oldest first.
    span
        What the look is about.

    Raises
    ------
    UnusableSamplesError
        If any of them is not a histogram with whole counts.
    """
    samples: list[NativeSample] = []
    previous = -math.inf
    for pair in histograms:
        if type(pair) is not list or len(pair) != 2 or type(pair[1]) is not dict:
            raise UnusableSamplesError("has a sample that is no pair of time and histogram")
        time, histogram = pair
        if span.holds(time, previous):
            samples.append((float(time), _buckets(histogram, time)))
        previous = time
    return tuple(samples)


def edge(text: str) -> float:
    """Read the ``le`` of a bucket: Prometheus 2.x writes 1, 3.x writes 1.0."""
    if not _NUMBER.fullmatch(text) or math.isnan(value := float(text)):
        raise UnusableSamplesError(f'has le="{_shown(text)}", which is no edge of a bucket')
    return value


def moment(time: float) -> str:
    """Return a time in seconds since the epoch for a message."""
    try:
        return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):
        return _shown(time)


def _count(text: Any, time: float) -> float:
    if type(text) is not str:
        raise UnusableSamplesError(f"has the value {_shown(text)} at {moment(time)}, which is not spelled as a number")
    if text.isdigit() and text.isascii() and len(text) <= _DIGITS_EXACT:
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise UnusableSamplesError(f"has the value {_shown(text)} at {moment(time)}, which is no number")
    value = float(text)
    if not math.isfinite(value):
        raise UnusableSamplesError(f"is {text} at {moment(time)}: nothing can be counted from it")
    if value < 0:
        raise UnusableSamplesError(f"is {text} at {moment(time)}: a counter is never below 0")
    if value > _LARGEST_EXACT:
        raise UnusableSamplesError(f"is {text} at {moment(time)}, over 2^53, up to which counts are exact")
    if abs(value - round(value)) > 1e-9:
        raise UnusableSamplesError(f"is {text} at {moment(time)}: a counter of requests is a whole number")
    return float(round(value))


def _buckets(histogram: dict[str, Any], time: float) -> dict[tuple[float, float], int]:
    _count(histogram.get("count"), time)
    listed = histogram.get("buckets", [])
    if type(listed) is not list:
        raise UnusableSamplesError(f"has buckets at {moment(time)} that are no list")
    buckets: dict[tuple[float, float], int] = {}
    for bucket in listed:
        if type(bucket) is not list or len(bucket) != 4:
            raise UnusableSamplesError(f"has a bucket at {moment(time)} that is not rule, low, high and count")
        _, low_text, high_text, count = bucket
        low, high = _bound(low_text, time), _bound(high_text, time)
        if low == high:  # a zero bucket without width: [0, 0]
            low = math.nextafter(low, -math.inf)
        if not low < high or (low, high) in buckets:
            raise UnusableSamplesError(f"has the bucket from {low:g} to {high:g} at {moment(time)} twice or reversed")
        buckets[low, high] = round(_count(count, time))
    return buckets


def _bound(text: Any, time: float) -> float:
    if type(text) is not str:
        raise UnusableSamplesError(f"has a bucket at {moment(time)} whose bound is no number")
    return edge(text)


def _shown(thing: Any) -> str:
    text = thing if isinstance(thing, str) else repr(thing) if not isinstance(thing, (dict, list)) else "…"
    return ascii(text[:40])[1:-1] or "nothing"
