"""What each look counted, gate by gate, for rules other than Davylamp's: by the counting of the decision itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from davylamp.core.counting import Cursors, Span, buckets_of, cursors_after, events_of
from davylamp.core.latency import Baseline
from davylamp.core.looking import Window
from davylamp.core.model import Variant
from davylamp.core.plan import Gate, SignalKind
from davylamp.core.reading import Reading, SignalReading
from gatestats.buckets import rebucket
from gatestats.ticks import OneArmCounts

_NOTHING: Final = SignalReading(targets={})


@dataclass(frozen=True, slots=True)
class Histogram:
    """Requests by duration: upper ``edges`` in seconds, and ``counts``."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """What both variants showed for one gate in one look."""

    baseline: OneArmCounts | Histogram
    candidate: OneArmCounts | Histogram


@dataclass(frozen=True, slots=True)
class Counted:
    """What one look counted; gates without data of both variants are absent."""

    at: datetime
    pairs: Mapping[str, Pair]


@dataclass(frozen=True, slots=True)
class Counting:
    """How looks are counted one after the other.

    Parameters
    ----------
    gates
        What is counted.
    baselines
        By latency gate, the histogram whose edges are used; a latency gate without one is not counted.
    cursors
        Up to where each target is counted.
    """

    gates: tuple[Gate, ...]
    baselines: Mapping[str, Baseline]
    cursors: Cursors

    def count(self, reading: Reading, window: Window) -> tuple["Counting", Counted]:
        """Return what a look counted, and how the next one is."""
        span, pairs = Span(*window, self.cursors), {}
        for gate in self.gates:
            signal = reading.signals.get(gate.name, _NOTHING)
            if signal.trouble:
                continue
            try:
                pair = self._pair(gate, signal, span)
            except ValueError:
                continue  # Davylamp's own report says what could not be counted
            span = Span(*window, cursors_after(gate.name, signal, span))
            if pair is not None:
                pairs[gate.name] = pair
        return Counting(self.gates, self.baselines, span.cursors), Counted(window[1], pairs)

    def _pair(self, gate: Gate, signal: SignalReading, span: Span) -> Pair | None:
        if gate.kind is not SignalKind.LATENCY:
            arms = [events_of(gate.name, signal, variant, span) or OneArmCounts(0, 0) for variant in Variant]
            return Pair(arms[0], arms[1])
        known = self.baselines.get(gate.name)
        if known is None:
            return None
        sides = [
            Histogram(known.edges, rebucket(known.edges, buckets_of(gate.name, signal, variant, span) or {}))
            for variant in Variant
        ]
        return Pair(sides[0], sides[1])


def requests_of(gate: Gate, reading: Reading, variant: Variant, span: Span) -> int:
    """Return the requests of one variant in a look, >= 0; 0 if they cannot be counted."""
    signal = reading.signals.get(gate.name, _NOTHING)
    try:
        if gate.kind is SignalKind.LATENCY:
            return sum((buckets_of(gate.name, signal, variant, span) or {}).values())
        counted = events_of(gate.name, signal, variant, span)
    except ValueError:
        return 0
    return 0 if counted is None else counted.total
