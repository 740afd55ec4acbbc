"""What is asked of a metric source, and what it answers: raw samples, without any opinion.

Rule 1: a source hands on raw samples; counting is `gatestats.counters`' alone.
Rule 2: what is missing is said to be missing, and why; it is never an empty success.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from gatestats.counters import Sample


class MatchKind(StrEnum):
    """How a label is matched, as PromQL writes it."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCHES = "=~"
    MATCHES_NOT = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher."""

    label: str
    kind: MatchKind
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Series of one metric.

    Parameters
    ----------
    metric
        Name of a counter, or of a histogram without ``_bucket``.
    matchers
        Beside those of the namespace and of the variant, which are added by the source.
    """

    metric: str
    matchers: tuple[Matcher, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """How a series shows which Kubernetes namespace it belongs to: a rollout sees the series of its own only.

    Parameters
    ----------
    label
        The label that says it.
    beginnings
        What its value begins with, ``{namespace}`` standing for the name; empty if the value is the name itself.
    """

    label: str = "namespace"
    beginnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SignalQuery:
    """Where one gate's signal is found.

    Parameters
    ----------
    gate
        Name of the gate.
    kind
        ERRORS and COUNTER read ``events`` and ``total``; LATENCY reads ``histogram``.
    events, total
        Counters; several are added up (for example success and failure make the total). ``total`` includes events.
    histogram
        A classic or native histogram.
    unit
        Length of one unit of the server's histogram edges: 1 s, or 1 ms for Envoy. What is read is in seconds.
    scope
        How its series show their namespace; those of a gateway do it by another label than those of a pod.
    variants
        Labels that tell the variants' series of this signal apart; empty if those of the request do.
    awaited
        Whether it is a trouble if there are no series; labels, say, come when they come.
    """

    gate: str
    kind: SignalKind
    events: tuple[Selector, ...] = ()
    total: tuple[Selector, ...] = ()
    histogram: Selector | None = None
    unit: timedelta = timedelta(seconds=1)
    scope: Scope = field(default_factory=Scope)
    variants: Mapping[Variant, Mapping[str, str]] = field(default_factory=dict)
    awaited: bool = True


@dataclass(frozen=True, slots=True)
class Request:
    """One look at all signals of a rollout.

    Parameters
    ----------
    namespace
        Added to every selector as a matcher, by the signal's scope; a rollout sees its own namespace only.
    variants
        Labels that tell the variants' series apart, unless the signal has labels of its own.
    signals
        What is read.
    start, end
        The window (start, end], UTC. Samples before ``start`` are handed on as well, as far as ``lookback`` reaches,
        so that the first difference has something to begin from.
    lookback
        How long before ``start``.
    serving
        Whether the candidate has traffic; where a source is asked for too much, those that wait to begin stand back.
    """

    namespace: str
    variants: Mapping[Variant, Mapping[str, str]]
    signals: tuple[SignalQuery, ...]
    start: datetime
    end: datetime
    lookback: timedelta
    serving: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """Raw samples of one scraped target (one pod, or one gateway), series by series, oldest first.

    Parameters
    ----------
    name
        What tells the target from others of the variant, such as its ``instance``.
    events, total
        Cumulative samples by series.
    buckets
        Cumulative samples of a classic histogram's buckets by upper edge (``inf`` included), in seconds.
    native
        Samples of a native histogram: time in seconds since the epoch, and counts per bucket by (low, high) edge in
        seconds, cumulative over time but not over buckets.
    """

    name: str
    events: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    total: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    buckets: Mapping[float, tuple[Sample, ...]] = field(default_factory=dict)
    native: tuple[tuple[float, Mapping[tuple[float, float], int]], ...] = ()


@dataclass(frozen=True, slots=True)
class SignalReading:
    """What was found for one gate.

    Parameters
    ----------
    targets
        By variant; no target at all means that no series was found.
    newest
        Time of the newest sample by variant, UTC; absent if there is none.
    trouble
        Why a variant's samples cannot be used (not a number, a fraction, a stale series, unpaired counters), by
        variant, in one sentence with the series' name; absent if they can.
    """

    targets: Mapping[Variant, tuple[Target, ...]]
    newest: Mapping[Variant, datetime] = field(default_factory=dict)
    trouble: Mapping[Variant, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer to a `Request`: one `SignalReading` for each gate that was asked for."""

    signals: Mapping[str, SignalReading]
