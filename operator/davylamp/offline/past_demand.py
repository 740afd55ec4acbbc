"""What the baseline's own history says of the traffic to come: rates, shares, durations, look by look."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from davylamp.core.counting import Cursors, Span, buckets_of, cursors_after, events_of
from davylamp.core.model import Variant
from davylamp.core.plan import Gate, SignalKind
from davylamp.core.reading import Reading, SignalReading
from davylamp.errors import SpecError
from davylamp.offline.demand import Demand, Durations
from davylamp.offline.history import History, read_past
from davylamp.offline.simulation import Source
from davylamp.offline.subject import Subject
from davylamp.offline.traffic import Moment, Resampled, Traffic
from gatestats.buckets import edges_of, rebucket

_NOTHING = SignalReading(targets={})
#: Looks with data that a history must have.
_FEWEST = 6


@dataclass(frozen=True, slots=True)
class Past:
    """The demand that a history shows on average, and its moments to resample from."""

    demand: Demand
    moments: tuple[Moment, ...]
    seconds: float

    def source(self) -> Source:
        """Return what begins each simulated rollout at another moment of the history."""

        def begin(random: np.random.Generator) -> Traffic:
            return Resampled(self.moments, self.seconds, float(random.uniform(0, self.seconds * len(self.moments))))

        return begin


def past_demand(subject: Subject, history: History, span: tuple[datetime, datetime]) -> Past:
    """Return what the baseline served in a range of its history.

    Parameters
    ----------
    subject, history, span
        The rollout, the samples, and the range of the looks.

    Raises
    ------
    SpecError
        If the history holds too little of the baseline.
    """
    looks = list(_looks(subject, history, span))
    gates = subject.plan.gates
    rates = {gate.name: _rate(gate, looks) for gate in gates if gate.kind is not SignalKind.LATENCY}
    totals = [max((look.requests.get(gate.name, 0) for gate in gates), default=0) for look in looks]
    if sum(total > 0 for total in totals) < _FEWEST:
        raise SpecError(
            f"the history shows requests of the baseline in {sum(total > 0 for total in totals)} looks, and at least "
            f"{_FEWEST} are needed: correct --from and --to, or the labels of the baseline"
        )
    seconds = subject.plan.interval.total_seconds()
    durations, buckets = _durations(gates, looks)
    baseline, candidate = looks[-1].servers or 1, 2
    demand = Demand(
        requests=float(np.mean(totals)) / seconds,
        shares=rates,
        durations=durations,
        servers=(max(1, baseline), candidate),
    )
    moments = tuple(
        Moment(total / seconds, {name: look.share(name, rates[name]) for name in rates}, row)
        for look, total, row in zip(looks, totals, buckets, strict=True)
    )
    return Past(demand, moments, seconds)


@dataclass(frozen=True, slots=True)
class _Look:
    """What the baseline did in one look, by gate."""

    requests: Mapping[str, int]
    events: Mapping[str, int]
    buckets: Mapping[tuple[float, float], int]
    servers: int

    def share(self, name: str, otherwise: float) -> float:
        total = self.requests.get(name, 0)
        return self.events.get(name, 0) / total if total else otherwise


def _looks(subject: Subject, history: History, span: tuple[datetime, datetime]) -> list[_Look]:
    found, cursors, (begin, end) = [], dict[str, float](), span
    interval = subject.plan.interval
    for number in range(1, subject.looks(begin, end) + 1):
        window = (begin + (number - 1) * interval, begin + number * interval)
        reading = read_past(history, subject.request(window), subject.settings)
        look, cursors = _counted(subject.plan.gates, reading, Span(*window, cursors))
        found.append(look)
    return found


def _counted(gates: tuple[Gate, ...], reading: Reading, span: Span) -> tuple[_Look, dict[str, float]]:
    requests: dict[str, int] = {}
    events: dict[str, int] = {}
    buckets: dict[tuple[float, float], int] = {}
    servers, cursors = 0, dict(span.cursors)
    for gate in gates:
        signal = reading.signals.get(gate.name, _NOTHING)
        servers = max(servers, len(signal.targets.get(Variant.BASELINE, ())))
        try:
            if gate.kind is SignalKind.LATENCY:
                buckets = dict(buckets_of(gate.name, signal, Variant.BASELINE, span) or {})
            elif (counted := events_of(gate.name, signal, Variant.BASELINE, span)) is not None:
                requests[gate.name], events[gate.name] = counted.total, counted.events
        except ValueError:
            continue  # no series of the baseline for this gate at this moment
        after: Cursors = cursors_after(gate.name, signal, Span(span.start, span.end, cursors))
        cursors = dict(after)
    return _Look(requests, events, buckets, servers), cursors


def _rate(gate: Gate, looks: list[_Look]) -> float:
    total = sum(look.requests.get(gate.name, 0) for look in looks)
    if not total:
        raise SpecError(
            f"the history has no requests of the baseline for {gate.name}: check its selectors and labels with "
            "davylamp lint, or take another range"
        )
    return sum(look.events.get(gate.name, 0) for look in looks) / total


def _durations(gates: tuple[Gate, ...], looks: list[_Look]) -> tuple[Durations | None, list[tuple[float, ...]]]:
    """Return the durations of all looks together, and the shares of each; a look without requests has the average."""
    name = next((gate.name for gate in gates if gate.kind is SignalKind.LATENCY), None)
    pooled: dict[tuple[float, float], int] = {}
    for look in looks:
        for bound, count in look.buckets.items():
            pooled[bound] = pooled.get(bound, 0) + count
    if name is None or not sum(pooled.values()):
        return None, [()] * len(looks)
    try:
        edges = edges_of(pooled)
        rows = [np.array(rebucket(edges, look.buckets), dtype=np.float64) for look in looks]
    except ValueError as unfit:
        raise SpecError(f"the history's durations for {name} cannot be added up: {unfit}") from unfit
    total = np.sum(rows, axis=0)
    average = tuple(float(share) for share in total / total.sum())
    native = float("inf") not in {high for _, high in pooled}
    shares = [tuple(float(share) for share in row / row.sum()) if row.sum() else average for row in rows]
    return replace(Durations(edges, average), native=native), shares
