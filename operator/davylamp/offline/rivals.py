"""What other rules would have done with the same counts: thresholds, Kayenta's judge, and a z-test at every look.

These are models of published rules, not runs of their programs. They see what Davylamp counted, in the same windows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from statistics import NormalDist
from typing import Final

import numpy as np

from davylamp.core.latency import Baseline
from davylamp.core.plan import Direction, Gate, Plan, SignalKind
from davylamp.offline.counts import Counted, Histogram, Pair
from davylamp.offline.mann_whitney import shift_of
from gatestats.buckets import positions, quantile_of
from gatestats.ticks import OneArmCounts

#: Flagger's interval between two checks, and that of Kayenta's points.
_MINUTE: Final = timedelta(minutes=1)
#: How often Kayenta's judge is asked.
_JUDGED_EVERY: Final = timedelta(minutes=2)
_KAYENTA_CONFIDENCE: Final = 0.98
_KAYENTA_TOLERANCE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Alarm:
    """When a rule would have taken the traffic back, for which gate, and why."""

    at: datetime
    gate: str
    why: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Fixed limits: ``errors`` as a share, ``p99`` of the latency, and how many failed ``checks`` roll back."""

    errors: float = 0.01
    p99: timedelta = timedelta(milliseconds=500)
    checks: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.errors < 1 or self.p99 <= timedelta(0) or self.checks < 1:
            raise ValueError(
                f"limits must be a share in (0, 1), a time above 0 and at least one check, got {self.errors}, "
                f"{self.p99} and {self.checks}"
            )


Rule = Callable[[Sequence[Counted]], Alarm | None]


def rivals(plan: Plan, thresholds: Thresholds, baselines: Mapping[str, Baseline]) -> Mapping[str, Rule]:
    """Return the other rules by their names for people.

    Parameters
    ----------
    plan
        Gates and rates.
    thresholds
        Fixed limits.
    baselines
        By latency gate, the baseline's histogram from beforehand.
    """
    edges = {name: edge for name, known in baselines.items() if (edge := _tail(known)) is not None}
    limits = f"threshold: errors over {100 * thresholds.errors:.4g} %, p99 over {thresholds.p99.total_seconds():g} s"
    return {
        f"{limits}, {thresholds.checks} failed checks": partial(by_threshold, plan.gates, thresholds),
        "Kayenta's rule: Mann-Whitney at 98 %, tolerance 0.25": partial(by_kayenta, plan.gates),
        f"z-test at every look, p < {plan.false_rollback_rate:g}": partial(by_z, plan, edges),
    }


def by_threshold(gates: Sequence[Gate], limits: Thresholds, looks: Sequence[Counted]) -> Alarm | None:
    """Return when the candidate had failed a fixed limit in so many checks, one a minute, as Argo and Flagger count.

    A check is failed if any limit is; failures add up and are not forgotten. Own counters have no fixed limit. A minute
    without requests is no check.
    """
    failed = 0
    for at, pairs in points(looks, _MINUTE):
        broken = next((said for gate in gates if (said := _breach(gate, limits, pairs))), None)
        failed += broken is not None
        if broken is not None and failed >= limits.checks:
            return Alarm(at, broken[0], f"{broken[1]}, {failed} failed checks")
    return None


def by_kayenta(gates: Sequence[Gate], looks: Sequence[Counted]) -> Alarm | None:
    """Return when Kayenta's judge would have called a gate worse, asked every 2 minutes with all points so far.

    A point is a minute: the share of events, or the mean latency, of each variant. A gate is worse if the 98 % interval
    of the shift lies beyond a quarter of its Hodges-Lehmann estimate. Every gate counts as critical.
    """
    values: dict[str, tuple[list[float], list[float]]] = {gate.name: ([], []) for gate in gates}
    for number, (at, pairs) in enumerate(points(looks, _MINUTE), start=1):
        for gate in gates:
            pair = pairs.get(gate.name)
            means = None if pair is None else (_mean(pair.baseline), _mean(pair.candidate))
            for side, mean in zip(values[gate.name], means or (None, None), strict=True):
                if mean is not None:
                    side.append(mean)
        if number % (_JUDGED_EVERY // _MINUTE):
            continue
        for gate in gates:
            said = _worse_by_kayenta(gate, *values[gate.name])
            if said:
                return Alarm(at, gate.name, said)
    return None


def by_z(plan: Plan, edges: Mapping[str, int], looks: Iterable[Counted]) -> Alarm | None:
    """Return when a pooled z-test of all counts so far had p below the false rollback rate, asked at every look.

    Latency is compared by the share beyond an edge, whose index ``edges`` gives by gate. One-sided where the gate is;
    each gate has the whole rate, as peeking at a dashboard would have it.
    """
    sums = {gate.name: [0, 0, 0, 0] for gate in plan.gates}
    for look in looks:
        for gate in plan.gates:
            pair = look.pairs.get(gate.name)
            if pair is None:
                continue
            arms = [_beyond(arm, edges.get(gate.name, 0)) for arm in (pair.baseline, pair.candidate)]
            total = sums[gate.name]
            for place, more in enumerate((arms[0].events, arms[0].total, arms[1].events, arms[1].total)):
                total[place] += more
            z = _z((total[0], total[1]), (total[2], total[3]))
            if z is not None and _p(z, gate.worse) < plan.false_rollback_rate:
                return Alarm(look.at, gate.name, f"z = {z:.2f}, p = {_p(z, gate.worse):.2g}")
    return None


def points(looks: Iterable[Counted], length: timedelta) -> Iterator[tuple[datetime, Mapping[str, Pair]]]:
    """Yield counts added up over whole spans of time, with the time of the last look in each."""
    first: datetime | None = None
    open_: dict[str, Pair] = {}
    for look in looks:
        first = look.at if first is None else first
        for name, pair in look.pairs.items():
            open_[name] = _added(open_[name], pair) if name in open_ else pair
        if look.at - first >= length * (1 - 1e-9):
            yield look.at, open_
            first, open_ = look.at, {}


def _breach(gate: Gate, limits: Thresholds, pairs: Mapping[str, Pair]) -> tuple[str, str] | None:
    pair = pairs.get(gate.name)
    if pair is None:
        return None
    arm = pair.candidate
    if isinstance(arm, Histogram):
        if not sum(arm.counts):
            return None
        # Beyond the last finite edge Prometheus' histogram_quantile returns that edge.
        p99 = quantile_of(arm.edges, arm.counts, 0.99) or max(filter(math.isfinite, arm.edges))
        seconds = limits.p99.total_seconds()
        return (gate.name, f"p99 {p99:.3g} s, limit {seconds:g} s") if p99 > seconds else None
    if gate.kind is not SignalKind.ERRORS or not arm.total:
        return None
    share = arm.events / arm.total
    return (gate.name, f"errors {share:.2%}, limit {limits.errors:.2%}") if share > limits.errors else None


def _worse_by_kayenta(gate: Gate, baseline: Sequence[float], candidate: Sequence[float]) -> str:
    shift = shift_of(candidate, baseline, _KAYENTA_CONFIDENCE)
    if shift is None:
        return ""
    critical = _KAYENTA_TOLERANCE * abs(shift.estimate)
    higher = gate.worse is not Direction.LOWER and shift.low > critical
    lower = gate.worse is not Direction.HIGHER and shift.high < -critical
    if not higher and not lower:
        return ""
    return f"shift {shift.estimate:+.3g} [{shift.low:+.3g}, {shift.high:+.3g}] over {len(candidate)} minutes"


def _mean(arm: OneArmCounts | Histogram) -> float | None:
    if isinstance(arm, OneArmCounts):
        return arm.events / arm.total if arm.total else None
    total = sum(arm.counts)
    return float(np.exp(positions(arm.edges)) @ np.array(arm.counts)) / total if total else None


def _tail(known: Baseline) -> int | None:
    """Return the index of the finite edge nearest to the baseline's 95th percentile; None without one."""
    p95 = quantile_of(known.edges, known.counts, 0.95) if known.total else None
    if p95 is None:
        return None
    finite = [edge for edge in known.edges if math.isfinite(edge)]
    return min(range(len(finite)), key=lambda index: abs(math.log(finite[index] / p95)))


def _beyond(arm: OneArmCounts | Histogram, edge: int) -> OneArmCounts:
    """Return the counts of an arm; of a histogram, those beyond the edge with this index."""
    return arm if isinstance(arm, OneArmCounts) else OneArmCounts(sum(arm.counts[edge + 1 :]), sum(arm.counts))


def _added(one: Pair, other: Pair) -> Pair:
    return Pair(_sum(one.baseline, other.baseline), _sum(one.candidate, other.candidate))


def _sum(one: OneArmCounts | Histogram, other: OneArmCounts | Histogram) -> OneArmCounts | Histogram:
    if isinstance(one, OneArmCounts) and isinstance(other, OneArmCounts):
        return OneArmCounts(one.events + other.events, one.total + other.total)
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        return Histogram(one.edges, tuple(a + b for a, b in zip(one.counts, other.counts, strict=True)))
    raise TypeError(f"a gate counts shares or durations, not both: {one}, {other}")


def _z(baseline: tuple[int, int], candidate: tuple[int, int]) -> float | None:
    """Return the pooled two-proportion z of (events, total) of the candidate; None if it is not defined."""
    (events, total), (our_events, our_total) = baseline, candidate
    if not total or not our_total or not 0 < events + our_events < total + our_total:
        return None
    pooled = (events + our_events) / (total + our_total)
    error = math.sqrt(pooled * (1 - pooled) * (1 / total + 1 / our_total))
    return (our_events / our_total - events / total) / error


def _p(z: float, worse: Direction) -> float:
    normal = NormalDist()
    match worse:
        case Direction.HIGHER:
            return normal.cdf(-z)
        case Direction.LOWER:
            return normal.cdf(z)
        case Direction.EITHER:
            return 2 * normal.cdf(-abs(z))
