"""Servers that count, crash and are scraped, each at its own moment: raw samples as a metric source hands them on."""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from davylamp.core.model import Variant
from davylamp.core.reading import Reading, SignalReading, Target
from gatestats.counters import Sample
from tests.simulation_statistics.traffic import Buckets, Gain, Tap, Truth

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ZERO: Final = BEGINNING.timestamp()
#: Seconds that a changed weight takes to reach the data plane.
_DATA_PLANE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Scraping:
    """How the servers are seen.

    Parameters
    ----------
    interval
        Seconds between two scrapes of a server.
    missed, late, restarts
        Shares of scrapes that fail, that arrive up to 12 s late, and before which the server has restarted.
    baseline_servers, candidate_servers
        How many there are.
    gateway
        Whether requests are counted by gateways, which see both variants in one scrape; then as many gateways as
        ``baseline_servers``.
    buckets
        Of the histogram of durations.
    """

    interval: float = 10.0
    missed: float = 0.03
    late: float = 0.05
    restarts: float = 0.004
    baseline_servers: int = 3
    candidate_servers: int = 2
    gateway: bool = False
    buckets: Buckets = Buckets.NATIVE


@dataclass(frozen=True, slots=True)
class Scrape:
    """All that one server showed at one moment, and when it can be queried."""

    time: float
    visible: float
    requests: int
    errors: int
    approvals: int
    refusals: int
    durations: tuple[int, ...]


@dataclass(slots=True)
class Server:
    """One target of one variant; its counters begin at 0 again when it restarts."""

    name: str
    variant: Variant
    durations: list[int]
    at: float = 0.0
    requests: int = 0
    errors: int = 0
    approvals: int = 0
    refusals: int = 0
    scrapes: list[Scrape] = field(default_factory=list)

    def restart(self) -> None:
        """Count from 0 again."""
        self.requests = self.errors = self.approvals = self.refusals = 0
        self.durations = [0] * len(self.durations)

    def count(self, gain: Gain) -> None:
        """Take up what was served."""
        self.requests += gain.requests
        self.errors += gain.errors
        self.approvals += gain.approvals
        self.refusals += gain.refusals
        self.durations = [have + int(more) for have, more in zip(self.durations, gain.durations, strict=True)]

    def scraped(self, time: float, visible: float) -> None:
        """Show the counters; no series exists before the first request."""
        if self.requests or self.scrapes:
            counters = (self.requests, self.errors, self.approvals, self.refusals)
            self.scrapes.append(Scrape(time, visible, *counters, tuple(self.durations)))


class World:
    """Traffic, servers and scrapes of one rollout; times in seconds since its beginning.

    Parameters
    ----------
    truth, scraping
        What is true, and how it is seen.
    seed
        Fixes everything that is random.
    """

    def __init__(self, truth: Truth, scraping: Scraping, seed: int) -> None:
        self.scraping = scraping
        self.random = np.random.default_rng(seed)
        self.tap = Tap(truth, scraping.buckets, self.random)
        self.share = 0.0
        self.began: float | None = None
        self._change: tuple[float, float] | None = None
        counts = {Variant.BASELINE: scraping.baseline_servers, Variant.CANDIDATE: scraping.candidate_servers}
        if scraping.gateway:
            counts[Variant.CANDIDATE] = scraping.baseline_servers
        empty = [0] * (len(scraping.buckets.value) + 1)
        self.servers = {
            v: [Server(f"envoy-{i}" if scraping.gateway else f"{v.value}-{i}", v, list(empty)) for i in range(n)]
            for v, n in counts.items()
        }
        every = [server for servers in self.servers.values() for server in servers]
        #: Servers that are scraped together.
        self._jobs = [[server] for server in every]
        if scraping.gateway:
            self._jobs = [list(pair) for pair in zip(*self.servers.values(), strict=True)]
        self._due = [(float(self.random.uniform(0, scraping.interval)), place) for place in range(len(self._jobs))]
        heapq.heapify(self._due)

    def set_weight(self, now: float, percent: int) -> None:
        """Give the candidate another share of the traffic, shortly after ``now``."""
        if percent and self.began is None:
            self.began = now + _DATA_PLANE
        self._change = (now + _DATA_PLANE, percent / 100)

    def run_until(self, now: float) -> None:
        """Let requests be served and servers be scraped."""
        while True:
            due, place = self._due[0]
            if self._change is not None and self._change[0] <= min(due, now):
                self._advance([server for job in self._jobs for server in job], self._change[0])
                self.share, self._change = self._change[1], None
            elif due <= now:
                self._advance(self._jobs[place], due)
                self._scrape(self._jobs[place], due)
                heapq.heapreplace(self._due, (due + self.scraping.interval, place))
            else:
                return

    def _advance(self, servers: Sequence[Server], to: float) -> None:
        zero = math.inf if self.began is None else self.began
        for server in servers:
            part = self.share if server.variant is Variant.CANDIDATE else 1 - self.share
            # Before the first weight nothing drifts.
            end = max(0.0, to - zero)
            if part > 0 and to > server.at:
                share = part / len(self.servers[server.variant])
                server.count(self.tap.serve(server.variant, share, (end - (to - server.at), end)))
            server.at = to

    def _scrape(self, servers: Sequence[Server], time: float) -> None:
        restarts, missed, late = self.random.random(3)
        if restarts < self.scraping.restarts:
            for server in servers:
                server.restart()
        visible = time + (self.random.uniform(1, 12) if late < self.scraping.late else 0.05)
        if missed < self.scraping.missed:
            return
        for server in servers:
            # Prometheus takes the scrapes of one target in order.
            server.scraped(time, max(visible, server.scrapes[-1].visible if server.scrapes else 0.0))

    def reading(self, low: datetime, now: datetime) -> Reading:
        """Return the raw samples in (low, now] that can be queried by now, for every gate."""
        begin, end = ((moment - BEGINNING).total_seconds() for moment in (low, now))
        seen = {v: [(s.name, _within(s.scrapes, begin, end)) for s in some] for v, some in self.servers.items()}
        errors = _signal(seen, lambda name, s: _counter(name, s, lambda scrape: scrape.errors))
        return Reading(
            {
                "errors": errors,
                "more-errors": errors,
                "approvals": _signal(seen, lambda name, s: _counter(name, s, lambda scrape: scrape.approvals)),
                "refusals": _signal(seen, lambda name, s: _counter(name, s, lambda scrape: scrape.refusals)),
                "latency": _signal(seen, lambda name, s: _histogram(name, s, self.scraping.buckets)),
            }
        )


Seen = dict[Variant, list[tuple[str, list[Scrape]]]]


def _within(scrapes: Sequence[Scrape], begin: float, end: float) -> list[Scrape]:
    recent = scrapes[-12:]
    return [scrape for scrape in recent if begin < scrape.time <= end and scrape.visible <= end]


def _signal(seen: Seen, target: Callable[[str, list[Scrape]], Target]) -> SignalReading:
    targets = {v: tuple(target(name, scrapes) for name, scrapes in some if scrapes) for v, some in seen.items()}
    newest = {v: [scrapes[-1].time for _, scrapes in some if scrapes] for v, some in seen.items()}
    return SignalReading(
        targets={v: some for v, some in targets.items() if some},
        newest={v: datetime.fromtimestamp(_ZERO + max(times), UTC) for v, times in newest.items() if times},
    )


def _counter(name: str, scrapes: Sequence[Scrape], events: Callable[[Scrape], int]) -> Target:
    """Return a pair of counters; that of events exists from the first event on, as client libraries do."""
    happened = tuple(Sample(_ZERO + scrape.time, events(scrape)) for scrape in scrapes if events(scrape))
    return Target(
        name,
        events={"e": happened} if happened else {},
        total={"t": tuple(Sample(_ZERO + scrape.time, scrape.requests) for scrape in scrapes)},
    )


def _histogram(name: str, scrapes: Sequence[Scrape], buckets: Buckets) -> Target:
    edges = (*buckets.value, math.inf)
    if buckets is Buckets.NATIVE:
        bounds = list(pairwise((0.0, *edges)))
        native = tuple(
            (_ZERO + s.time, {bound: count for bound, count in zip(bounds, s.durations, strict=True) if count})
            for s in scrapes
        )
        return Target(name, native=native)
    cumulative = [list(accumulate(s.durations)) for s in scrapes]
    return Target(
        name,
        buckets={
            edge: tuple(Sample(_ZERO + s.time, row[place]) for s, row in zip(scrapes, cumulative, strict=True))
            for place, edge in enumerate(edges)
        },
    )
