"""Raw samples and plans for the tests of evidence, verdicts and reports; times are seconds after `BEGIN`."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from davylamp.core.evidence import Evidence, Window, observe
from davylamp.core.model import Pair, Variant, Weight
from davylamp.core.plan import Direction, Gate, OddsRatioMargin, Plan, SignalKind, SlowdownMargin, Step, TripWires
from davylamp.core.reading import Reading, SignalReading, Target
from gatestats.counters import Sample

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ZERO = BEGIN.timestamp()
TICK = 10
ERRORS = Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25))
LATENCY = Gate("latency", SignalKind.LATENCY, Direction.HIGHER, SlowdownMargin(0.1))
CLICKS = Gate("clicks", SignalKind.COUNTER, Direction.EITHER, OddsRatioMargin(1.25))
#: Edges that grow by 10 %: they express a slowdown by 10 %.
FINE = (*(0.01 * 1.1**power for power in range(30)), math.inf)
#: Edges of a usual gateway, in milliseconds.
COARSE = (1.0, 5.0, 10.0, 50.0, math.inf)


def plan(*gates: Gate) -> Plan:
    return Plan(
        spec_hash="spec",
        candidate_digest="digest",
        pair=Pair("route", "old:80", "new:80"),
        steps=(
            Step(Weight(5), timedelta(minutes=1), 100),
            Step(None, timedelta(minutes=2)),
            Step(Weight(50), timedelta(minutes=3), 200),
        ),
        gates=gates,
        interval=timedelta(seconds=TICK),
        false_rollback_rate=0.01,
        false_promotion_rate=0.05,
        promotion_bake=timedelta(minutes=5),
        promotion_deadline=timedelta(hours=1),
        cooldown=timedelta(hours=1),
        no_data_tell_after=timedelta(minutes=1),
        no_data_roll_back_after=None,
        trip_wires=TripWires(0.5, 3, 20),
    )


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def window(start: float, end: float) -> Window:
    return at(start), at(end)


def counters(*scrapes: tuple[float, int, int], name: str = "pod") -> Target:
    """Return a target by its scrapes: (second, events, total), cumulative."""
    events = tuple(Sample(ZERO + second, count) for second, count, _ in scrapes)
    total = tuple(Sample(ZERO + second, count) for second, _, count in scrapes)
    return Target(name, events={"e": events}, total={"t": total})


def histogram(edges: Sequence[float], *scrapes: tuple[float, Sequence[int]], name: str = "pod") -> Target:
    """Return a target with a classic histogram: (second, requests in each bucket), cumulative over time."""
    rows = [(second, list(accumulate(counts))) for second, counts in scrapes]
    return Target(
        name,
        buckets={
            edge: tuple(Sample(ZERO + second, row[place]) for second, row in rows) for place, edge in enumerate(edges)
        },
    )


def pair(baseline: Target, candidate: Target) -> SignalReading:
    return SignalReading({Variant.BASELINE: (baseline,), Variant.CANDIDATE: (candidate,)})


def reading(signals: Mapping[str, SignalReading]) -> Reading:
    return Reading(signals)


def steady(per_tick: tuple[int, int], ticks: int) -> Target:
    """Return a target that gains the same (events, total) in each tick."""
    return counters(*((TICK * tick, per_tick[0] * tick, per_tick[1] * tick) for tick in range(ticks + 1)))


def watched(of: Plan, evidence: Evidence, found: Reading, ticks: int) -> Evidence:
    """Return the evidence after looking at every tick in turn."""
    for tick in range(ticks):
        evidence = observe(of, evidence, found, window(TICK * tick, TICK * (tick + 1)))
    return evidence


def spread(edges: Sequence[float], middle: int, requests: int) -> list[int]:
    """Return counts of which six tenths lie in the bucket ``middle`` and two tenths on either side."""
    counts = [0] * len(edges)
    counts[middle - 1], counts[middle], counts[middle + 1] = (
        requests // 5,
        requests - 2 * (requests // 5),
        requests // 5,
    )
    return counts
